package dev.halcyon.engine;

import java.nio.file.Path;

/**
 * What an engine was opened with; {@link EngineBuilder} says what each option means and its
 * default.
 *
 * @param model the checkpoint's directory, or null for the embedded model
 */
public record EngineOptions(
    Path model,
    BackendChoice backend,
    int deviceIndex,
    DTypeChoice dtype,
    int threads,
    long deviceMemoryBytes,
    long hostMemoryBytes,
    int maxBatchSize,
    int maxBatchTokens,
    boolean chunkedPrefill,
    CapacityPolicy capacityPolicy,
    int kvBlockSize,
    double kvCacheFraction,
    Integer kvCacheTokens,
    boolean prefixReuse,
    int maxQueuedRequests,
    QueueFullPolicy queueFullPolicy,
    Integer maxSequenceLength,
    CloseMode closeMode,
    boolean integrityChecks,
    LoadListener progressListener) {}
