package dev.halcyon.engine.sampling;

import dev.halcyon.engine.TokenLogprobs;

/**
 * What sampling one row gave.
 *
 * @param tokenId the token chosen
 * @param logprobs the logprobs asked for, or null
 * @param logits [vocabSize] a copy of the row before any processing, or null
 * @param error null, or why this row could not be sampled; nothing else counts then
 */
public record SampledToken(
    int tokenId, TokenLogprobs logprobs, float[] logits, RuntimeException error) {}
