/**
 * The CUDA backend: device memory, kernels, cuBLAS, CUDA graphs and NCCL behind the engine's
 * backend interface. Nothing of it exists yet; the engine runs on the CPU.
 */
package dev.halcyon.engine.cuda;
