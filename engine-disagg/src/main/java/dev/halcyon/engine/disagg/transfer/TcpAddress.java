package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Where a prompt waits, as its descriptor says: {@code tcp:host:port/transfer}. */
record TcpAddress(String host, int port, UUID transfer) {

  private static final Pattern FORM =
      Pattern.compile("tcp:([0-9A-Za-z._:%\\[\\]-]{1,255}):([0-9]{1,5})/([0-9a-f-]{36})");

  KvDescriptor descriptor() {
    String text = "tcp:" + host + ":" + port + "/" + transfer;
    return new KvDescriptor(text.getBytes(StandardCharsets.US_ASCII));
  }

  /**
   * @throws KvTransferException with reason REFUSED if the descriptor is not of this form
   */
  static TcpAddress of(KvDescriptor descriptor) {
    Matcher matcher = FORM.matcher(new String(descriptor.bytes(), StandardCharsets.ISO_8859_1));
    if (matcher.matches()) {
      try {
        int port = Integer.parseInt(matcher.group(2));
        if (port > 0 && port < 65536) {
          return new TcpAddress(matcher.group(1), port, UUID.fromString(matcher.group(3)));
        }
      } catch (IllegalArgumentException e) {
        // Not a UUID: refused as any other form.
      }
    }
    throw new KvTransferException(
        Reason.REFUSED,
        "kvDescriptor is not one of a TCP transport; both sides need the same kind");
  }
}
