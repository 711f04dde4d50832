package dev.halcyon.engine.backend;

/**
 * What a backend is opened with.
 *
 * @param threads worker threads for CPU work, at least 1
 * @param memoryBytes the budget of {@link Backend#memory()}; 0 lets the backend choose
 * @param deviceIndex which device, from 0; ignored by the CPU
 */
public record BackendOptions(int threads, long memoryBytes, int deviceIndex) {}
