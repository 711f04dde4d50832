package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaGetErrorName;
import static org.bytedeco.cuda.global.cudart.cudaGetErrorString;
import static org.bytedeco.cuda.global.cudart.cudaGetLastError;

import org.bytedeco.cuda.global.cudart;
import org.bytedeco.javacpp.BytePointer;

/** Turns the numbers that CUDA's functions return into exceptions. */
final class CudaErrors {

  private CudaErrors() {}

  /**
   * Checks what a function of the runtime or the driver returned; their numbers are the same.
   *
   * @param what what was done, as in "copying weights"
   * @throws CudaException unless it is success
   */
  static void check(int code, String what) {
    if (code != 0) {
      throw failure(code, what);
    }
  }

  static CudaException failure(int code, String what) {
    // An error that is not sticky stays the thread's last one until it is read.
    cudaGetLastError();
    String message = what + " failed: " + name(code);
    return new CudaException(
        isSticky(code) ? message + "; the device can't be used any more by this process" : message,
        code,
        isSticky(code));
  }

  /** An error's name and description. */
  static String name(int code) {
    return text(cudaGetErrorName(code)) + " (" + code + ", " + text(cudaGetErrorString(code)) + ")";
  }

  private static String text(BytePointer text) {
    return text == null || text.isNull() ? "unknown" : text.getString();
  }

  /** Errors after which the context is lost. */
  private static boolean isSticky(int code) {
    return switch (code) {
      case cudart.cudaErrorIllegalAddress,
          cudart.cudaErrorLaunchTimeout,
          cudart.cudaErrorAssert,
          cudart.cudaErrorHardwareStackError,
          cudart.cudaErrorIllegalInstruction,
          cudart.cudaErrorMisalignedAddress,
          cudart.cudaErrorInvalidAddressSpace,
          cudart.cudaErrorInvalidPc,
          cudart.cudaErrorLaunchFailure,
          cudart.cudaErrorECCUncorrectable,
          cudart.cudaErrorNvlinkUncorrectable,
          cudart.cudaErrorContextIsDestroyed,
          cudart.cudaErrorDevicesUnavailable,
          cudart.cudaErrorUnknown ->
          true;
      default -> false;
    };
  }
}
