package dev.halcyon.engine.transfer;

import java.util.Comparator;

/**
 * How far a prompt's computation has come: its first tokens in every layer, and some more in the
 * first layers, where a step is under way.
 *
 * @param tokens how many of the first tokens are there in every layer
 * @param layers how many of the first layers have more
 * @param ahead how many of the first tokens are there in those layers, at least {@code tokens}
 */
public record KvProgress(int tokens, int layers, int ahead) {

  /** As a computation goes on. */
  private static final Comparator<KvProgress> ORDER =
      Comparator.comparingInt((KvProgress progress) -> progress.tokens)
          .thenComparingInt(progress -> progress.ahead)
          .thenComparingInt(progress -> progress.layers);

  /**
   * @throws IllegalArgumentException if a number is negative, or {@code ahead} behind {@code
   *     tokens}
   */
  public KvProgress {
    if (tokens < 0 || layers < 0 || ahead < tokens) {
      throw new IllegalArgumentException(
          String.format("%d tokens, %d in the first %d layers", tokens, ahead, layers));
    }
    layers = ahead == tokens ? 0 : layers;
  }

  /** The same in every layer. */
  public static KvProgress of(int tokens) {
    return new KvProgress(tokens, 0, tokens);
  }

  /** How many of the first tokens are there in a layer. */
  public int tokens(int layer) {
    return layer < layers ? ahead : tokens;
  }

  public boolean contains(KvPiece piece) {
    return piece.firstToken() + piece.count() <= tokens(piece.layer());
  }

  /** The later of this one and another of the same computation. */
  public KvProgress later(KvProgress other) {
    return ORDER.compare(this, other) > 0 ? this : other;
  }
}
