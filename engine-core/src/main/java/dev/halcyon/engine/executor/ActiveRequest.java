package dev.halcyon.engine.executor;

import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.DisaggRequestType;
import dev.halcyon.engine.GenerationDelta;
import dev.halcyon.engine.GenerationOutput;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.LogitsView;
import dev.halcyon.engine.PrefixReuse;
import dev.halcyon.engine.RequestTiming;
import dev.halcyon.engine.SamplingParams;
import dev.halcyon.engine.Usage;
import dev.halcyon.engine.sampling.SampledToken;
import dev.halcyon.engine.sampling.SamplingSettings;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * A request on its way through the executor: what was asked, its sequences, its outputs, its clock.
 */
final class ActiveRequest {

  private final long id;
  private final RequestSpec spec;
  private final RequestHandle handle;
  private final long submittedNanos;
  private final List<SequenceOutput> outputs;
  private final List<Sequence> sequences = new ArrayList<>();
  private long scheduledNanos;
  private long firstTokenNanos;
  private long lastTokenNanos;
  private boolean scheduled;
  private int generatedTokens;
  private int cachedPromptTokens;
  private boolean ended;
  private ContextOutput context;
  private Transfer transfer;
  private DisaggParams continuation;
  private SplitPart split;

  /** How far the keys and values of the prompt are that another engine computed. */
  private enum Transfer {
    NEEDED,
    UNDER_WAY,
    /** They are here, or were never needed. From now on a pause computes them anew. */
    DONE
  }

  /**
   * What the executor is asked to run, checked and with every default filled in.
   *
   * @param prompt token ids, at least one
   * @param params as the caller gave them
   * @param settings how to sample
   * @param seed the key of the random draws
   * @param maxTokens most tokens per output, after the limit of the sequence length
   * @param stopIds ids that end an output
   * @param cacheSalt which cached blocks may be shared
   * @param priority higher goes first
   * @param timeoutNanos from submission, or Long.MAX_VALUE
   * @param prefixReuse whether cached blocks may be read
   * @param split which part of a split request it is
   */
  record RequestSpec(
      int[] prompt,
      SamplingParams params,
      SamplingSettings settings,
      long seed,
      int maxTokens,
      Set<Integer> stopIds,
      String cacheSalt,
      int priority,
      long timeoutNanos,
      PrefixReuse prefixReuse,
      SplitPart split) {}

  ActiveRequest(
      long id, RequestSpec spec, RequestHandle handle, List<SequenceOutput> outputs, long now) {
    this.id = id;
    this.spec = spec;
    this.handle = handle;
    this.outputs = List.copyOf(outputs);
    this.submittedNanos = now;
    sequences.add(new Sequence(this, 0));
    transfer = spec.split().generationOnly() ? Transfer.NEEDED : Transfer.DONE;
    take(spec.split());
  }

  private void take(SplitPart part) {
    split = part;
    if (part.generationOnly() && hasFirstTokens() && wantsContext()) {
      context = ContextOutput.received(part.contextLogits(), part.promptLogprobs());
    }
  }

  /** Its part of a split request, with what is known of another engine's. */
  SplitPart split() {
    return split;
  }

  /** What another engine did came later than the request. */
  void supply(SplitPart rest) {
    take(rest);
  }

  /** Whether another engine's first tokens end all outputs. */
  boolean endsByFirstTokens() {
    return hasFirstTokens() && split.kvDescriptor() == null;
  }

  /** Whether nothing of a generation-only request has to come any more but keys and values. */
  boolean hasFirstTokens() {
    return !split.firstTokens().isEmpty();
  }

  long id() {
    return id;
  }

  int[] prompt() {
    return spec.prompt();
  }

  RequestSpec spec() {
    return spec;
  }

  SamplingParams params() {
    return spec.params();
  }

  int priority() {
    return spec.priority();
  }

  RequestHandle handle() {
    return handle;
  }

  int samples() {
    return outputs.size();
  }

  SequenceOutput output(int sampleIndex) {
    return outputs.get(sampleIndex);
  }

  List<SequenceOutput> outputs() {
    return outputs;
  }

  /** Streams what an output has gained since. */
  void handOut(SequenceOutput output) {
    GenerationDelta delta = output.takeDelta(context);
    if (delta != null) {
      handle.publish(delta);
    }
  }

  /** Whether rows of the prompt are wanted. */
  boolean wantsContext() {
    return ContextOutputs.wanted(params());
  }

  /** What it gets of its prompt; null if that is nothing, or was not prepared yet. */
  ContextOutput context() {
    return context;
  }

  void prepareContext(ContextOutput prepared) {
    context = prepared;
  }

