package dev.halcyon.engine.examples;

import dev.halcyon.engine.LoadListener;
import java.time.Duration;
import me.tongfei.progressbar.ProgressBar;
import me.tongfei.progressbar.ProgressBarBuilder;
import me.tongfei.progressbar.ProgressBarStyle;

/** A bar on standard error while a model loads, if that takes long enough to make one wonder. */
final class LoadingBar implements LoadListener, AutoCloseable {

  private static final long PATIENCE_NANOS = Duration.ofMillis(300).toNanos();
  private static final long MEGABYTE = 1_000_000;

  private final boolean enabled;
  private final long startNanos = System.nanoTime();
  private ProgressBar bar;

  /**
   * @param enabled whether to show anything; false where standard error is not a terminal
   */
  LoadingBar(boolean enabled) {
    this.enabled = enabled;
  }

  @Override
  public void progress(long doneBytes, long totalBytes) {
    if (bar == null && enabled && doneBytes < totalBytes && waited()) {
      bar =
          new ProgressBarBuilder()
              .setTaskName("Loading")
              .setStyle(ProgressBarStyle.ASCII)
              .setUnit(" MB", MEGABYTE)
              .setInitialMax(totalBytes)
              .setUpdateIntervalMillis(100)
              .build();
    }
    if (bar != null) {
      bar.stepTo(doneBytes);
    }
  }

  @Override
  public void close() {
    if (bar != null) {
      bar.close();
      bar = null;
    }
  }

  private boolean waited() {
    return System.nanoTime() - startNanos > PATIENCE_NANOS;
  }
}
