package dev.halcyon.engine;

/** Whether a request may take cached prefix blocks in place of computing its prompt. */
public enum PrefixReuse {

  /**
   * Where the engine has prefix reuse on, unless the request wants rows of its prompt (context
   * logits or prompt logprobs): every one of those has to be computed.
   */
  AUTO,

  /**
   * Also for a request that wants rows of its prompt. If reuse leaves any of them out, the request
   * fails with {@link IncompleteContextLogitsException}.
   */
  REQUIRED,

  /** Never; the blocks that the request computes are still cached for others. */
  NEVER
}
