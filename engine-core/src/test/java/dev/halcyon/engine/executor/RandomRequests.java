package dev.halcyon.engine.executor;

import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.PrefixReuse;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TinyCheckpoint;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;

/** Requests of every kind, drawn from a seed. */
final class RandomRequests {

  /** What a test does with a request. */
  enum Fate {
    RUNS,
    CANCELLED,
    TIMES_OUT
  }

  /**
   * @param request what to submit
   * @param fate what is to become of it
   * @param cancelAfter deltas to wait for before cancelling
   */
  record Case(GenerationRequest request, Fate fate, int cancelAfter) {

    /**
     * The same request without stop strings, of which one that was cut short may hold the
     * beginning. It keeps the ids that end it: minTokens rules them out, and so changes what is
     * sampled.
     */
    GenerationRequest unstopped() {
      SamplingParams params = request.params().toBuilder().stop(List.of()).build();
      return GenerationRequest.of(request.promptIds(), params);
    }

    /** The same request without a timeout. */
    GenerationRequest untimed() {
      return GenerationRequest.of(request.promptIds(), request.params());
    }
  }

  private final Random random;
  private final List<int[]> openings = new ArrayList<>();

  RandomRequests(long seed) {
    random = new Random(seed);
    for (int i = 0; i < 4; i++) {
      openings.add(ids(24));
    }
  }

  Case next() {
    Fate fate = random.nextInt(10) > 0 ? Fate.RUNS : Fate.CANCELLED;
    if (random.nextInt(20) == 0) {
      fate = Fate.TIMES_OUT;
    }
    GenerationRequest.Builder request =
        GenerationRequest.builder(prompt())
            .params(params())
            .priority(random.nextInt(8) == 0 ? random.nextInt(3) - 1 : 0)
            .cacheSalt(random.nextInt(5) == 0 ? "tenant" : null)
            .prefixReuse(random.nextInt(10) == 0 ? PrefixReuse.NEVER : PrefixReuse.AUTO);
    if (fate == Fate.TIMES_OUT) {
      request.timeout(Duration.ofNanos(1 + random.nextInt(20_000_000)));
    }
    return new Case(request.build(), fate, random.nextInt(6));
  }

  private int[] prompt() {
    int[] tail = ids(1 + random.nextInt(random.nextBoolean() ? 40 : 8));
    if (random.nextBoolean()) {
      return tail;
    }
    int[] opening = openings.get(random.nextInt(openings.size()));
    int kept = 1 + random.nextInt(opening.length);
    int[] prompt = new int[kept + tail.length];
    System.arraycopy(opening, 0, prompt, 0, kept);
    System.arraycopy(tail, 0, prompt, kept, tail.length);
    return prompt;
  }

  private int[] ids(int count) {
    return random.ints(count, 1, TinyCheckpoint.VOCAB).toArray();
  }

  private SamplingParams params() {
    int maxTokens = 1 + random.nextInt(32);
    SamplingParams.Builder params =
        SamplingParams.builder().maxTokens(maxTokens).seed(random.nextLong());
    switch (random.nextInt(5)) {
      case 0 -> params.temperature(0f);
      case 1 -> params.temperature(0.8f).topK(1 + random.nextInt(50));
      case 2 -> params.temperature(1.3f).topP(0.1f + 0.9f * random.nextFloat());
      case 3 -> params.temperature(1f).minP(0.2f * random.nextFloat());
      default -> params.temperature(0.6f);
    }
    if (random.nextInt(4) == 0) {
      params.repetitionPenalty(1.2f).presencePenalty(0.3f).frequencyPenalty(0.2f);
    }
    if (random.nextInt(6) == 0) {
      params.logitBias(Map.of(random.nextInt(TinyCheckpoint.VOCAB), 3f));
    }
    if (random.nextInt(3) == 0) {
      params.logprobs(random.nextInt(4));
    }
    params.returnGenerationLogits(random.nextInt(5) == 0);
    params.returnContextLogits(random.nextInt(5) == 0);
    params.promptLogprobs(random.nextInt(4) == 0 ? (Integer) random.nextInt(4) : null);
    params.n(random.nextInt(6) == 0 ? 2 + random.nextInt(2) : 1);
    stops(params, maxTokens);
    return params.build();
  }

  private void stops(SamplingParams.Builder params, int maxTokens) {
    params.ignoreEos(random.nextInt(4) == 0);
    params.includeStopInOutput(random.nextInt(4) == 0);
    params.minTokens(random.nextInt(5) == 0 ? random.nextInt(maxTokens + 1) : 0);
    if (random.nextInt(4) == 0) {
      params.stopTokenIds(random.ints(30, 1, TinyCheckpoint.VOCAB).boxed().distinct().toList());
    }
    if (random.nextInt(3) == 0) {
      params.stop(List.of(letter(), letter() + letter(), "th"));
    }
  }

  private String letter() {
    return String.valueOf((char) ('a' + random.nextInt(26)));
  }
}
