package dev.halcyon.engine.transfer;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;

/**
 * Moves keys and values between engines. Made by the caller, given to engines when they are built,
 * and closed by the caller after them; one transport may serve several engines. Safe for use by
 * several threads.
 *
 * <p>Engines have timeouts of their own on both sides. A transport never blocks an engine's thread,
 * and reports through {@link KvSource#end} and {@link KvSink#end} what it notices earlier: a peer
 * that is gone, data that is damaged, a cancellation by the other side.
 */
public interface KvTransport extends AutoCloseable {

  /**
   * Makes a prompt known, to be fetched once.
   *
   * @throws KvTransferException with reason CLOSED if the transport is closed
   */
  KvOffer offer(KvSource source);

  /**
   * Begins to fetch a prompt. The context side's manifest is compared with the sink's first. A
   * prompt that the transport refuses to hand to this sink stays on offer for another.
   *
   * @throws KvTransferException if the descriptor is not one of this kind of transport, or the
   *     transport is closed; whatever goes wrong later ends the sink
   */
  KvFetch fetch(KvDescriptor descriptor, KvSink sink);

  /** Ends all transfers, on both sides, and frees what the transport holds. */
  @Override
  void close();
}
