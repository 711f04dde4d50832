package dev.halcyon.engine;

/** Told how far the loading of a model has come. Called on the thread that opens the engine. */
@FunctionalInterface
public interface LoadListener {

  /**
   * @param doneBytes bytes of weights loaded so far
   * @param totalBytes bytes of weights in all
   */
  void progress(long doneBytes, long totalBytes);
}
