package dev.halcyon.engine.benchmarks;

import dev.halcyon.engine.LoadListener;

/** The rate at which weights are loaded, from the first report of progress to the last. */
final class LoadRate implements LoadListener {

  private long firstBytes = -1;
  private long firstNanos;
  private long lastBytes;
  private long lastNanos;

  @Override
  public void progress(long doneBytes, long totalBytes) {
    lastBytes = doneBytes;
    lastNanos = System.nanoTime();
    if (firstBytes < 0) {
      firstBytes = lastBytes;
      firstNanos = lastNanos;
    }
  }

  /** All bytes. */
  long bytes() {
    return lastBytes;
  }

  /** Bytes a second; 0 if there was a single report. */
  double bytesPerSecond() {
    long nanos = lastNanos - firstNanos;
    return nanos == 0 ? 0 : (lastBytes - firstBytes) * 1e9 / nanos;
  }
}
