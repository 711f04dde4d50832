package dev.halcyon.engine.transfer;

import dev.halcyon.engine.KvTransferException;
import java.nio.ByteBuffer;
import java.util.function.Consumer;

/**
 * A prompt that an engine offers, computed or being computed. It stays in the engine's cache until
 * {@link #end}, or until the engine withdraws it. All methods may be called by any thread.
 */
public interface KvSource {

  /** What it is. */
  KvManifest manifest();

  /**
   * What can be read: all, unless the prompt is offered while it is being computed. Other pieces
   * may be asked for, and wait.
   */
  default KvProgress progress() {
    return KvProgress.of(manifest().tokens());
  }

  /**
   * Names the order in which the engine's cache holds keys and values, for pieces that are
   * {@linkplain KvPiece#stored stored}: to be asked for by nobody but whose sink has the same.
   *
   * @return null if there are no such pieces
   */
  default String order() {
    return null;
  }

  /**
   * Asks for a piece. The engine copies it between two steps of its own, or this call does where
   * the cache allows that.
   *
   * @param to written from its position on, as [keys or values, token, head, headDim] or as they
   *     are stored; the transport's again once {@code done} is called
   * @param done called exactly once, with null or why there is no piece, on any thread; must not
   *     block
   * @throws IllegalArgumentException if the prompt has no such piece, or {@code to} no room
   */
  void read(KvPiece piece, ByteBuffer to, Consumer<KvTransferException> done);

  /**
   * The prompt as it lies in the cache, for a sink that {@linkplain KvSink#accepts(KvView) accepts}
   * it.
   *
   * @return null if others can't copy from there
   */
  default KvView view() {
    return null;
  }

  /**
   * Ends the offer: the engine's blocks are free again. Calls after the first do nothing.
   *
   * @param error null once all was fetched
   */
  void end(KvTransferException error);
}
