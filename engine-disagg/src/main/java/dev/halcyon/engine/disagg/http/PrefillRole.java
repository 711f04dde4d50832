package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.disagg.http.ApiReader.Body;
import dev.halcyon.engine.disagg.http.Submission.Part;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Call;
import dev.halcyon.engine.disagg.server.EventStream;
import dev.halcyon.engine.disagg.server.Json;
import dev.halcyon.engine.disagg.server.Route;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;

/**
 * The prefill side of split requests: computes prompts and first tokens, answers with what a decode
 * server goes on with, and frees on demand what is pinned for it.
 */
final class PrefillRole {

  /** How long a name is remembered that was cancelled before its request came. */
  private static final Duration EARLY = Duration.ofSeconds(10);

  private static final int MOST_EARLY = 1 << 16;

  private final Engine engine;
  private final ApiReader reader;
  private final Duration requestTimeout;
  private final ServiceMetrics metrics;
  private final HandoverCodec codec;

  /** What can be cancelled: requests that run, and those whose prompts may still be pinned. */
  private final Map<String, List<Submission>> known = new ConcurrentHashMap<>();

  /**
   * Names that were cancelled and are not known. Their requests may be on their way: over another
   * connection, which was perhaps closed behind them, they may come later.
   */
  private final Set<String> early = ConcurrentHashMap.newKeySet();

  PrefillRole(Engine engine, ApiReader reader, HttpOptions options, ServiceMetrics metrics) {
    this.engine = engine;
    this.reader = reader;
    this.requestTimeout = options.requestTimeout();
    this.metrics = metrics;
    this.codec = new HandoverCodec(engine, options.split().maxHandoverBytes());
  }

  List<Route> routes() {
    return List.of(
        Route.post("/prefill", this::prefill), Route.post("/prefill/cancel", this::cancel));
  }

  private void prefill(Call call) {
    Body body = reader.read(call);
    Fields split = SplitFields.of(body.split(), SplitFields.CONTEXT_ONLY);
    String id = SplitFields.requestId(split);
    ScheduleStyle style = SplitFields.style(split);
    split.refuseOthers();
    Submission submission = new Submission(call, metrics, () -> {});
    add(id, submission);
    if (early.remove(id)) {
      remove(id, submission);
      throw cancelled();
    }
    try {
      boolean runs =
          submission.start(
              body.request().prompts().size(),
              i -> Part.running(engine.submit(contextOnly(body.request(), i, id, style))));
      if (!runs) {
        remove(id, submission);
        call.fail(cancelled()); // by its name, unless the client left
        return;
      }
    } catch (RuntimeException | Error e) {
      remove(id, submission);
      throw e;
    }
    if (style == ScheduleStyle.GENERATION_FIRST) {
      answerTwice(call, id, body.request(), submission);
    } else {
      submission.afterAll(all -> call.respond(200, Call.JSON, handover(id, all)));
    }
    submission.whenEnded(all -> forget(call, id, submission, all));
  }

  private GenerationRequest contextOnly(
      ApiRequest request, int prompt, String id, ScheduleStyle style) {
    return request
        .engineRequest(request.prompts().get(prompt), requestTimeout)
        .disaggParams(DisaggParams.contextOnly(id, style))
        .build();
  }

  /** Two events: what is on offer when all prompts have had a turn, and then what came of them. */
  private void answerTwice(Call call, String id, ApiRequest request, Submission submission) {
    EventStream events = call.events();
    List<CompletableFuture<DisaggParams>> offers =
        submission.parts().stream().map(part -> part.handle().offer()).toList();
    CompletableFuture<Void> offered =
        CompletableFuture.allOf(offers.toArray(CompletableFuture[]::new))
            .thenRun(
                () -> {
                  List<DisaggParams> all = offers.stream().map(CompletableFuture::join).toList();
                  ObjectNode json = codec.offersToJson(id, request.prompts(), all);
                  events.send(List.of(wrapped(json)), () -> {});
                });
    submission.afterAll(
        all -> {
          byte[] second = handover(id, all);
          offered.whenComplete(
              (nothing, failure) -> {
                if (failure != null) {
                  submission.fail(failure);
                } else {
                  events.send(List.of(second), () -> {});
                  events.done();
                }
              });
        });
  }

  private byte[] handover(String id, List<GenerationResult> all) {
    for (GenerationResult result : all) {
      result.outputs().forEach(output -> Submission.requireGoodEnd(output.finishReason()));
    }
    return wrapped(codec.toJson(id, all));
  }

  private static byte[] wrapped(ObjectNode params) {
    return Json.bytes(Json.object().set(SplitFields.NAME, params));
  }

  /**
   * Forgets a request: at once if nothing of it is pinned, else when its pins are gone by
   * themselves. One that makes no progress lasts for the transfer timeout; the end of one that is
   * being fetched later than that is the fetching side's to cancel.
   */
  private void forget(Call call, String id, Submission submission, List<GenerationResult> all) {
    boolean pinned = all.stream().anyMatch(result -> result.disaggParams() != null);
    if (submission.cancelled() || !pinned) {
      remove(id, submission);
    } else {
      long nanos = engine.options().kvTransferTimeout().multipliedBy(2).toNanos();
      call.loop().schedule(() -> remove(id, submission), nanos, TimeUnit.NANOSECONDS);
    }
  }

  private void cancel(Call call) {
    Fields fields = new Fields(Json.parseObject(call.body()), "");
    String id = SplitFields.requestId(fields);
    fields.refuseOthers();
    // In this order, so that a request that comes meanwhile finds the one or is found by the other.
    boolean noted = early.size() < MOST_EARLY && early.add(id);
    List<Submission> found = known.remove(id);
    if (found != null) {
      early.remove(id);
      found.forEach(Submission::cancel);
    } else if (noted) {
      call.loop().schedule(() -> early.remove(id), EARLY.toMillis(), TimeUnit.MILLISECONDS);
    }
    call.respond(200, Call.JSON, Json.bytes(Json.object().put("cancelled", found != null)));
  }

  private static ApiException cancelled() {
    return ApiException.failed(503, "cancelled", "The request was cancelled");
  }

  private void add(String id, Submission submission) {
    known.compute(
        id,
        (key, list) -> {
          List<Submission> all = list == null ? new CopyOnWriteArrayList<>() : list;
          all.add(submission);
          return all;
        });
  }

  private void remove(String id, Submission submission) {
    known.computeIfPresent(
        id,
        (key, list) -> {
          list.remove(submission);
          return list.isEmpty() ? null : list;
        });
  }
}
