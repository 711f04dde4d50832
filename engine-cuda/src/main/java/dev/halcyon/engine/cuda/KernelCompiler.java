package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.nvrtc.nvrtcCompileProgram;
import static org.bytedeco.cuda.global.nvrtc.nvrtcCreateProgram;
import static org.bytedeco.cuda.global.nvrtc.nvrtcDestroyProgram;
import static org.bytedeco.cuda.global.nvrtc.nvrtcGetCUBIN;
import static org.bytedeco.cuda.global.nvrtc.nvrtcGetCUBINSize;
import static org.bytedeco.cuda.global.nvrtc.nvrtcGetErrorString;
import static org.bytedeco.cuda.global.nvrtc.nvrtcGetNumSupportedArchs;
import static org.bytedeco.cuda.global.nvrtc.nvrtcGetPTX;
import static org.bytedeco.cuda.global.nvrtc.nvrtcGetPTXSize;
import static org.bytedeco.cuda.global.nvrtc.nvrtcGetProgramLog;
import static org.bytedeco.cuda.global.nvrtc.nvrtcGetProgramLogSize;
import static org.bytedeco.cuda.global.nvrtc.nvrtcGetSupportedArchs;
import static org.bytedeco.cuda.global.nvrtc.nvrtcVersion;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.cuda.nvrtc._nvrtcProgram;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.PointerPointer;
import org.bytedeco.javacpp.SizeTPointer;

/** Compiles kernels with NVRTC. Any thread may. */
final class KernelCompiler {

  private KernelCompiler() {}

  /** NVRTC's version, as 13.1. */
  static String version() {
    int[] major = new int[1];
    int[] minor = new int[1];
    check(nvrtcVersion(major, minor), "asking NVRTC for its version");
    return major[0] + "." + minor[0];
  }

  /** The architectures that this NVRTC compiles for, as 90 for 9.0. */
  static int[] architectures() {
    int[] count = new int[1];
    check(nvrtcGetNumSupportedArchs(count), "asking NVRTC for its architectures");
    int[] architectures = new int[count[0]];
    check(nvrtcGetSupportedArchs(architectures), "asking NVRTC for its architectures");
    return architectures;
  }

  /**
   * Compiles one source.
   *
   * @return what the driver loads: machine code, or PTX with a zero at its end
   * @throws CudaException with the compiler's messages if it does not compile
   */
  static byte[] compile(KernelSource source, KernelTarget target) {
    _nvrtcProgram program = new _nvrtcProgram();
    try (BytePointer text = new BytePointer(source.text(), StandardCharsets.UTF_8);
        BytePointer name = new BytePointer(source.file(), StandardCharsets.UTF_8);
        PointerPointer<BytePointer> headers = pointers(KernelSource.headers());
        PointerPointer<BytePointer> includes = pointers(KernelSource.HEADERS)) {
      int count = KernelSource.HEADERS.size();
      check(nvrtcCreateProgram(program, text, name, count, headers, includes), "reading " + source);
      try {
        List<String> options = new ArrayList<>(target.options());
        options.add("--gpu-architecture=" + target.architecture());
        // Lambdas in kernels say nothing of where they run, and all here is for the device.
        options.add("--device-as-default-execution-space");
        compile(program, options, source, target);
        return target.isMachineCode() ? cubin(program) : ptx(program);
      } finally {
        nvrtcDestroyProgram(program);
      }
    }
  }

  private static void compile(
      _nvrtcProgram program, List<String> options, KernelSource source, KernelTarget target) {
    try (PointerPointer<BytePointer> pointers = pointers(options)) {
      int code = nvrtcCompileProgram(program, options.size(), pointers);
      if (code != 0) {
        throw new CudaException(
            String.format(
                "Compiling %s for %s failed: %s%n%s",
                source.file(),
                target.architecture(),
                nvrtcGetErrorString(code).getString(),
                log(program)),
            code,
            false);
      }
    }
  }

  private static PointerPointer<BytePointer> pointers(List<String> texts) {
    return new PointerPointer<>(texts.toArray(new String[0]));
  }

  private static String log(_nvrtcProgram program) {
    try (SizeTPointer size = new SizeTPointer(1)) {
      nvrtcGetProgramLogSize(program, size);
      byte[] log = new byte[(int) size.get()];
      nvrtcGetProgramLog(program, log);
      return new String(log, 0, Math.max(0, log.length - 1), StandardCharsets.UTF_8);
    }
  }

  private static byte[] cubin(_nvrtcProgram program) {
    try (SizeTPointer size = new SizeTPointer(1)) {
      check(nvrtcGetCUBINSize(program, size), "reading machine code");
      byte[] code = new byte[(int) size.get()];
      check(nvrtcGetCUBIN(program, code), "reading machine code");
      return code;
    }
  }

  private static byte[] ptx(_nvrtcProgram program) {
    try (SizeTPointer size = new SizeTPointer(1)) {
      check(nvrtcGetPTXSize(program, size), "reading PTX");
      byte[] code = new byte[(int) size.get()];
      check(nvrtcGetPTX(program, code), "reading PTX");
      return code;
    }
  }

  private static void check(int code, String what) {
    if (code != 0) {
      throw new CudaException(
          what + " failed: " + nvrtcGetErrorString(code).getString(), code, false);
    }
  }
}
