package dev.halcyon.engine.executor;

import java.util.ArrayDeque;

/** A rate over the last stretch of working time; idle time does not count. */
final class RateWindow {

  private record Step(long nanos, int tokens) {}

  private final long windowNanos;
  private final ArrayDeque<Step> steps = new ArrayDeque<>();
  private long nanos;
  private long tokens;

  RateWindow(long windowNanos) {
    this.windowNanos = windowNanos;
  }

  void add(long stepNanos, int stepTokens) {
    steps.add(new Step(stepNanos, stepTokens));
    nanos += stepNanos;
    tokens += stepTokens;
    while (steps.size() > 1 && nanos - steps.peek().nanos() >= windowNanos) {
      Step old = steps.poll();
      nanos -= old.nanos();
      tokens -= old.tokens();
    }
  }

  double perSecond() {
    return nanos == 0 ? 0 : tokens * 1e9 / nanos;
  }
}
