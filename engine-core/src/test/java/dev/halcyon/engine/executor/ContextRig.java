package dev.halcyon.engine.executor;

import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.EngineOptions;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TestBackend;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.backend.BackendSelector;
import dev.halcyon.engine.executor.StepPlan.Chunk;
import dev.halcyon.engine.logits.BatchDescription;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.function.Function;

/** A tiny model on a rigged backend, and requests for it. */
final class ContextRig implements AutoCloseable {

  final RiggedBackend backend;
  final OpenModel model;

  /** The device memory in use with no request there. */
  final long idleBytes;

  ContextRig(EngineOptions options) {
    this(options, chunks -> BatchDescription.PLAIN);
  }

  ContextRig(EngineOptions options, Function<List<Chunk>, BatchDescription> describe) {
    backend = new RiggedBackend(new TestBackend(options.backend(), 0));
    model = OpenModel.open(options, new BackendSelector(List.of(backend)), describe);
    idleBytes = backend.deviceUsed();
  }

  static EngineBuilder engine(TestBackend backend, Path checkpoint, int maxBatchTokens) {
    return backend
        .engine()
        .model(checkpoint)
        .threads(1)
        .maxBatchSize(8)
        .maxBatchTokens(maxBatchTokens)
        .kvCacheTokens(2048)
        .integrityChecks(true);
  }

  static EngineOptions options(EngineBuilder builder) {
    return TestBackend.options(builder);
  }

  /** Greedy, three tokens, whatever they are. */
  static SamplingParams.Builder greedy() {
    return SamplingParams.builder().temperature(0f).maxTokens(3).ignoreEos(true);
  }

  static SamplingParams full() {
    return greedy().returnContextLogits(true).build();
  }

  static SamplingParams compact(int k) {
    return greedy().promptLogprobs(k).build();
  }

  static SamplingParams both(int k) {
    return greedy().returnContextLogits(true).promptLogprobs(k).build();
  }

  /** A prompt of random ids, the same for the same length. */
  static int[] prompt(int length) {
    return new Random(length).ints(length, 1, TinyCheckpoint.VOCAB).toArray();
  }

  /** The bytes of the full logits of a prompt. */
  static long fullBytes(int length) {
    return 4L * length * TinyCheckpoint.VOCAB;
  }

  static GenerationRequest request(int promptLength, SamplingParams params) {
    return GenerationRequest.of(prompt(promptLength), params);
  }

  GenerationHandle submit(GenerationRequest request) {
    return model.executor().submit(request, request.promptIds());
  }

  GenerationResult run(int promptLength, SamplingParams params) {
    return submit(request(promptLength, params)).await();
  }

  /** What a request says when nothing else runs; its result is closed. */
  Answer answer(int promptLength, SamplingParams params) {
    try (GenerationResult result = run(promptLength, params)) {
      return Answer.of(result);
    }
  }

  @Override
  public void close() {
    model.executor().close();
  }
}
