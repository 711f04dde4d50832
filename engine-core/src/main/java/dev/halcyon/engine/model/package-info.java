/**
 * One parametric decoder composed of backend operations. Families differ in data: a table entry
 * says how a config.json is read, the {@link dev.halcyon.engine.model.ModelConfig} says what to
 * compute.
 */
package dev.halcyon.engine.model;
