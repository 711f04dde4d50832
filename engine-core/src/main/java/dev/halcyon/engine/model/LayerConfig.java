package dev.halcyon.engine.model;

/**
 * What may differ from layer to layer.
 *
 * @param slidingWindow how many positions a row sees, its own included; 0 for all
 * @param rope the rotary embedding of queries and keys; null for none
 */
public record LayerConfig(int slidingWindow, RopeConfig rope) {}
