package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaDriverGetVersion;
import static org.bytedeco.cuda.global.cudart.cudaGetDeviceCount;
import static org.bytedeco.cuda.global.cudart.cudaRuntimeGetVersion;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.bytedeco.cuda.global.cublas;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.cuda.global.nvrtc;
import org.bytedeco.javacpp.Loader;
import org.bytedeco.javacpp.Pointer;

/** Finds out whether this machine has a GPU that the engine can use, and why not. */
final class CudaProbe {

  private CudaProbe() {}

  /**
   * Why no GPU can be used; empty when one can. Looks for the driver first: without one nothing of
   * CUDA is loaded.
   */
  static Optional<String> unavailable() {
    return driver().or(CudaProbe::libraries).or(CudaProbe::versions).or(CudaProbe::devices);
  }

  /** What a Linux driver puts there: for cards, in WSL, and for Jetson's GPUs. */
  private static final List<String> DEVICE_FILES =
      List.of("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-gpu", "/dev/nvgpu");

  private static Optional<String> driver() {
    String system = System.getProperty("os.name", "").toLowerCase(Locale.ROOT);
    boolean windows = system.contains("win") && !system.contains("darwin");
    String library = windows ? "nvcuda.dll" : "libcuda.so.1";
    // Looking for files takes no time; loading the bindings that look for the library does.
    if (!windows && DEVICE_FILES.stream().noneMatch(file -> Files.exists(Path.of(file)))) {
      return Optional.of(
          "there is no NVIDIA driver (none of " + String.join(", ", DEVICE_FILES) + " is there)");
    }
    try {
      Loader.load(Pointer.class);
      Loader.loadGlobal(library);
      return Optional.empty();
    } catch (LinkageError e) {
      return Optional.of("there is no NVIDIA driver (" + library + " is not found)");
    }
  }

  private static Optional<String> libraries() {
    try {
      Loader.load(cudart.class);
      Loader.load(nvrtc.class);
      Loader.load(cublas.class);
      return Optional.empty();
    } catch (LinkageError e) {
      return Optional.of(
          "a CUDA library of the version that this build is for can't be loaded ("
              + e.getMessage()
              + "): install the CUDA toolkit, or add its redistributable artifact");
    }
  }

  private static Optional<String> versions() {
    int[] driver = new int[1];
    int[] runtime = new int[1];
    if (cudaDriverGetVersion(driver) != 0 || cudaRuntimeGetVersion(runtime) != 0) {
      return Optional.of("the driver does not say its version");
    }
    // A driver runs every runtime of its major version, and older ones.
    return driver[0] / 1000 >= runtime[0] / 1000
        ? Optional.empty()
        : Optional.of(
            "the driver is too old: it is for CUDA "
                + text(driver[0])
                + ", and the libraries are of CUDA "
                + text(runtime[0]));
  }

  /** From 13010 to 13.1. */
  private static String text(int version) {
    return version / 1000 + "." + version % 1000 / 10;
  }

  private static Optional<String> devices() {
    int[] count = new int[1];
    int code = cudaGetDeviceCount(count);
    if (code != 0) {
      return Optional.of(
          "no GPU can be used: " + CudaErrors.failure(code, "counting GPUs").getMessage());
    }
    List<String> reasons = new ArrayList<>();
    for (int i = 0; i < count[0]; i++) {
      String reason = CudaDevice.of(i).unusable();
      if (reason == null) {
        return Optional.empty();
      }
      reasons.add("GPU " + i + ": " + reason);
    }
    return Optional.of(reasons.isEmpty() ? "there is no GPU" : String.join("; ", reasons));
  }

  /**
   * The GPU of a number.
   *
   * @throws dev.halcyon.engine.EngineException if there is none, or it can't be used
   */
  static CudaDevice device(int index) {
    int[] count = new int[1];
    CudaErrors.check(cudaGetDeviceCount(count), "counting GPUs");
    if (index >= count[0]) {
      throw new dev.halcyon.engine.EngineException(
          "GPU " + index + " was asked for, and there are " + count[0] + ", counted from 0");
    }
    CudaDevice device = CudaDevice.of(index);
    if (device.unusable() != null) {
      throw new dev.halcyon.engine.EngineException(
          "GPU " + index + " can't be used: " + device.unusable());
    }
    return device;
  }
}
