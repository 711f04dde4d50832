package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.GenerationResult;

/**
 * What a prefill engine did of one prompt.
 *
 * @param promptIds as they were computed
 * @param rest what the decode engine goes on with, or null
 * @param ended the whole result if the first token ended every output, or null
 */
record Handover(int[] promptIds, DisaggParams rest, GenerationResult ended) {}
