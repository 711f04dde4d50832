package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.Engine;
import dev.halcyon.engine.GenerationDelta;
import dev.halcyon.engine.GenerationOutput;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.disagg.http.Submission.Part;
import dev.halcyon.engine.disagg.server.Call;
import dev.halcyon.engine.disagg.server.EventStream;
import dev.halcyon.engine.disagg.server.Json;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
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
  private final Submission submission;

  /**
   * @param whenCancelled runs once if the call fails or its client goes away
   */
  Generation(
      Call call,
      ApiRequest request,
      AnswerFormat format,
      ServiceMetrics metrics,
      Runnable whenCancelled) {
    this.call = call;
    this.request = request;
    this.format = format;
    this.submission = new Submission(call, metrics, whenCancelled);
  }

  /**
   * Submits all prompts, or none.
   *
   * @throws RuntimeException as the engine's submit does; then nothing runs
   */
  void start(Engine engine, Duration timeout) {
    start(engine, timeout, null);
  }

  /**
   * As above, with a stream that may have begun before; null for one of its own.
   *
   * @throws RuntimeException as the engine's submit does; then nothing runs
   */
  void start(Engine engine, Duration timeout, EventStream begun) {
    List<ApiRequest.Prompt> prompts = request.prompts();
    boolean runs =
        submission.start(
            prompts.size(),
            i -> {
              Handover handover = prompts.get(i).handover();
              return handover != null && handover.ended() != null
                  ? Part.ended(handover.ended())
                  : Part.running(engine.submit(engineRequest(prompts.get(i), timeout)));
            });
    if (!runs) {
      return;
    }
    if (request.stream()) {
      stream(begun == null ? call.events() : begun);
    } else {
      whole();
    }
  }

  /** Ends all of it with an error. */
  void fail(Throwable failure) {
    submission.fail(failure);
  }

  private GenerationRequest engineRequest(ApiRequest.Prompt prompt, Duration timeout) {
    GenerationRequest.Builder builder = request.engineRequest(prompt, timeout);
    Handover handover = prompt.handover();
    if (handover != null) {
      builder.disaggParams(handover.rest()).firstTokens(handover.firstTokens());
    }
    return builder.build();
  }

  private void whole() {
    submission.afterAll(
        all -> {
          for (GenerationResult result : all) {
            result.outputs().forEach(output -> Submission.requireGoodEnd(output.finishReason()));
          }
          call.respond(200, Call.JSON, Json.bytes(format.whole(all)));
        });
  }

  private void stream(EventStream events) {
    List<Part> parts = submission.parts();
    AtomicInteger running = new AtomicInteger(parts.size());
    Runnable onEnd =
        () -> {
          if (running.decrementAndGet() == 0) {
            endStream(events);
          }
        };
    for (int i = 0; i < parts.size(); i++) {
      AnswerFormat.Chunks chunks = format.chunks(i);
      if (parts.get(i).handle() == null) {
        streamEnded(events, chunks, parts.get(i).result().join(), onEnd);
      } else {
        parts.get(i).handle().deltas().subscribe(new Deltas(events, chunks, onEnd));
      }
    }
  }

  /** The events of outputs that ended with their first token: one delta each. */
  private static void streamEnded(
      EventStream events, AnswerFormat.Chunks chunks, GenerationResult result, Runnable onEnd) {
    List<byte[]> data = new ArrayList<>();
    for (GenerationOutput output : result.outputs()) {
      boolean first = output.index() == 0;
      GenerationDelta delta =
          new GenerationDelta(
              output.index(),
              output.text(),
              output.tokenIds(),
              output.logprobs(),
              output.generationLogits(),
              first ? result.contextLogits() : null,
              first ? result.promptLogprobs() : null,
              output.finishReason());
      chunks.of(delta).forEach(chunk -> data.add(Json.bytes(chunk)));
    }
    events.send(data, onEnd);
  }

  private void endStream(EventStream events) {
    submission.afterAll(
        all -> {
          if (request.streamUsage()) {
            events.send(List.of(Json.bytes(format.usageChunk(all))), () -> {});
          }
          events.done();
        });
  }

  /** Takes one prompt's deltas, the next when the one before is on its way to the client. */
  private final class Deltas implements Flow.Subscriber<GenerationDelta> {

    private final EventStream events;
    private final AnswerFormat.Chunks chunks;
    private final Runnable onEnd;
    private Flow.Subscription subscription;

    Deltas(EventStream events, AnswerFormat.Chunks chunks, Runnable onEnd) {
      this.events = events;
      this.chunks = chunks;
      this.onEnd = onEnd;
    }

    @Override
    public void onSubscribe(Flow.Subscription newSubscription) {
      subscription = newSubscription;
      newSubscription.request(1);
    }

    @Override
    public void onNext(GenerationDelta delta) {
      if (submission.cancelled()) {
        subscription.cancel();
        return;
      }
      try {
        Submission.requireGoodEnd(delta.finishReason());
        List<byte[]> data = chunks.of(delta).stream().map(Json::bytes).toList();
        if (data.isEmpty()) {
          subscription.request(1);
        } else {
          events.send(data, () -> subscription.request(1));
        }
      } catch (RuntimeException | Error e) {
        subscription.cancel();
        submission.fail(e);
      }
    }

    @Override
    public void onError(Throwable failure) {
      submission.fail(failure);
    }

    @Override
    public void onComplete() {
      onEnd.run();
    }
  }
}
