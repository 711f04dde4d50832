package dev.halcyon.engine;

import dev.halcyon.engine.transfer.KvTransport;
import java.nio.file.Path;
import java.time.Duration;

/**
 * What an engine was opened with; {@link EngineBuilder} says what each option means and its
 * default.
 *
 * @param model the checkpoint's directory, or null for the embedded model
 * @param kvTransport the way to other engines, or null
 */
public record EngineOptions(
    Path model,
    BackendChoice backend,
    int deviceIndex,
    DTypeChoice dtype,
    boolean deviceGraphs,
    boolean deterministic,
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
    LoadListener progressListener,
    KvTransport kvTransport,
    Duration kvTransferTimeout) {}
