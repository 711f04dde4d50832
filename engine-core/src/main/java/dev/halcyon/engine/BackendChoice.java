package dev.halcyon.engine;

/** What to compute on. */
public enum BackendChoice {
  /** The fastest backend that is usable on this machine. */
  AUTO,
  /** The CPU. */
  CPU,
  /** An NVIDIA GPU. */
  CUDA
}
