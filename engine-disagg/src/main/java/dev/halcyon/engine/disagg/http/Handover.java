package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.GenerationResult;
import java.util.concurrent.CompletableFuture;

/**
 * What a prefill engine did of one prompt, or is about to do.
 *
 * @param promptIds as they are computed
 * @param rest what the decode engine goes on with, or null
 * @param firstTokens what comes when the prompt is computed, if rest is an offer of one that is
 *     not; else null
 * @param ended the whole result if the first token ended every output, or null
 */
record Handover(
    int[] promptIds,
    DisaggParams rest,
    CompletableFuture<DisaggParams> firstTokens,
    GenerationResult ended) {}
