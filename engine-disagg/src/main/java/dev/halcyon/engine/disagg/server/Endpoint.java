package dev.halcyon.engine.disagg.server;

/** Answers calls to one route. */
public interface Endpoint {

  /**
   * Answers, or sees to it that something will. Runs on a worker's thread, which may block for
   * work, but not wait for tokens or clients. What it throws becomes the answer.
   */
  void handle(Call call);
}
