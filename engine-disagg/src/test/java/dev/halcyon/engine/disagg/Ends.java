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

  /** Without workers. */
  public static Ends tcp() {
    return tcp(0);
  }

  /**
   * With a connection more than it has workers. Pieces of 2 KiB, so that small prompts take several
   * of them.
   */
  public static Ends tcp(int workers) {
    TcpTransport context = new TcpTransport(offering(workers).build());
    TcpTransport generation = new TcpTransport(fetching(workers).connections(1 + workers).build());
    return new Ends(
        context, generation, () -> context.openTransfers() + generation.openTransfers());
  }

  /** Without workers. */
  public static Ends ucx() {
    return ucx(0);
  }

  /** Pieces as by {@link #tcp}. */
  public static Ends ucx(int workers) {
    UcxTransport context = new UcxTransport(offering(workers).build());
    UcxTransport generation = new UcxTransport(fetching(workers).build());
    return new Ends(
        context, generation, () -> context.openTransfers() + generation.openTransfers());
  }

  private static NetworkOptions.Builder offering(int workers) {
    return NetworkOptions.builder().token("t").workers(workers);
  }

  private static NetworkOptions.Builder fetching(int workers) {
    return offering(workers).listen(false).pieceBytes(2048);
  }

  /** One that listens and connects, here and in other processes, with all that there may be. */
  public static Ends listening(NetworkTransport kind) {
    NetworkOptions options =
        NetworkOptions.builder()
            .token("between processes")
            .pieceBytes(2048)
            .workers(2)
            .connections(2)
            .build();
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
