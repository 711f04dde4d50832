package dev.halcyon.engine.transfer;

import java.nio.ByteBuffer;

/**
 * The keys and values of some tokens in one layer.
 *
 * @param layer from 0
 * @param firstToken position in the prompt
 * @param count at least 1
 * @param stored whether it lies in the order that both caches have, not as [keys or values, token,
 *     head, headDim]
 */
public record KvPiece(int layer, int firstToken, int count, boolean stored) {

  /** A piece as [keys or values, token, head, headDim]. */
  public KvPiece(int layer, int firstToken, int count) {
    this(layer, firstToken, count, false);
  }

  /** The same tokens in the order that both caches have. */
  public KvPiece asStored() {
    return new KvPiece(layer, firstToken, count, true);
  }

  /**
   * Requires that the piece lies within a prompt.
   *
   * @throws IllegalArgumentException if it doesn't
   */
  public void requireWithin(KvManifest manifest) {
    if (layer < 0
        || layer >= manifest.layout().layers()
        || firstToken < 0
        || count < 1
        || count > manifest.tokens() - firstToken) {
      throw new IllegalArgumentException(
          String.format(
              "%s is outside of %d layers of %d tokens",
              this, manifest.layout().layers(), manifest.tokens()));
    }
  }

  /**
   * Requires that the piece lies within a prompt, and that a buffer has room for it.
   *
   * @throws IllegalArgumentException if it doesn't, or has none
   */
  public void requireReadable(KvManifest manifest, ByteBuffer to) {
    requireWithin(manifest);
    if (to.remaining() < bytes(manifest.layout())) {
      throw new IllegalArgumentException("to has no room for " + this);
    }
  }

  /** The bytes of the piece. */
  public long bytes(KvLayout layout) {
    return (long) count * layout.tokenBytes();
  }
}
