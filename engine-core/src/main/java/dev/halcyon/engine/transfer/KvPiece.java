package dev.halcyon.engine.transfer;

/**
 * The keys and values of some tokens in one layer.
 *
 * @param layer from 0
 * @param firstToken position in the prompt
 * @param count at least 1
 */
public record KvPiece(int layer, int firstToken, int count) {

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

  /** The bytes of the piece. */
  public long bytes(KvLayout layout) {
    return (long) count * layout.tokenBytes();
  }
}
