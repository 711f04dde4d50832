package dev.halcyon.engine.disagg.transfer;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * Takes the first value that it is given, and ignores others: what a callback ends may fail behind
 * it, and is to end once all the same.
 */
final class Once<T> implements Consumer<T> {

  private final AtomicBoolean given = new AtomicBoolean();
  private final Consumer<T> to;

  Once(Consumer<T> to) {
    this.to = to;
  }

  @Override
  public void accept(T value) {
    if (given.compareAndSet(false, true)) {
      to.accept(value);
    }
  }
}
