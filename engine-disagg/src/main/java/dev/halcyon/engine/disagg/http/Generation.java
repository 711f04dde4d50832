package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.Engine;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationDelta;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Call;
import dev.halcyon.engine.disagg.server.EventStream;
import dev.halcyon.engine.disagg.server.Json;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Flow;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Runs what one call asks for: hands its prompts to the engine, and their outputs to the client as
 * fast as it reads. A client that reads slowly leaves its outputs with the engine's handles, whose
 * size its sequences bound; one that goes away ends its requests.
 */
final class Generation {

  private final Call call;
  private final ApiRequest request;
  private final AnswerFormat format;
  private final ServiceMetrics metrics;
  private final List<GenerationHandle> handles = new CopyOnWriteArrayList<>();
  private volatile boolean cancelled;

  Generation(Call call, ApiRequest request, AnswerFormat format, ServiceMetrics metrics) {
    this.call = call;
    this.request = request;
    this.format = format;
    this.metrics = metrics;
  }

  /**
   * Submits all prompts, or none.
   *
   * @throws RuntimeException as the engine's submit does; then nothing runs
   */
  void start(Engine engine, Duration timeout) {
    call.onGone(this::cancel);
    try {
      for (ApiRequest.Prompt prompt : request.prompts()) {
        if (!cancelled) {
          handles.add(engine.submit(engineRequest(prompt, timeout)));
        }
      }
    } catch (RuntimeException | Error e) {
      cancel();
      throw e;
    }
    if (cancelled) {
      cancel();
      return;
    }
    List<CompletableFuture<GenerationResult>> results = new ArrayList<>();
    handles.forEach(handle -> results.add(handle.result()));
    for (CompletableFuture<GenerationResult> result : results) {
      result.whenComplete(this::noteEnd);
    }
    if (request.stream()) {
      stream(results);
    } else {
      whole(results);
    }
  }

  private GenerationRequest engineRequest(ApiRequest.Prompt prompt, Duration timeout) {
    return GenerationRequest.builder(prompt.ids())
        .params(request.params())
        .cacheSalt(request.cacheSalt())
        .priority(request.priority())
        .timeout(timeout)
        .build();
  }

  /** Ends all requests. */
  private void cancel() {
    cancelled = true;
    handles.forEach(GenerationHandle::cancel);
  }

  private void noteEnd(GenerationResult result, Throwable failure) {
    if (failure != null) {
      fail(failure);
    } else {
      metrics.requestEnded(result.timing());
    }
  }

  private void fail(Throwable failure) {
    call.fail(Failures.of(failure));
    cancel();
  }

  private void whole(List<CompletableFuture<GenerationResult>> results) {
    afterAll(
        results,
        all -> {
          for (GenerationResult result : all) {
            result.outputs().forEach(output -> requireGoodEnd(output.finishReason()));
          }
          call.respond(200, Call.JSON, Json.bytes(format.whole(all)));
        });
  }

  private void stream(List<CompletableFuture<GenerationResult>> results) {
    EventStream events = call.events();
    AtomicInteger running = new AtomicInteger(handles.size());
    for (int i = 0; i < handles.size(); i++) {
      AnswerFormat.Chunks chunks = format.chunks(i);
      handles.get(i).deltas().subscribe(new Deltas(events, chunks, running, results));
    }
  }

  private void endStream(EventStream events, List<CompletableFuture<GenerationResult>> results) {
    afterAll(
        results,
        all -> {
          if (request.streamUsage()) {
            events.send(List.of(Json.bytes(format.usageChunk(all))), () -> {});
          }
          events.done();
        });
  }

  private interface Conclusion {
    void draw(List<GenerationResult> results);
  }

  private void afterAll(List<CompletableFuture<GenerationResult>> results, Conclusion conclusion) {
    CompletableFuture.allOf(results.toArray(CompletableFuture[]::new))
        .thenRun(() -> conclusion.draw(results.stream().map(CompletableFuture::join).toList()))
        .whenComplete(
            (nothing, failure) -> {
              if (failure != null) {
                fail(failure);
              }
            });
  }

  private static void requireGoodEnd(FinishReason reason) {
    if (reason == FinishReason.TIMEOUT) {
      throw ApiException.failed(504, "timeout", "The request took longer than this server allows");
    } else if (reason != FinishReason.STOP && reason != FinishReason.LENGTH) {
      throw ApiException.failed(503, "cancelled", "The request was cancelled");
    }
  }

  /** Takes one prompt's deltas, the next when the one before is on its way to the client. */
  private final class Deltas implements Flow.Subscriber<GenerationDelta> {

    private final EventStream events;
    private final AnswerFormat.Chunks chunks;
    private final AtomicInteger running;
    private final List<CompletableFuture<GenerationResult>> results;
    private Flow.Subscription subscription;

    Deltas(
        EventStream events,
        AnswerFormat.Chunks chunks,
        AtomicInteger running,
        List<CompletableFuture<GenerationResult>> results) {
      this.events = events;
      this.chunks = chunks;
      this.running = running;
      this.results = results;
    }

    @Override
    public void onSubscribe(Flow.Subscription newSubscription) {
      subscription = newSubscription;
      newSubscription.request(1);
    }

    @Override
    public void onNext(GenerationDelta delta) {
      if (cancelled) {
        subscription.cancel();
        return;
      }
      try {
        if (delta.finishReason() != null) {
          requireGoodEnd(delta.finishReason());
        }
        List<byte[]> data = chunks.of(delta).stream().map(Json::bytes).toList();
        if (data.isEmpty()) {
          subscription.request(1);
        } else {
          events.send(data, () -> subscription.request(1));
        }
      } catch (RuntimeException | Error e) {
        subscription.cancel();
        fail(e);
      }
    }

    @Override
    public void onError(Throwable failure) {
      fail(failure);
    }

    @Override
    public void onComplete() {
      if (running.decrementAndGet() == 0) {
        endStream(events, results);
      }
    }
  }
}
