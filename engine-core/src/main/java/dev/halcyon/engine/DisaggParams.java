package dev.halcyon.engine;

import java.util.Collections;
import java.util.List;
import java.util.Objects;

/**
 * How a request is split between a prefill and a decode engine, and what the first hands to the
 * second. Immutable.
 *
 * <p>A caller submits the request with {@link #contextOnly} to the prefill engine. Its result's
 * {@link GenerationResult#disaggParams()} are what the same request, with the same sampling
 * parameters, is then submitted with to the decode engine, whose deltas and result are those of the
 * whole request, the first token included. They are null where the first token ended every output:
 * the prefill engine's result is the whole then.
 *
 * <p>In style {@link ScheduleStyle#GENERATION_FIRST} the handle of the context-only request {@link
 * GenerationHandle#offer() offers} parameters without first tokens before, and the result's
 * parameters, never null but for a request that was cancelled, are the other request's {@link
 * GenerationRequest#firstTokens}; without a descriptor where the first token ended every output.
 *
 * <p>Lists have one entry for each of the request's n outputs. Logits views belong to the one who
 * made them until a generation-only request is submitted with them; then its result hands them on.
 *
 * <p>{@link DisaggChecks} lists what is refused.
 */
public final class DisaggParams {

  /** Most characters of a request id. */
  public static final int MAX_REQUEST_ID = 128;

  private final DisaggRequestType requestType;
  private final String requestId;
  private final ScheduleStyle scheduleStyle;
  private final Long seed;
  private final List<Integer> firstGenTokens;
  private final List<TokenLogprobs> firstGenLogprobs;
  private final List<LogitsView> firstGenLogits;
  private final LogitsView contextLogits;
  private final List<TokenLogprobs> promptLogprobs;
  private final KvDescriptor kvDescriptor;
  private final Usage usage;

  private DisaggParams(Builder builder) {
    this.requestType = builder.requestType;
    this.requestId = builder.requestId;
    this.scheduleStyle = builder.scheduleStyle;
    this.seed = builder.seed;
    this.firstGenTokens = builder.firstGenTokens;
    this.firstGenLogprobs = builder.firstGenLogprobs;
    this.firstGenLogits = builder.firstGenLogits;
    this.contextLogits = builder.contextLogits;
    this.promptLogprobs = builder.promptLogprobs;
    this.kvDescriptor = builder.kvDescriptor;
    this.usage = builder.usage;
  }

  /** For the prefill engine: offer the prompt, then compute it and the first tokens. */
  public static DisaggParams contextOnly(String requestId, ScheduleStyle style) {
    return builder(DisaggRequestType.CONTEXT_ONLY, requestId).scheduleStyle(style).build();
  }

  /** For the prefill engine: compute the prompt and the first tokens. */
  public static DisaggParams contextOnly(String requestId) {
    return builder(DisaggRequestType.CONTEXT_ONLY, requestId).build();
  }

  /**
   * @param requestId the caller's name for the request on both sides: 1 to {@link #MAX_REQUEST_ID}
   *     printable ASCII characters
   */
  public static Builder builder(DisaggRequestType requestType, String requestId) {
    return new Builder(requestType, requestId);
  }

  /** Which part of the request the engine does that it is submitted to. */
  public DisaggRequestType requestType() {
    return requestType;
  }

  /** The caller's name for the request on both sides. */
  public String requestId() {
    return requestId;
  }

  public ScheduleStyle scheduleStyle() {
    return scheduleStyle;
  }

  /** The seed of the first tokens' random draws, with which the draws go on; null if not known. */
  public Long seed() {
    return seed;
  }

  /** The first token of each output; empty in a request for a prefill engine. */
  public List<Integer> firstGenTokens() {
    return firstGenTokens;
  }

  /** Their logprobs, or null if not asked for. */
  public List<TokenLogprobs> firstGenLogprobs() {
    return firstGenLogprobs;
  }

  /** The logits they were drawn from, each [1, vocabSize], or null if not asked for. */
  public List<LogitsView> firstGenLogits() {
    return firstGenLogits;
  }

  /** [prompt ids, vocabSize], or null if not asked for. */
  public LogitsView contextLogits() {
    return contextLogits;
  }

  /** One entry per prompt id, the last one scoring the first token; null if not asked for. */
  public List<TokenLogprobs> promptLogprobs() {
    return promptLogprobs;
  }

  /** Where the prompt's keys and values wait; null in a request for a prefill engine. */
  public KvDescriptor kvDescriptor() {
    return kvDescriptor;
  }

  /** What the prefill engine used, or null. */
  public Usage usage() {
    return usage;
  }

  /** Closes the logits views. Harmless when there are none, or when done twice. */
  public void closeLogits() {
    if (contextLogits != null) {
      contextLogits.close();
    }
    if (firstGenLogits != null) {
      firstGenLogits.forEach(LogitsView::close);
    }
  }

  /** Builds parameters. */
  public static final class Builder {

    private final DisaggRequestType requestType;
    private final String requestId;
    private ScheduleStyle scheduleStyle = ScheduleStyle.CONTEXT_FIRST;
    private Long seed;
    private List<Integer> firstGenTokens = List.of();
    private List<TokenLogprobs> firstGenLogprobs;
    private List<LogitsView> firstGenLogits;
    private LogitsView contextLogits;
    private List<TokenLogprobs> promptLogprobs;
    private KvDescriptor kvDescriptor;
    private Usage usage;

    private Builder(DisaggRequestType requestType, String requestId) {
      this.requestType = Objects.requireNonNull(requestType, "requestType");
      this.requestId = Objects.requireNonNull(requestId, "requestId");
    }

    /** Default: CONTEXT_FIRST. */
    public Builder scheduleStyle(ScheduleStyle scheduleStyle) {
      this.scheduleStyle = Objects.requireNonNull(scheduleStyle, "scheduleStyle");
      return this;
    }

    /** Default: null. */
    public Builder seed(Long seed) {
      this.seed = seed;
      return this;
    }

    /** Default: none. */
    public Builder firstGenTokens(List<Integer> tokens) {
      this.firstGenTokens = List.copyOf(tokens);
      return this;
    }

    /** Default: null. */
    public Builder firstGenLogprobs(List<TokenLogprobs> logprobs) {
      this.firstGenLogprobs = logprobs == null ? null : List.copyOf(logprobs);
      return this;
    }

    /** Default: null. */
    public Builder firstGenLogits(List<LogitsView> logits) {
      this.firstGenLogits = logits == null ? null : List.copyOf(logits);
      return this;
    }

    /** Default: null. */
    public Builder contextLogits(LogitsView logits) {
      this.contextLogits = logits;
      return this;
    }

    /** Default: null. Entries may be made when they are read. */
    public Builder promptLogprobs(List<TokenLogprobs> logprobs) {
      this.promptLogprobs = logprobs == null ? null : Collections.unmodifiableList(logprobs);
      return this;
    }

    /** Default: null. */
    public Builder kvDescriptor(KvDescriptor descriptor) {
      this.kvDescriptor = descriptor;
      return this;
    }

    /** Default: null. */
    public Builder usage(Usage usage) {
      this.usage = usage;
      return this;
    }

    /**
     * @throws IllegalArgumentException if something is missing, or what is given contradicts itself
     */
    public DisaggParams build() {
      DisaggParams params = new DisaggParams(this);
      DisaggChecks.requireConsistent(params);
      return params;
    }
  }
}
