package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.disagg.http.ApiReader.Api;
import dev.halcyon.engine.disagg.http.ApiReader.Body;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Call;
import dev.halcyon.engine.disagg.server.EventStream;
import dev.halcyon.engine.disagg.server.Json;
import java.net.URI;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The decode side of split requests: goes on with what a prefill server hands over, which comes
 * with the request, or which it asks for itself when it has room (generation first).
 */
final class DecodeRole implements AutoCloseable {

  private static final String STYLE = "schedule_style";

  private final Engine engine;
  private final ApiReader reader;
  private final HttpOptions options;
  private final ServiceMetrics metrics;
  private final Executor workers;
  private final HandoverCodec codec;
  private final PrefillClient prefills;

  /** Prompts that are computed elsewhere, for which there is to be a place in the queue. */
  private final AtomicInteger expected = new AtomicInteger();

  DecodeRole(
      Engine engine,
      ApiReader reader,
      HttpOptions options,
      ServiceMetrics metrics,
      Executor workers) {
    this.engine = engine;
    this.reader = reader;
    this.options = options;
    this.metrics = metrics;
    this.workers = workers;
    this.codec = new HandoverCodec(engine, options.split().maxHandoverBytes());
    this.prefills = new PrefillClient(options.split());
  }

  /** Answers a request that has disaggregated_params. */
  void generate(Call call, Body body) {
    Fields split = SplitFields.of(body.split(), SplitFields.GENERATION_ONLY);
    String style = split.text(STYLE);
    if (style == null || style.equals("context_first")) {
      SplitFields.requestId(split);
      JsonNode prompts = split.take("prompts");
      split.refuseOthers();
      ApiRequest request = handedOver(body, prompts);
      generation(call, body.api(), request, () -> {}).start(engine, options.requestTimeout());
    } else if (style.equals("generation_first")) {
      generationFirst(call, body, split);
    } else {
      throw ApiException.invalid(
          split.path(STYLE),
          "'" + split.path(STYLE) + "' must be \"context_first\" or \"generation_first\"");
    }
  }

  /** The request with what was handed over for it. */
  private ApiRequest handedOver(Body body, JsonNode prompts) {
    // A chat's template may say what day it is: the prompt is the one that was computed.
    boolean same = body.api() != Api.CHAT;
    return body.request().withPrompts(codec.fromJson(prompts, body.request(), same));
  }

  private Generation generation(Call call, Api api, ApiRequest request, Runnable whenCancelled) {
    return new Generation(call, request, reader.format(api, request), metrics, whenCancelled);
  }

  private void generationFirst(Call call, Body body, Fields split) {
    String id = SplitFields.requestId(split);
    URI prefill = allowed(split);
    split.refuseOthers();
    int prompts = body.request().prompts().size();
    admit(prompts);
    ObjectNode context = Json.object().setAll(body.json());
    context.set(SplitFields.NAME, SplitFields.contextOnly(id));
    long start = System.nanoTime();
    CompletableFuture<JsonNode> asked;
    try {
      asked = prefills.prefill(prefill, context, options.requestTimeout());
    } catch (RuntimeException | Error e) {
      expected.addAndGet(-prompts);
      throw e;
    }
    Runnable giveUp = () -> prefills.cancel(prefill, id);
    // From now on the client hears that someone is there.
    EventStream events = body.request().stream() ? call.events() : null;
    call.onGone(() -> asked.cancel(true));
    asked.whenCompleteAsync(
        (answer, failure) -> {
          expected.addAndGet(-prompts);
          if (failure != null) {
            giveUp.run();
            if (!asked.isCancelled()) {
              call.fail(Failures.of(failure));
            }
            return;
          }
          Duration left = options.requestTimeout().minusNanos(System.nanoTime() - start);
          if (left.isNegative() || left.isZero()) {
            giveUp.run();
            call.fail(PrefillClient.tooLate());
          } else {
            goOn(call, body, answer, left, events, giveUp);
          }
        },
        workers);
  }

  private void goOn(
      Call call,
      Body body,
      JsonNode answer,
      Duration timeout,
      EventStream events,
      Runnable giveUp) {
    ApiRequest request;
    try {
      request = handedOver(body, answer.path(SplitFields.NAME).get("prompts"));
    } catch (RuntimeException e) {
      giveUp.run();
      call.fail(PrefillClient.unusable(e.getMessage()));
      return;
    }
    try {
      generation(call, body.api(), request, giveUp).start(engine, timeout, events);
    } catch (RuntimeException | Error e) {
      call.fail(Failures.of(e));
    }
  }

  private URI allowed(Fields split) {
    String name = split.path("prefill");
    String text = split.text("prefill");
    try {
      URI uri = text == null ? null : SplitOptions.endpoint(URI.create(text));
      if (uri != null && options.split().prefillEndpoints().contains(uri)) {
        return uri;
      }
    } catch (IllegalArgumentException e) {
      // Refused as any other that is not in the list.
    }
    throw ApiException.invalid(
        name, "'" + name + "' must be one of the prefill endpoints that this server knows");
  }

  /** Sets a place in the queue aside for prompts that are computed elsewhere first. */
  private void admit(int prompts) {
    int most = engine.options().maxQueuedRequests();
    if (expected.addAndGet(prompts) + engine.metrics().waitingSequences() > most) {
      expected.addAndGet(-prompts);
      throw ApiException.queueFull(
          "The queue is full: " + most + " requests wait; try again later");
    }
  }

  @Override
  public void close() {
    prefills.close();
  }
}
