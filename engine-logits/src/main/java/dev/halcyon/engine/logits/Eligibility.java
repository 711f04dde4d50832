package dev.halcyon.engine.logits;

import dev.halcyon.engine.logits.HeadDescription.Sharding;
import dev.halcyon.engine.logits.HeadDescription.Weights;

/**
 * Whether a head's context rows can be projected in bounded chunks, and if not, why. What is not
 * eligible is projected whole, for all rows of a chunk at once.
 */
public enum Eligibility {
  ELIGIBLE("bounded"),
  QUANTIZED_HEAD("the head is quantised"),
  LORA_HEAD("adapters change the head"),
  LOCALITY_PARTITIONED("the head is partitioned by locality"),
  ROW_SHARDED("the head is sharded by hidden dimension"),
  UNEVEN_SHARDS("the ranks hold different numbers of vocabulary entries"),
  NOT_GATHERED("the ranks' outputs are not gathered"),
  CONTEXT_PARALLEL("prompts are spread over ranks"),
  ATTENTION_DATA_PARALLEL("ranks compute attention for different requests"),
  SPECULATIVE("rows stand for draft tokens"),
  CONTEXT_LOGITS_PROCESSOR("a logits processor changes context rows");

  private final String reason;

  Eligibility(String reason) {
    this.reason = reason;
  }

  /** The one place where it is decided, for warm-up (with a plain batch) and for each step. */
  public static Eligibility of(HeadDescription head, BatchDescription batch) {
    Eligibility ofHead = of(head);
    if (ofHead != ELIGIBLE) {
      return ofHead;
    }
    if (batch.contextParallel()) {
      return CONTEXT_PARALLEL;
    }
    if (batch.attentionDataParallel()) {
      return ATTENTION_DATA_PARALLEL;
    }
    if (batch.speculative()) {
      return SPECULATIVE;
    }
    return batch.contextLogitsProcessor() ? CONTEXT_LOGITS_PROCESSOR : ELIGIBLE;
  }

  private static Eligibility of(HeadDescription head) {
    if (head.weights() == Weights.QUANTIZED) {
      return QUANTIZED_HEAD;
    }
    if (head.lora()) {
      return LORA_HEAD;
    }
    if (head.localityPartitioned()) {
      return LOCALITY_PARTITIONED;
    }
    if (head.sharding() == Sharding.NONE) {
      return ELIGIBLE;
    }
    if (head.sharding() == Sharding.ROW) {
      return ROW_SHARDED;
    }
    if (head.shardSizes().stream().distinct().count() > 1) {
      return UNEVEN_SHARDS;
    }
    return head.gathersOutput() ? ELIGIBLE : NOT_GATHERED;
  }

  public boolean eligible() {
    return this == ELIGIBLE;
  }

  /** Why not, for a log. */
  public String reason() {
    return reason;
  }
}
