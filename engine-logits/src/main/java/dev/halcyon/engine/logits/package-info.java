/**
 * Bounded context logits: {@link dev.halcyon.engine.logits.ContextLogitsPlan} prepares storage
 * first, projects context rows through bounded buffers, and reduces them to prompt logprobs. It
 * stands on narrow interfaces for a device's memory, a head and a group of ranks. A backend
 * implements them; a test can implement them with a memory that fails on the n-th allocation.
 */
package dev.halcyon.engine.logits;
