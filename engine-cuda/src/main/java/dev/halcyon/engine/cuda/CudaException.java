package dev.halcyon.engine.cuda;

import dev.halcyon.engine.EngineException;

/**
 * A call to CUDA or one of its libraries failed for another reason than memory. Where it is {@link
 * #sticky()} the device has lost its state: every later call fails too, and the engine with it.
 */
public final class CudaException extends EngineException {

  private final int code;
  private final boolean sticky;

  CudaException(String message, int code, boolean sticky) {
    super(message);
    this.code = code;
    this.sticky = sticky;
  }

  /** The error's number as CUDA, cuBLAS or NVRTC defines it. */
  public int code() {
    return code;
  }

  /** Whether nothing more can be computed on the device by this process. */
  public boolean sticky() {
    return sticky;
  }
}
