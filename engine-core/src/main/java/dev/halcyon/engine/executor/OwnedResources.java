package dev.halcyon.engine.executor;

import java.util.ArrayDeque;
import java.util.Deque;

/** Things to be closed together, the last one opened first. */
final class OwnedResources implements AutoCloseable {

  private final Deque<AutoCloseable> opened = new ArrayDeque<>();

  <T extends AutoCloseable> T add(T resource) {
    opened.push(resource);
    return resource;
  }

  /** Closes all, also when one of them fails; the first failure is thrown in the end. */
  @Override
  public void close() {
    RuntimeException failure = null;
    while (!opened.isEmpty()) {
      try {
        opened.pop().close();
      } catch (Exception e) {
        if (failure == null) {
          failure = new IllegalStateException("Freeing a resource failed: " + e.getMessage(), e);
        } else {
          failure.addSuppressed(e);
        }
      }
    }
    if (failure != null) {
      throw failure;
    }
  }
}
