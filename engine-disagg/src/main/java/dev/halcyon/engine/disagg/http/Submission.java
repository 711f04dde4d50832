package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Call;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.function.IntFunction;

/**
 * The engine's requests of one call, one for each prompt: all are submitted or none, the failure of
 * one ends all, and so does a client that goes away. Their results are closed when all have ended.
 */
final class Submission {

  /**
   * One prompt's request.
   *
   * @param handle null where there is nothing left to run
   */
  record Part(GenerationHandle handle, CompletableFuture<GenerationResult> result) {

    static Part running(GenerationHandle handle) {
      return new Part(handle, handle.result());
    }

    static Part ended(GenerationResult result) {
      return new Part(null, CompletableFuture.completedFuture(result));
    }
  }

  private final Call call;
  private final ServiceMetrics metrics;
  private final Runnable whenCancelled;
  private final AtomicBoolean told = new AtomicBoolean();
  private final List<Part> parts = new CopyOnWriteArrayList<>();
  private volatile boolean cancelled;

  /**
   * @param whenCancelled runs once if the call fails or its client goes away
   */
  Submission(Call call, ServiceMetrics metrics, Runnable whenCancelled) {
    this.call = call;
    this.metrics = metrics;
    this.whenCancelled = whenCancelled;
  }

  /**
   * Submits the requests; returns false if the client went away meanwhile.
   *
   * @param submit the n-th
   * @throws RuntimeException as submit does; then nothing runs
   */
  boolean start(int count, IntFunction<Part> submit) {
    call.onGone(this::cancel);
    try {
      for (int i = 0; i < count && !cancelled; i++) {
        parts.add(submit.apply(i));
      }
    } catch (RuntimeException | Error e) {
      cancel();
      throw e;
    }
    if (cancelled) {
      cancel(); // what was submitted since
      return false;
    }
    for (Part part : parts) {
      if (part.handle() != null) {
        part.result().whenComplete(this::noteEnd);
      }
    }
    return true;
  }

  List<Part> parts() {
    return parts;
  }

  boolean cancelled() {
    return cancelled;
  }

  /** Ends all requests, and what they have left at other engines. */
  void cancel() {
    cancelled = true;
    for (Part part : parts) {
      if (part.handle() != null) {
        part.handle().cancel();
      }
    }
    all().whenComplete((nothing, failure) -> closeResults());
    if (told.compareAndSet(false, true)) {
      whenCancelled.run();
    }
  }

  /** Answers with an error, and ends all requests. */
  void fail(Throwable failure) {
    call.fail(Failures.of(failure));
    cancel();
  }

  /** Hands on all results once they are there, then closes them. */
  void afterAll(Consumer<List<GenerationResult>> conclusion) {
    all()
        .thenRun(() -> conclusion.accept(results()))
        .whenComplete(
            (nothing, failure) -> {
              closeResults();
              if (failure != null) {
                fail(failure);
              }
            });
  }

  /** Runs an action when all have ended, with the results of those that did not fail. */
  void whenEnded(Consumer<List<GenerationResult>> action) {
    all().whenComplete((nothing, failure) -> action.accept(results()));
  }

  /** Throws unless an output ended as it should. */
  static void requireGoodEnd(FinishReason reason) {
    if (reason == FinishReason.TIMEOUT) {
      throw ApiException.failed(504, "timeout", "The request took longer than this server allows");
    } else if (reason == FinishReason.CANCELLED || reason == FinishReason.ERROR) {
      throw ApiException.failed(503, "cancelled", "The request was cancelled");
    }
  }

  private CompletableFuture<Void> all() {
    return CompletableFuture.allOf(
        parts.stream().map(Part::result).toArray(CompletableFuture[]::new));
  }

  private void closeResults() {
    for (GenerationResult result : results()) {
      result.close();
      if (result.disaggParams() != null) {
        result.disaggParams().closeLogits();
      }
    }
  }

  private List<GenerationResult> results() {
    return parts.stream()
        .map(Part::result)
        .filter(result -> result.isDone() && !result.isCompletedExceptionally())
        .map(CompletableFuture::join)
        .toList();
  }

  private void noteEnd(GenerationResult result, Throwable failure) {
    if (failure != null) {
      fail(failure);
    } else {
      metrics.requestEnded(result.timing());
    }
  }
}
