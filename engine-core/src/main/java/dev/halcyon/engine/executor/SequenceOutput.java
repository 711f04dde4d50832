package dev.halcyon.engine.executor;

import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationDelta;
import dev.halcyon.engine.GenerationOutput;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.TokenLogprobs;
import dev.halcyon.engine.sampling.SampledToken;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * What one sample has put out: ids, logprobs and logits by token, and the text. What leaves as
 * deltas is what the assembler calls safe; all are cut at the same token in the end.
 */
final class SequenceOutput {

  private final int index;
  private final int vocabSize;
  private final OutputAssembler assembler;
  private final List<Integer> ids = new ArrayList<>();
  private final boolean simpleLogprobs;
  private final List<TokenLogprobs> logprobs;
  private final List<float[]> logits;
  private final StringBuilder text = new StringBuilder();
  private int released;
  private FinishReason finishReason;
  private String stopString;
  private Integer stopTokenId;

  SequenceOutput(int index, int vocabSize, OutputAssembler assembler, SamplingParams params) {
    this.index = index;
    this.vocabSize = vocabSize;
    this.assembler = assembler;
    this.simpleLogprobs = params.simpleLogprobs();
    this.logprobs = params.logprobs() != null ? new ArrayList<>() : null;
    this.logits = params.returnGenerationLogits() ? new ArrayList<>() : null;
  }

  boolean finished() {
    return finishReason != null;
  }

  FinishReason finishReason() {
    return finishReason;
  }

  /**
   * Adds a token; a stop string that it completes finishes the output.
   *
   * @param stops whether the token is a stop or end id, which finishes it too
   */
  void append(SampledToken token, boolean stops) {
    ids.add(token.tokenId());
    if (logprobs != null) {
      logprobs.add(simpleLogprobs ? simple(token.logprobs()) : token.logprobs());
    }
    if (logits != null) {
      logits.add(token.logits());
    }
    if (stops) {
      stopTokenId = token.tokenId();
      assembler.finishWithStopToken(token.tokenId());
      finishReason = FinishReason.STOP;
      return;
    }
    assembler
        .append(token.tokenId())
        .ifPresent(
            matched -> {
              stopString = matched;
              finishReason = FinishReason.STOP;
            });
  }

  /** Ends the output where it is; what was held back comes out. */
  void finish(FinishReason reason) {
    assembler.finish();
    finishReason = reason;
  }

  /** Ends the output as another engine will go on with it. */
  void suspend() {
    assembler.suspend();
    finishReason = FinishReason.NOT_FINISHED;
  }

  private static TokenLogprobs simple(TokenLogprobs logprobs) {
    float logprob = logprobs.chosen().logprob();
    int id = logprobs.tokenId();
    return new TokenLogprobs(id, Map.of(id, new TokenLogprobs.Entry(logprob, 0)));
  }

  /**
   * What has become safe to hand out since the last call, or null when that is nothing.
   *
   * @param context what the request gets of its prompt, or null
   */
  GenerationDelta takeDelta(ContextOutput context) {
    OutputAssembler.Release release = assembler.takeReleasable();
    if (release.isEmpty() && finishReason == null) {
      return null;
    }
    text.append(release.text());
    released = release.toToken();
    int from = release.fromToken();
    boolean withContext = context != null && context.firstHandOut();
    return new GenerationDelta(
        index,
        release.text(),
        ids.subList(from, released),
        logprobs == null ? null : logprobs.subList(from, released),
        view(from, released),
        withContext ? context.view() : null,
        withContext ? context.logprobs() : null,
        finishReason);
  }

  /** The whole output, once finished and its last delta taken. */
  GenerationOutput output() {
    return new GenerationOutput(
        index,
        text.toString(),
        ids.subList(0, released),
        finishReason,
        stopString,
        stopTokenId,
        logprobs == null ? null : logprobs.subList(0, released),
        view(0, released));
  }

  private LogitsView view(int from, int to) {
    return logits == null ? null : new HostLogits(logits.subList(from, to), vocabSize);
  }
}
