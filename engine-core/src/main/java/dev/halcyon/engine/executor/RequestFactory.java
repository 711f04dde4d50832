package dev.halcyon.engine.executor;

import dev.halcyon.engine.DisaggChecks;
import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.RequestTooLargeException;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.executor.ActiveRequest.RequestSpec;
import dev.halcyon.engine.sampling.SamplingDefaults;
import dev.halcyon.engine.sampling.SamplingResolver;
import dev.halcyon.engine.tokenizer.IncrementalDetokenizer;
import dev.halcyon.engine.tokenizer.Tokenizer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;

/** Checks requests against the model and the engine, and fills in what they leave open. */
final class RequestFactory {

  private final int vocabSize;
  private final int maxSequenceLength;
  private final Set<Integer> endIds;
  private final SamplingDefaults defaults;
  private final Tokenizer tokenizer;
  private final boolean transfers;

  /**
   * @param endIds ids that end an output unless a request ignores them
   * @param tokenizer null if the checkpoint has none
   * @param transfers whether prompts can be handed over and taken
   */
  RequestFactory(
      int vocabSize,
      int maxSequenceLength,
      Set<Integer> endIds,
      SamplingDefaults defaults,
      Tokenizer tokenizer,
      boolean transfers) {
    this.vocabSize = vocabSize;
    this.maxSequenceLength = maxSequenceLength;
    this.endIds = Set.copyOf(endIds);
    this.defaults = defaults;
    this.tokenizer = tokenizer;
    this.transfers = transfers;
  }

  RequestSpec spec(GenerationRequest request, int[] promptIds) {
    SamplingParams params = request.params();
    params.requireFits(vocabSize);
    requireSupported(params);
    int[] prompt = truncated(promptIds, params.truncatePromptTokens());
    requireRightPrompt(prompt);
    DisaggParams disagg = request.disaggParams();
    DisaggChecks.requireFirstTokens(disagg, request.firstTokens() != null);
    if (disagg != null) {
      DisaggChecks.requireFits(disagg, params, prompt, vocabSize, transfers);
    }
    Set<Integer> stopIds = new HashSet<>(params.stopTokenIds());
    if (!params.ignoreEos()) {
      stopIds.addAll(endIds);
    }
    return new RequestSpec(
        prompt,
        params,
        SamplingResolver.resolve(params, defaults, endIds),
        seed(params, disagg),
        Math.min(params.maxTokens(), maxSequenceLength - prompt.length),
        stopIds,
        request.cacheSalt(),
        request.priority(),
        request.timeout() == null ? Long.MAX_VALUE : saturatedNanos(request),
        request.prefixReuse(),
        SplitPart.of(disagg, params));
  }

  /**
   * What was supplied to a request that was submitted before its first tokens were known.
   *
   * @param later null if the prefill engine ended without any
   * @throws RuntimeException if it can't be used
   */
  SplitPart supplied(RequestSpec spec, DisaggParams offer, DisaggParams later) {
    if (later == null) {
      throw new KvTransferException(
          Reason.CANCELLED, "The request ended without first tokens where its prompt was computed");
    }
    DisaggChecks.requireSame(offer, later);
    DisaggChecks.requireFits(later, spec.params(), spec.prompt(), vocabSize, transfers);
    return SplitPart.of(later, spec.params());
  }

  /** The seed asked for, or that of the first tokens, or one of our own. */
  private static long seed(SamplingParams params, DisaggParams disagg) {
    if (params.seed() != null) {
      return params.seed();
    }
    return disagg != null && disagg.seed() != null
        ? disagg.seed()
        : ThreadLocalRandom.current().nextLong();
  }

  /** Fresh outputs, one for each sample. */
  List<SequenceOutput> outputs(RequestSpec spec) {
    SamplingParams params = spec.params();
    StopStrings stops = new StopStrings(params.stop());
    List<SequenceOutput> outputs = new ArrayList<>();
    for (int i = 0; i < params.n(); i++) {
      IncrementalDetokenizer detokenizer =
          params.detokenize() && tokenizer != null
              ? new IncrementalDetokenizer(tokenizer, spec.prompt(), params.skipSpecialTokens())
              : null;
      OutputAssembler assembler =
          new OutputAssembler(detokenizer, stops, params.includeStopInOutput(), params.minTokens());
      outputs.add(new SequenceOutput(i, vocabSize, assembler, params));
    }
    return outputs;
  }

  private void requireSupported(SamplingParams params) {
    if (!params.stop().isEmpty() && (tokenizer == null || !params.detokenize())) {
      throw new IllegalArgumentException(
          "stop strings are matched on text: they need detokenize, and a checkpoint with a tokenizer");
    }
  }

  private static int[] truncated(int[] promptIds, Integer keep) {
    return keep == null || keep >= promptIds.length
        ? promptIds
        : Arrays.copyOfRange(promptIds, promptIds.length - keep, promptIds.length);
  }

  private void requireRightPrompt(int[] prompt) {
    if (prompt.length == 0) {
      throw new IllegalArgumentException("the prompt is empty; it needs at least one token");
    }
    for (int i = 0; i < prompt.length; i++) {
      if (prompt[i] < 0 || prompt[i] >= vocabSize) {
        throw new IllegalArgumentException(
            "prompt token "
                + i
                + " is "
                + prompt[i]
                + ", outside of the vocabulary of "
                + vocabSize);
      }
    }
    if (prompt.length >= maxSequenceLength) {
      throw new RequestTooLargeException(
          String.format(
              "The prompt has %d tokens; with one to generate it exceeds the longest sequence of %d"
                  + " tokens. Shorten it or set truncatePromptTokens",
              prompt.length, maxSequenceLength));
    }
  }

  private static long saturatedNanos(GenerationRequest request) {
    try {
      return request.timeout().toNanos();
    } catch (ArithmeticException e) {
      return Long.MAX_VALUE;
    }
  }
}
