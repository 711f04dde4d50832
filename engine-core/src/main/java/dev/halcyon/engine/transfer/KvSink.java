package dev.halcyon.engine.transfer;

import dev.halcyon.engine.KvTransferException;
import java.nio.ByteBuffer;
import java.util.function.Consumer;

/**
 * A prompt that an engine waits for, with blocks set aside for it. All methods may be called by any
 * thread.
 */
public interface KvSink {

  /** What it is. */
  KvManifest manifest();

  /** The first token that is wanted; those before are in the engine's cache already. */
  int firstToken();

  /** The order in which stored pieces are understood here, as in {@link KvSource#order}. */
  default String order() {
    return null;
  }

  /**
   * Whether the prompt may still be in the making: pieces are asked for as far as the context side
   * says that it has come, and in that order.
   */
  default boolean follows() {
    return false;
  }

  /** The context side computes on, so that it is no fault if nothing comes for a while. */
  default void progress() {}

  /**
   * Hands a piece over. The engine copies it between two steps of its own; one that comes too late
   * is ignored.
   *
   * @param from read from its position on; the transport's again once {@code done} is called
   * @param done called exactly once, with null or why the piece was not taken, on any thread; must
   *     not block
   * @throws IllegalArgumentException if the piece is not one that is wanted, or {@code from} not
   *     its size
   */
  void write(KvPiece piece, ByteBuffer from, Consumer<KvTransferException> done);

  /** Whether the prompt can be copied straight from where it lies, or will lie when complete. */
  default boolean accepts(KvView view) {
    return false;
  }

  /**
   * Copies all that is wanted straight from another engine's cache, in place of pieces. The engine
   * copies some of it between two steps of its own at a time, until it has all, or the transfer
   * ends on either side.
   *
   * @param view complete
   * @param done called exactly once, with null or why not all was copied, on any thread; must not
   *     block
   */
  default void copy(KvView view, Consumer<KvTransferException> done) {
    throw new UnsupportedOperationException("nothing is copied from other caches here");
  }

  /**
   * Ends the transfer. Calls after the first do nothing.
   *
   * @param error null once every piece was written; why there will be no more otherwise
   */
  void end(KvTransferException error);
}
