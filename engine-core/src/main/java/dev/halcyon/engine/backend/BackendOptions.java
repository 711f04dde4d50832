package dev.halcyon.engine.backend;

/**
 * What a backend is opened with.
 *
 * @param threads worker threads for CPU work, at least 1
 * @param memoryBytes the budget of {@link Backend#memory()}; 0 lets the backend choose
 * @param hostMemoryBytes the budget of {@link Backend#hostMemory()}; 0 for a quarter of physical
 *     memory
 * @param deviceIndex which device, from 0; ignored by the CPU
 */
public record BackendOptions(
    int threads, long memoryBytes, long hostMemoryBytes, int deviceIndex) {}
