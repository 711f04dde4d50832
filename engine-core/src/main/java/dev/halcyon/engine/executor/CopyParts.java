package dev.halcyon.engine.executor;

import dev.halcyon.engine.backend.KvRange;

/**
 * Cuts a copy of a prompt into parts of about the same size: several layers where they are small,
 * else some tokens of one. Parts end where blocks do, if one has more tokens than a block.
 */
final class CopyParts {

  private final int firstToken;
  private final int endToken;
  private final int layers;
  private final int layersAtOnce;
  private final int tokensAtOnce;
  private final int blockSize;
  private int layer;
  private int token;

  /**
   * @param firstToken the first one that is copied
   * @param endToken behind the last one
   * @param tokenBytes of a token in a layer
   * @param partBytes how large parts are to be at most; a token's of a layer if that is more
   */
  CopyParts(
      int firstToken, int endToken, int layers, int blockSize, int tokenBytes, long partBytes) {
    long layerBytes = (long) (endToken - firstToken) * tokenBytes;
    this.firstToken = firstToken;
    this.endToken = endToken;
    this.layers = layers;
    this.blockSize = blockSize;
    this.layersAtOnce = (int) Math.min(layers, Math.max(1, partBytes / layerBytes));
    this.tokensAtOnce = (int) Math.min(endToken - firstToken, Math.max(1, partBytes / tokenBytes));
    this.token = firstToken;
  }

  /** The next part; null if there is none. */
  KvRange next() {
    if (layer >= layers) {
      return null;
    }
    int end = Math.min(endToken, token + tokensAtOnce);
    int wholeEnd = end - end % blockSize;
    if (end < endToken && wholeEnd > token) {
      end = wholeEnd;
    }
    int atOnce = Math.min(layersAtOnce, layers - layer);
    KvRange part = new KvRange(layer, atOnce, token, end - token);
    if (end < endToken) {
      token = end;
    } else {
      token = firstToken;
      layer += atOnce;
    }
    return part;
  }
}
