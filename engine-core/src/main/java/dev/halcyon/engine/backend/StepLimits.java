package dev.halcyon.engine.backend;

/**
 * How large steps can be.
 *
 * @param rows the most rows of a batch
 * @param sequences the most sequences of a batch
 * @param sequenceLength the most tokens of a sequence
 */
public record StepLimits(int rows, int sequences, int sequenceLength) {}
