package dev.halcyon.engine.disagg;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.TestBackend;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.UnaryOperator;

/** An engine that does whole requests, and two that share them. */
final class SplitRig implements AutoCloseable {

  /** Less than the engines' transfers last: their timeout is not what ends one. */
  private static final Duration SOON = Duration.ofSeconds(10);

  final Engine whole;
  final Engine prefill;
  final Engine decode;
  private final TestBackend backend;
  private final Ends ends;
  private int requests;

  private SplitRig(
      TestBackend backend,
      Path model,
      Ends ends,
      UnaryOperator<EngineBuilder> both,
      UnaryOperator<EngineBuilder> onPrefill,
      UnaryOperator<EngineBuilder> onDecode) {
    this.backend = backend;
    this.ends = ends;
    whole = both.apply(engine(backend, model)).build();
    prefill =
        onPrefill.apply(both.apply(engine(backend, model).kvTransport(ends.context()))).build();
    decode =
        onDecode.apply(both.apply(engine(backend, model).kvTransport(ends.generation()))).build();
  }

  /**
   * @param model null for the default model
   * @param ends of the way between the engines
   * @param both options of all three engines
   */
  static SplitRig of(Path model, Ends ends, UnaryOperator<EngineBuilder> both) {
    return of(TestBackend.CPU, model, ends, both, b -> b, b -> b);
  }

  /** Engines with options of their own. */
  static SplitRig of(
      TestBackend backend,
      Path model,
      Ends ends,
      UnaryOperator<EngineBuilder> both,
      UnaryOperator<EngineBuilder> onPrefill,
      UnaryOperator<EngineBuilder> onDecode) {
    return new SplitRig(backend, model, ends, both, onPrefill, onDecode);
  }

  /** One of the engines, on the CPU. */
  static EngineBuilder engine(Path model) {
    return engine(TestBackend.CPU, model);
  }

  private static EngineBuilder engine(TestBackend backend, Path model) {
    EngineBuilder builder = backend.engine();
    return (model == null ? builder.defaultModel() : builder.model(model))
        .threads(1)
        .maxBatchSize(4)
        .kvCacheTokens(1024)
        .deviceMemoryBytes(256 << 20)
        .kvTransferTimeout(Duration.ofSeconds(20))
        .integrityChecks(true);
  }

  /** The request in one engine. */
  Outcome whole(GenerationRequest request) {
    return Outcome.of(whole.submit(request));
  }

  /** The request in two engines. */
  Outcome split(GenerationRequest request) {
    GenerationHandle context = submitContext(request);
    GenerationResult first = context.await();
    if (first.disaggParams() == null) {
      first
          .outputs()
          .forEach(o -> assertThat(o.finishReason()).isNotEqualTo(FinishReason.NOT_FINISHED));
      return Outcome.of(context);
    }
    GenerationRequest rest = request.toBuilder().disaggParams(first.disaggParams()).build();
    return Outcome.of(decode.submit(rest));
  }

  /** The request in two engines, in either style. */
  Outcome split(GenerationRequest request, ScheduleStyle style) {
    return style == ScheduleStyle.CONTEXT_FIRST ? split(request) : overlapped(request);
  }

  /**
   * Has engines compute a prompt, which stays in their caches; the one that does whole requests has
   * what the prefill engine has.
   */
  void cache(int[] prompt, PrefixAt where) {
    GenerationRequest request =
        GenerationRequest.of(prompt, SamplingParams.builder().maxTokens(1).build());
    if (where.prefill()) {
      whole.generate(request).close();
      prefill.generate(request).close();
    }
    if (where.decode()) {
      decode.generate(request).close();
    }
  }

  /** The request in two engines, the second of which begins while the first computes. */
  Outcome overlapped(GenerationRequest request) {
    GenerationHandle context = submitOffering(request);
    return Outcome.of(decode.submit(following(request, context)));
  }

  /** The context-only half of a request, which offers its prompt before it is computed. */
  GenerationHandle submitOffering(GenerationRequest request) {
    DisaggParams context =
        DisaggParams.contextOnly("r" + ++requests, ScheduleStyle.GENERATION_FIRST);
    return prefill.submit(request.toBuilder().disaggParams(context).build());
  }

  /** The generation-only half of a request whose context-only half runs. */
  static GenerationRequest following(GenerationRequest request, GenerationHandle context) {
    return request.toBuilder()
        .disaggParams(context.offer().orTimeout(10, TimeUnit.SECONDS).join())
        .firstTokens(context.result().thenApply(GenerationResult::disaggParams))
        .build();
  }

  /** The context-only half of a request. */
  GenerationHandle submitContext(GenerationRequest request) {
    return prefill.submit(
        request.toBuilder().disaggParams(DisaggParams.contextOnly("r" + ++requests)).build());
  }

  void assertSame(GenerationRequest request) {
    Outcome expected = whole(request);
    assertSame(split(request), expected);
  }

  /** Requires that two outcomes of a request are equal, but for what the backend may round. */
  void assertSame(Outcome split, Outcome expected) {
    split.assertSame(expected, backend.rounding());
  }

  /** Requires that nothing of any request is left in the two engines. */
  void assertClean() {
    await("no transfer is open", () -> ends.openTransfers().getAsInt() == 0);
    for (Engine engine : List.of(prefill, decode)) {
      await("nothing is left in an engine", () -> Idleness.isIdle(engine));
    }
  }

  static void await(String what, BooleanSupplier condition) {
    Waiting.await(what, SOON, condition);
  }

  @Override
  public void close() {
    whole.close();
    prefill.close();
    decode.close();
    ends.close();
  }
}
