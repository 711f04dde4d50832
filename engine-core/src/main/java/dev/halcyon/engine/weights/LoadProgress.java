package dev.halcyon.engine.weights;

/** Hears how far the loading of weights has come; called on the loading thread. */
@FunctionalInterface
public interface LoadProgress {

  /** A listener that does nothing. */
  LoadProgress NONE = (done, total) -> {};

  /**
   * @param bytesDone bytes of weights loaded so far: 0 in the first call, {@code bytesTotal} in the
   *     last
   * @param bytesTotal bytes of weights to load
   */
  void progress(long bytesDone, long bytesTotal);
}
