package dev.halcyon.engine.sampling;

/**
 * One token to sample.
 *
 * @param row the row of logits to read
 * @param settings how to sample
 * @param history the tokens so far, for penalties and the logits processor
 * @param sampleIndex which of the request's n samples, from 0
 * @param position the index of the new token in the output, from 0
 * @param seed the request's seed; with sampleIndex and position it keys the random draw
 * @param logprobs how many top logprobs to return, 0 for the chosen one alone; -1 for none
 * @param copyLogits whether the result carries a copy of the row before any processing
 */
public record SamplingRow(
    int row,
    SamplingSettings settings,
    TokenHistory history,
    int sampleIndex,
    int position,
    long seed,
    int logprobs,
    boolean copyLogits) {}
