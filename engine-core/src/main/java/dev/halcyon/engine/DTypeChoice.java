package dev.halcyon.engine;

/**
 * The type of activations and of the KV cache. Products, norms, softmax and logprobs are computed
 * in float32 with any of them.
 */
public enum DTypeChoice {
  /** That of the checkpoint's weights on a GPU, float32 on the CPU. */
  AUTO,
  /** float32. */
  F32,
  /** float16. */
  F16,
  /** bfloat16. */
  BF16
}
