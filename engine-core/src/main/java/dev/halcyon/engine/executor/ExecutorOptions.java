package dev.halcyon.engine.executor;

import dev.halcyon.engine.CapacityPolicy;
import dev.halcyon.engine.CloseMode;
import dev.halcyon.engine.QueueFullPolicy;

/**
 * What the executor works by.
 *
 * @param maxBatchSize sequences in one step
 * @param maxBatchTokens rows in one step, at least maxBatchSize
 * @param chunkedPrefill whether a prompt may be computed over several steps
 * @param capacityPolicy when a request is let in
 * @param maxQueuedRequests requests that may wait for their first turn
 * @param queueFullPolicy what submit does beyond that
 * @param closeMode what close does with unfinished requests
 * @param integrityChecks whether the KV cache's books are checked whenever the executor is idle
 */
public record ExecutorOptions(
    int maxBatchSize,
    int maxBatchTokens,
    boolean chunkedPrefill,
    CapacityPolicy capacityPolicy,
    int maxQueuedRequests,
    QueueFullPolicy queueFullPolicy,
    CloseMode closeMode,
    boolean integrityChecks) {}
