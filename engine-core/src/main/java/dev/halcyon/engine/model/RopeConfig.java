package dev.halcyon.engine.model;

import dev.halcyon.engine.backend.RopeLayout;

/**
 * A rotary embedding.
 *
 * @param theta the base of the frequencies, above 0
 * @param rotaryDim how many elements of a head rotate, even
 * @param layout which elements of a head rotate together
 * @param scaling how the frequencies are stretched to longer sequences
 */
public record RopeConfig(double theta, int rotaryDim, RopeLayout layout, RopeScaling scaling) {}
