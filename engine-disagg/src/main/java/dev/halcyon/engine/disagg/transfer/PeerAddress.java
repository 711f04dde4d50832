package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Where a prompt waits, as its descriptor says: {@code scheme:host:port/transfer}.
 *
 * @param scheme the kind of transport
 */
record PeerAddress(String scheme, String host, int port, UUID transfer) {

  private static final Pattern FORM =
      Pattern.compile("([a-z]+):([0-9A-Za-z._:%\\[\\]-]{1,255}):([0-9]{1,5})/([0-9a-f-]{36})");

  /** The peer itself. */
  String peer() {
    return host + ":" + port;
  }

  KvDescriptor descriptor() {
    String text = scheme + ":" + host + ":" + port + "/" + transfer;
    return new KvDescriptor(text.getBytes(StandardCharsets.US_ASCII));
  }

  /**
   * @throws KvTransferException with reason REFUSED if the descriptor is not of this form and
   *     scheme
   */
  static PeerAddress of(String scheme, KvDescriptor descriptor) {
    Matcher matcher = FORM.matcher(new String(descriptor.bytes(), StandardCharsets.ISO_8859_1));
    if (matcher.matches() && matcher.group(1).equals(scheme)) {
      try {
        int port = Integer.parseInt(matcher.group(3));
        if (port > 0 && port < 65536) {
          return new PeerAddress(scheme, matcher.group(2), port, UUID.fromString(matcher.group(4)));
        }
      } catch (IllegalArgumentException e) {
        // Not a UUID: refused as any other form.
      }
    }
    throw new KvTransferException(
        Reason.REFUSED,
        "kvDescriptor is not one of a transport of kind "
            + scheme
            + "; both sides need the same kind");
  }
}
