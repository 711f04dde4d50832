package dev.halcyon.engine.disagg;

import dev.halcyon.engine.disagg.transfer.InProcessTransport;
import dev.halcyon.engine.disagg.transfer.NetworkOptions;
import dev.halcyon.engine.disagg.transfer.NetworkTransport;
import dev.halcyon.engine.disagg.transfer.TcpTransport;
import dev.halcyon.engine.disagg.transfer.UcxTransport;
import dev.halcyon.engine.transfer.KvTransport;
import java.util.function.IntSupplier;

/**
 * The two ends of a way between engines, which may be one.
 *
 * @param openTransfers how many transfers they know of
 */
public record Ends(KvTransport context, KvTransport generation, IntSupplier openTransfers) {

  public static Ends inProcess() {
    InProcessTransport transport = new InProcessTransport();
    return new Ends(transport, transport, transport::openTransfers);
  }

  /** Pieces of 2 KiB, so that small prompts take several of them. */
  public static Ends tcp() {
    TcpTransport context = new TcpTransport(NetworkOptions.builder().token("t").build());
    TcpTransport generation =
        new TcpTransport(
            NetworkOptions.builder().listen(false).token("t").pieceBytes(2048).build());
    return new Ends(
        context, generation, () -> context.openTransfers() + generation.openTransfers());
  }

  /** As {@link #tcp}. */
  public static Ends ucx() {
    UcxTransport context = new UcxTransport(NetworkOptions.builder().token("t").build());
    UcxTransport generation =
        new UcxTransport(
            NetworkOptions.builder().listen(false).token("t").pieceBytes(2048).build());
    return new Ends(
        context, generation, () -> context.openTransfers() + generation.openTransfers());
  }

  /** One that listens and connects, here and in other processes. */
  public static Ends listening(NetworkTransport kind) {
    NetworkOptions options =
        NetworkOptions.builder().token("between processes").pieceBytes(2048).build();
    if (kind == NetworkTransport.TCP) {
      TcpTransport transport = new TcpTransport(options);
      return new Ends(transport, transport, transport::openTransfers);
    }
    UcxTransport transport = new UcxTransport(options);
    return new Ends(transport, transport, transport::openTransfers);
  }

  public static Ends of(KvTransport both) {
    return new Ends(both, both, () -> 0);
  }

  public void close() {
    generation.close();
    context.close();
  }
}
