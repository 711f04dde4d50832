package dev.halcyon.engine.model;

/**
 * A family's factors and caps.
 *
 * @param embedding whether embedded tokens are multiplied by the root of the hidden size
 * @param query the number whose inverse root scales query-key products; 0 for the heads' size
 * @param attentionCap soft cap of attention scores; 0 for none
 * @param logitScale the factor on logits
 * @param logitCap soft cap of logits; 0 for none
 */
record ScaleRules(
    boolean embedding,
    NumberRule query,
    NumberRule attentionCap,
    NumberRule logitScale,
    NumberRule logitCap) {

  private static final NumberRule NONE = NumberRule.fixed(0);
  private static final NumberRule ONE = NumberRule.fixed(1);
  private static final NumberRule GEMMA_QUERY = NumberRule.key("query_pre_attn_scalar", 256);
  private static final String LOGIT_CAP = "final_logit_softcapping";

  static final ScaleRules PLAIN = new ScaleRules(false, NONE, NONE, ONE, NONE);
  static final ScaleRules GEMMA2 =
      new ScaleRules(
          true,
          GEMMA_QUERY,
          NumberRule.cap("attn_logit_softcapping", 50),
          ONE,
          NumberRule.cap(LOGIT_CAP, 30));
  static final ScaleRules GEMMA3 =
      new ScaleRules(true, GEMMA_QUERY, NONE, ONE, NumberRule.cap(LOGIT_CAP, 0));
  static final ScaleRules COHERE2 =
      new ScaleRules(false, NONE, NONE, NumberRule.key("logit_scale", 0.0625), NONE);
}
