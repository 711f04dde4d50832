package dev.halcyon.engine.model;

/**
 * A rotary embedding.
 *
 * @param theta the base of the frequencies, above 0
 * @param rotaryDim how many elements of a head rotate, even
 * @param scaling how the frequencies are stretched to longer sequences
 */
public record RopeConfig(double theta, int rotaryDim, RopeScaling scaling) {}
