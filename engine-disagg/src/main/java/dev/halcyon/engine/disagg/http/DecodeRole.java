package dev.halcyon.engine.disagg.http;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.disagg.http.ApiReader.Api;
import dev.halcyon.engine.disagg.http.ApiReader.Body;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Call;
import dev.halcyon.engine.disagg.server.EventStream;
import dev.halcyon.engine.disagg.server.Json;
import java.net.URI;
import java.time.Duration;
import java.util.concurrent.CancellationException;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The decode side of split requests: goes on with what a prefill server hands over, which comes
 * with the request, or which it asks for itself when it has room (generation first).
 */
final class DecodeRole implements AutoCloseable {

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
    if (SplitFields.style(split) == ScheduleStyle.GENERATION_FIRST) {
      generationFirst(call, body, split);
      return;
    }
    SplitFields.requestId(split);
    JsonNode prompts = split.take(SplitFields.PROMPTS);
    split.refuseOthers();
    ApiRequest request =
        body.request().withPrompts(codec.fromJson(prompts, body.request(), samePrompts(body)));
    generation(call, body.api(), request, () -> {}).start(engine, options.requestTimeout());
  }

  /** A chat's template may say what day it is: the prompt is the one that is computed. */
  private static boolean samePrompts(Body body) {
    return body.api() != Api.CHAT;
  }

  private Generation generation(Call call, Api api, ApiRequest request, Runnable whenCancelled) {
    return new Generation(call, request, reader.format(api, request), metrics, whenCancelled);
  }

  private void generationFirst(Call call, Body body, Fields split) {
    String id = SplitFields.requestId(split);
    URI prefill = allowed(split);
    split.refuseOthers();
    admit(body.request().prompts().size());
    new RemotePrefill(call, body, prefill, id).start();
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

  /** A request whose prompts are computed at a prefill server that is asked from here. */
  private final class RemotePrefill {

    private final Call call;
    private final Body body;
    private final URI prefill;
    private final String id;
    private final long start = System.nanoTime();
    private PrefillAnswer asked;
    private EventStream events;

    RemotePrefill(Call call, Body body, URI prefill, String id) {
      this.call = call;
      this.body = body;
      this.prefill = prefill;
      this.id = id;
    }

    void start() {
      ObjectNode context = Json.object().setAll(body.json());
      context.set(SplitFields.NAME, SplitFields.contextOffered(id));
      try {
        asked = prefills.prefill(prefill, context, options.requestTimeout());
      } catch (RuntimeException | Error e) {
        leaveQueue();
        throw e;
      }
      if (body.request().stream()) {
        events = call.events(); // from now on the client hears that someone is there
      }
      call.onGone(asked::cancel);
      asked.offers().whenCompleteAsync(this::offered, workers);
    }

    private void leaveQueue() {
      expected.addAndGet(-body.request().prompts().size());
    }

    private void giveUp() {
      asked.cancel();
      prefills.cancel(prefill, id);
    }

    private void giveUp(ApiException reason) {
      giveUp();
      call.fail(reason);
    }

    private void offered(JsonNode offers, Throwable failure) {
      leaveQueue();
      if (failure instanceof CancellationException) {
        giveUp(); // the client is gone
      } else if (failure != null) {
        giveUp(Failures.of(failure));
      } else {
        Duration left = options.requestTimeout().minusNanos(System.nanoTime() - start);
        if (left.isNegative() || left.isZero()) {
          giveUp(PrefillClient.tooLate());
        } else {
          fetch(offers, left);
        }
      }
    }

    private void fetch(JsonNode offers, Duration timeout) {
      ApiRequest request;
      try {
        request =
            body.request()
                .withPrompts(
                    codec.offersFromJson(prompts(offers), body.request(), samePrompts(body)));
      } catch (RuntimeException e) {
        giveUp(PrefillClient.unusable(e.getMessage()));
        return;
      }
      Generation generation = generation(call, body.api(), request, this::giveUp);
      try {
        generation.start(engine, timeout, events);
      } catch (RuntimeException | Error e) {
        call.fail(Failures.of(e));
        return;
      }
      asked
          .firstTokens()
          .whenCompleteAsync((tokens, lost) -> goOn(generation, request, tokens, lost), workers);
    }

    private void goOn(Generation generation, ApiRequest request, JsonNode tokens, Throwable lost) {
      if (lost instanceof CancellationException) {
        return; // whoever gave up has told why
      }
      if (lost != null) {
        generation.fail(lost);
        return;
      }
      try {
        codec.completeFromJson(prompts(tokens), request);
      } catch (RuntimeException e) {
        generation.fail(PrefillClient.unusable(e.getMessage()));
      }
    }

    private static JsonNode prompts(JsonNode answer) {
      return answer.path(SplitFields.NAME).get(SplitFields.PROMPTS);
    }
  }
}
