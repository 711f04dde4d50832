package dev.halcyon.engine.executor;

import dev.halcyon.engine.DeviceMemoryUse;
import dev.halcyon.engine.kvcache.KvCacheManager;
import java.util.concurrent.Executor;
import java.util.function.LongSupplier;
import java.util.function.Predicate;
import java.util.function.Supplier;

/**
 * What an executor is made of.
 *
 * @param kvManager the books of the KV cache
 * @param runner computes steps
 * @param contexts prepares what requests get of their prompts
 * @param requests checks requests and fills in what they leave open
 * @param delivery where callers' code runs
 * @param isWorker whether a thread is one that a step waits for, and so must not wait for the step
 * @param deviceMemory what device memory is used for
 * @param hostMemoryUsed bytes of host memory that results hold
 * @param transfers how prompts are handed over and taken; null if they can't be
 * @param onEnd frees all that the executor works with, on its thread, once nothing runs any more
 */
public record ExecutorParts(
    KvCacheManager kvManager,
    ModelRunner runner,
    ContextOutputs contexts,
    RequestFactory requests,
    Executor delivery,
    Predicate<Thread> isWorker,
    Supplier<DeviceMemoryUse> deviceMemory,
    LongSupplier hostMemoryUsed,
    TransferParts transfers,
    Runnable onEnd) {}
