package dev.halcyon.engine;

/**
 * What a request used.
 *
 * @param promptTokens tokens of the prompt
 * @param cachedPromptTokens how many of them were taken from the prefix cache
 * @param generatedTokens tokens sampled over all outputs, with those that a stop trimmed away
 */
public record Usage(int promptTokens, int cachedPromptTokens, int generatedTokens) {}
