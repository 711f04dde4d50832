/**
 * The small memory interfaces that bounded logits stand on. A backend implements them; a test can
 * implement them with a memory that fails on the n-th allocation.
 */
package dev.halcyon.engine.logits;
