package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cuModuleGetFunction;
import static org.bytedeco.cuda.global.cudart.cuModuleLoadData;
import static org.bytedeco.cuda.global.cudart.cuModuleUnload;

import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.Owned;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.bytedeco.cuda.cudart.CUfunc_st;
import org.bytedeco.cuda.cudart.CUmod_st;
import org.bytedeco.javacpp.BytePointer;

/** All kernels, compiled for a device and loaded. */
final class KernelLibrary implements AutoCloseable {

  private final CudaContext context;
  private final Map<KernelSource, CUmod_st> modules = new EnumMap<>(KernelSource.class);
  private final Owned owned = new Owned();

  /** Compiles what the cache lacks, on several threads, and loads all. */
  KernelLibrary(CudaContext context, DType activations, CubinCache cache) {
    this.context = context;
    KernelTarget target =
        KernelTarget.of(context.device(), KernelCompiler.architectures(), activations);
    String version = KernelCompiler.version();
    Map<KernelSource, byte[]> code =
        Arrays.stream(KernelSource.values())
            .parallel()
            .collect(
                Collectors.toConcurrentMap(
                    Function.identity(), source -> code(source, target, version, cache)));
    context.enter();
    try {
      code.forEach(this::load);
    } catch (RuntimeException | Error e) {
      owned.closeAfter(e);
      throw e;
    }
  }

  private static byte[] code(
      KernelSource source, KernelTarget target, String version, CubinCache cache) {
    List<String> inputs =
        List.of(
            source.text(),
            String.join("\n", KernelSource.headers()),
            String.join(" ", target.options()),
            target.architecture(),
            version);
    return cache.get(inputs, () -> KernelCompiler.compile(source, target));
  }

  private void load(KernelSource source, byte[] code) {
    CUmod_st module = new CUmod_st();
    try (BytePointer image = new BytePointer(code)) {
      context.check(cuModuleLoadData(module, image), "loading the kernels of " + source.file());
    }
    owned.add(() -> cuModuleUnload(module));
    modules.put(source, module);
  }

  /**
   * A kernel by the name it has in its source, where it is declared {@code extern "C"}.
   *
   * @throws CudaException if there is none of that name
   */
  Kernel kernel(KernelSource source, String name) {
    CUfunc_st function = new CUfunc_st();
    context.check(
        cuModuleGetFunction(function, modules.get(source), name),
        "finding the kernel " + name + " in " + source.file());
    return new Kernel(name, function);
  }

  /** Unloads the kernels; none may be running. */
  @Override
  public void close() {
    owned.close();
  }
}
