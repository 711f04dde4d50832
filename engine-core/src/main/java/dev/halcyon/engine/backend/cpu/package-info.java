/**
 * The CPU backend. Activations and the KV cache are float32 in native memory; weights stay where
 * they are, in their stored type, most often in mapped files. Numeric inner loops lie behind {@link
 * dev.halcyon.engine.backend.cpu.Kernels}, in a vectorised and a plain Java form, chosen in one
 * place.
 */
package dev.halcyon.engine.backend.cpu;
