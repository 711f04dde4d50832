/**
 * The bookkeeping of a paged KV cache: which blocks are free, cached or owned, by whom, and which
 * prefix of tokens a block holds. Knows neither tensors nor the scheduler; used by the executor's
 * thread alone.
 */
package dev.halcyon.engine.kvcache;
