package dev.halcyon.engine.backend;

import java.util.ArrayDeque;
import java.util.Deque;

/** Things to close together, the last one first; closing twice closes nothing more. */
public final class Owned implements AutoCloseable {

  private final Deque<Runnable> closers = new ArrayDeque<>();

  /** Takes note of how to close something that was just made. */
  public void add(Runnable close) {
    closers.push(close);
  }

  /** Closes everything, even if one close fails; the first failure is thrown when all is done. */
  @Override
  public void close() {
    RuntimeException failure = null;
    while (!closers.isEmpty()) {
      try {
        closers.pop().run();
      } catch (RuntimeException e) {
        if (failure == null) {
          failure = e;
        } else {
          failure.addSuppressed(e);
        }
      }
    }
    if (failure != null) {
      throw failure;
    }
  }

  /** Closes everything because of {@code cause}, which keeps hold of what goes wrong meanwhile. */
  public void closeAfter(Throwable cause) {
    try {
      close();
    } catch (RuntimeException e) {
      cause.addSuppressed(e);
    }
  }
}
