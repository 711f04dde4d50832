package dev.halcyon.engine;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletionStage;

/**
 * A prompt, how to continue it, and how urgent it is. Immutable. The prompt is a text, token ids or
 * the messages of a conversation.
 */
public final class GenerationRequest {

  private final String prompt;
  private final int[] promptIds;
  private final List<ChatMessage> messages;
  private final SamplingParams params;
  private final String cacheSalt;
  private final int priority;
  private final Duration timeout;
  private final PrefixReuse prefixReuse;
  private final DisaggParams disaggParams;
  private final CompletionStage<DisaggParams> firstTokens;

  private GenerationRequest(Builder builder) {
    this.prompt = builder.prompt;
    this.promptIds = builder.promptIds;
    this.messages = builder.messages;
    this.params = builder.params;
    this.cacheSalt = builder.cacheSalt;
    this.priority = builder.priority;
    this.timeout = builder.timeout;
    this.prefixReuse = builder.prefixReuse;
    this.disaggParams = builder.disaggParams;
    this.firstTokens = builder.firstTokens;
  }

  /** A request for the continuation of a text. */
  public static GenerationRequest of(String prompt, SamplingParams params) {
    return builder(prompt).params(params).build();
  }

  /** A request for the continuation of token ids. */
  public static GenerationRequest of(int[] promptIds, SamplingParams params) {
    return builder(promptIds).params(params).build();
  }

  /** A request for the next message of a conversation, through the checkpoint's chat template. */
  public static GenerationRequest of(List<ChatMessage> messages, SamplingParams params) {
    return builder(messages).params(params).build();
  }

  public static Builder builder(String prompt) {
    Builder builder = new Builder();
    builder.prompt = Objects.requireNonNull(prompt, "prompt");
    return builder;
  }

  public static Builder builder(int[] promptIds) {
    Builder builder = new Builder();
    builder.promptIds = promptIds.clone();
    return builder;
  }

  public static Builder builder(List<ChatMessage> messages) {
    Builder builder = new Builder();
    builder.messages = List.copyOf(messages);
    return builder;
  }

  /** A builder with the values of this one. */
  public Builder toBuilder() {
    Builder builder = new Builder();
    builder.prompt = prompt;
    builder.promptIds = promptIds;
    builder.messages = messages;
    return builder
        .params(params)
        .cacheSalt(cacheSalt)
        .priority(priority)
        .timeout(timeout)
        .prefixReuse(prefixReuse)
        .disaggParams(disaggParams)
        .firstTokens(firstTokens);
  }

  /** The prompt as text, or null. */
  public String prompt() {
    return prompt;
  }

  /** The prompt as ids (a copy), or null. */
  public int[] promptIds() {
    return promptIds == null ? null : promptIds.clone();
  }

  /** The prompt as a conversation, or null. */
  public List<ChatMessage> messages() {
    return messages;
  }

  public SamplingParams params() {
    return params;
  }

  /**
   * Requests share cached prompt blocks only with those of the same salt; null is a salt of its
   * own.
   */
  public String cacheSalt() {
    return cacheSalt;
  }

  /** Higher ones go first; requests of equal priority in the order of submission. */
  public int priority() {
    return priority;
  }

  /** How long the request may take from submission, or null. */
  public Duration timeout() {
    return timeout;
  }

  /** Whether cached prefix blocks may stand in for computing the prompt. */
  public PrefixReuse prefixReuse() {
    return prefixReuse;
  }

  /** Which part of the request the engine does, and what another did of it; null for all of it. */
  public DisaggParams disaggParams() {
    return disaggParams;
  }

  /** What the prefill engine will have done of it, or null. */
  public CompletionStage<DisaggParams> firstTokens() {
    return firstTokens;
  }

  /** Builds a request. */
  public static final class Builder {

    private String prompt;
    private int[] promptIds;
    private List<ChatMessage> messages;
    private SamplingParams params = SamplingParams.builder().build();
    private String cacheSalt;
    private int priority;
    private Duration timeout;
    private PrefixReuse prefixReuse = PrefixReuse.AUTO;
    private DisaggParams disaggParams;
    private CompletionStage<DisaggParams> firstTokens;

    private Builder() {}

    /** Default: {@code SamplingParams.builder().build()}. */
    public Builder params(SamplingParams params) {
      this.params = Objects.requireNonNull(params, "params");
      return this;
    }

    /** Default: null. */
    public Builder cacheSalt(String cacheSalt) {
      this.cacheSalt = cacheSalt;
      return this;
    }

    /** Default: 0. */
    public Builder priority(int priority) {
      this.priority = priority;
      return this;
    }

    /**
     * Default: null, no limit.
     *
     * @throws IllegalArgumentException if it is zero or negative
     */
    public Builder timeout(Duration timeout) {
      if (timeout != null && (timeout.isZero() || timeout.isNegative())) {
        throw new IllegalArgumentException("timeout must be positive, got " + timeout);
      }
      this.timeout = timeout;
      return this;
    }

    /** Default: {@link PrefixReuse#AUTO}. */
    public Builder prefixReuse(PrefixReuse prefixReuse) {
      this.prefixReuse = Objects.requireNonNull(prefixReuse, "prefixReuse");
      return this;
    }

    /** Default: null, the engine does all of the request. */
    public Builder disaggParams(DisaggParams disaggParams) {
      this.disaggParams = disaggParams;
      return this;
    }

    /**
     * Of a generation-only request whose disaggParams are an {@linkplain GenerationHandle#offer
     * offer}: those of the prefill engine's result, once it is there. They are checked then; null,
     * or an error, fails the request. Default: null.
     */
    public Builder firstTokens(CompletionStage<DisaggParams> firstTokens) {
      this.firstTokens = firstTokens;
      return this;
    }

    public GenerationRequest build() {
      return new GenerationRequest(this);
    }
  }
}