  /** Frees full logits of the prompt, handed out or not. */
  void releaseContext() {
    if (context != null) {
      context.release();
    }
  }

  /** Whether cached blocks may be attached: not while rows of the prompt are still to come. */
  boolean readsCache() {
    boolean needsEveryRow =
        !split.generationOnly() && wantsContext() && (context == null || !context.complete());
    return switch (spec.prefixReuse()) {
      case AUTO -> !needsEveryRow;
      case REQUIRED -> true;
      case NEVER -> false;
    };
  }

  /** Whether the prompt's keys and values are to be fetched before anything is computed. */
  boolean needsTransfer() {
    return transfer == Transfer.NEEDED;
  }

  /** Whether they are on their way. */
  boolean receiving() {
    return transfer == Transfer.UNDER_WAY;
  }

  void markReceiving() {
    transfer = Transfer.UNDER_WAY;
  }

  void markReceived() {
    transfer = Transfer.DONE;
  }

  /** What another engine begins with while the prompt is computed. */
  DisaggParams early(KvDescriptor descriptor) {
    return DisaggParams.builder(DisaggRequestType.GENERATION_ONLY, split.requestId())
        .scheduleStyle(split.style())
        .seed(spec.seed())
        .kvDescriptor(descriptor)
        .build();
  }

  /**
   * Notes what another engine will go on with.
   *
   * @param descriptor null if the first tokens ended all outputs
   */
  void continueElsewhere(List<SampledToken> firstTokens, KvDescriptor descriptor) {
    List<LogitsView> logits = null;
    if (params().returnGenerationLogits()) {
      logits = new ArrayList<>();
      for (SampledToken token : firstTokens) {
        logits.add(new HostLogits(List.of(token.logits()), token.logits().length));
      }
    }
    continuation =
        DisaggParams.builder(DisaggRequestType.GENERATION_ONLY, split.requestId())
            .scheduleStyle(split.style())
            .seed(spec.seed())
            .firstGenTokens(firstTokens.stream().map(SampledToken::tokenId).toList())
            .firstGenLogprobs(
                params().logprobs() == null
                    ? null
                    : firstTokens.stream().map(SampledToken::logprobs).toList())
            .firstGenLogits(logits)
            .contextLogits(context == null ? null : context.view())
            .promptLogprobs(context == null ? null : context.logprobs())
            .kvDescriptor(descriptor)
            .usage(usage())
            .build();
  }

  private Usage usage() {
    Usage before = split.usage();
    int cached = before == null ? cachedPromptTokens : before.cachedPromptTokens();
    return new Usage(prompt().length, cached, generatedTokens);
  }

  /** The sequences so far: the first alone until the prompt is computed, then one per sample. */
  List<Sequence> sequences() {
    return sequences;
  }

  /** Whether the sequences of all samples exist. */
  boolean forked() {
    return sequences.size() == outputs.size();
  }

  boolean ended() {
    return ended;
  }

  void markEnded() {
    ended = true;
  }

  boolean hasTimeout() {
    return spec.timeoutNanos() != Long.MAX_VALUE;
  }

  /** Nanoseconds from {@code now} until the timeout; not positive once it has passed. */
  long nanosLeft(long now) {
    return spec.timeoutNanos() - (now - submittedNanos);
  }

  /** Returns whether this is the first time that the request was scheduled. */
  boolean markScheduled(long now, int reusedTokens) {
    if (scheduled) {
      return false;
    }
    scheduled = true;
    scheduledNanos = now;
    cachedPromptTokens = reusedTokens;
    return true;
  }

  void markToken(long now) {
    if (generatedTokens++ == 0) {
      firstTokenNanos = now;
    }
    lastTokenNanos = now;
  }

  GenerationResult result(long now) {
    List<GenerationOutput> ends = outputs.stream().map(SequenceOutput::output).toList();
    List<Integer> ids = Arrays.stream(prompt()).boxed().collect(Collectors.toList());
    return new GenerationResult(
        id,
        ids,
        ends,
        context == null ? null : context.view(),
        context == null ? null : context.logprobs(),
        usage(),
        timing(now),
        continuation);
  }

  private RequestTiming timing(long now) {
    double seconds = (lastTokenNanos - firstTokenNanos) / 1e9;
    int afterFirst = generatedTokens - 1;
    return new RequestTiming(
        Duration.ofNanos((scheduled ? scheduledNanos : now) - submittedNanos),
        generatedTokens == 0 ? null : Duration.ofNanos(firstTokenNanos - submittedNanos),
        Duration.ofNanos(now - submittedNanos),
        afterFirst > 0 && seconds > 0 ? afterFirst / seconds : 0);
  }
}
