package dev.halcyon.engine.benchmarks;

import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.Engine;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/**
 * Measures decoding and prefill on a GPU against what the device does in the same run: the bytes of
 * weights that a step reads at the rate of a copy within its memory, and the operations of a prompt
 * at the rate of a large matrix product. docs/performance.md says how to read the result.
 */
@Command(
    name = "gpu-benchmark",
    mixinStandardHelpOptions = true,
    sortOptions = false,
    description = "Measures the CUDA backend against the device's limits.")
public final class GpuBenchmark implements Callable<Integer> {

  private static final long SEED = 1;
  private static final String BACKEND = "cuda";

  @Spec private CommandSpec spec;

  @Mixin private ShapeOptions shapeOptions;

  @Option(
      names = "--model",
      paramLabel = "DIR",
      description =
          "a Llama checkpoint of the shape that the other options say, to use in place of a random"
              + " one in the cache folder")
  private Path model;

  @Option(
      names = "--cache-dir",
      paramLabel = "DIR",
      description = "where random checkpoints are kept (default: ${DEFAULT-VALUE})")
  private Path cache = Path.of(System.getProperty("java.io.tmpdir"), "halcyon-benchmark");

  @Option(
      names = "--device",
      paramLabel = "N",
      description = "which GPU, from 0 (default: ${DEFAULT-VALUE})")
  private int device;

  @Option(
      names = "--batches",
      paramLabel = "N",
      split = ",",
      description = "batch sizes of decoding (default: 1,8,32,128)")
  private List<Integer> batches = List.of(1, 8, 32, 128);

  @Option(
      names = "--prompt",
      paramLabel = "N",
      description = "prompt tokens of a decode run (default: ${DEFAULT-VALUE})")
  private int promptTokens = 128;

  @Option(
      names = "--generate",
      paramLabel = "N",
      description = "generated tokens of a decode run (default: ${DEFAULT-VALUE})")
  private int generatedTokens = 128;

  @Option(
      names = "--prefill",
      paramLabel = "N",
      split = ",",
      description = "prompt tokens of the prefill runs (default: 512,2000)")
  private List<Integer> prefillTokens = List.of(512, 2000);

  @Option(
      names = "--no-graphs",
      description = "start every operation of a step anew, to see what recorded steps save")
  private boolean noGraphs;

  @Option(
      names = "--deterministic",
      description = "leave algorithms untimed, to see what choosing them by time gains")
  private boolean deterministic;

  @Option(
      names = "--runs",
      paramLabel = "N",
      description =
          "runs of each after one to warm up; the best counts (default: ${DEFAULT-VALUE})")
  private int runs = 2;

  public static void main(String[] args) {
    System.exit(new CommandLine(new GpuBenchmark()).execute(args));
  }

  @Override
  public Integer call() throws Exception {
    PrintWriter out = spec.commandLine().getOut();
    ModelShape shape = shapeOptions.shape();
    Path checkpoint = model == null ? RandomCheckpoint.inCache(cache, shape, SEED) : model;
    DeviceLimits limits = DeviceLimits.measure(BACKEND, device);
    out.printf(
        Locale.ROOT,
        "%d layers of %d, %d entries, BF16: %.3f GB of weights read by a decode step%n"
            + "limits: %.0f TFLOP/s of a large BF16 product, %.2f TB/s of a copy (read and written)%n",
        shape.layers(),
        shape.hidden(),
        shape.vocab(),
        shape.decodeBytes() / 1e9,
        limits.operations() / 1e12,
        limits.memoryBytes() / 1e12);
    double uploads = UploadLimit.bytesPerSecond(device);
    LoadRate loading = new LoadRate();
    long start = System.nanoTime();
    int most = batches.stream().max(Integer::compare).orElseThrow();
    int longest = prefillTokens.stream().max(Integer::compare).orElseThrow();
    try (Engine engine =
        Engine.builder()
            .model(checkpoint)
            .backend(BackendChoice.CUDA)
            .deviceIndex(device)
            .deviceGraphs(!noGraphs)
            .deterministic(deterministic)
            .maxBatchSize(most)
            .maxBatchTokens(Math.max(Math.max(most, longest), 2048))
            .prefixReuse(false)
            .progressListener(loading)
            .build()) {
      out.printf(
          Locale.ROOT,
          "opened in %.1f s; %.2f GB of weights loaded at %.1f GB/s, %.0f %% of a copy from pinned"
              + " memory (%.1f GB/s)%n%n",
          (System.nanoTime() - start) / 1e9,
          loading.bytes() / 1e9,
          loading.bytesPerSecond() / 1e9,
          100 * loading.bytesPerSecond() / uploads,
          uploads / 1e9);
      out.println("|  | tokens/s | limit | of the limit |\n|---|---:|---:|---:|");
      measure(new EngineMeasurement(engine), shape, limits, out);
    }
    return 0;
  }

  private void measure(
      EngineMeasurement engine, ModelShape shape, DeviceLimits limits, PrintWriter out) {
    for (int batch : batches) {
      engine.decode(batch, promptTokens, generatedTokens, 1);
      double rate = engine.decode(batch, promptTokens, generatedTokens, runs);
      row(out, "decode, batch " + batch, rate, batch * limits.memoryBytes() / shape.decodeBytes());
    }
    for (int tokens : prefillTokens) {
      engine.prefill(tokens, 1);
      double rate = engine.prefill(tokens, runs);
      double limit = tokens * limits.operations() / shape.prefillOperations(tokens);
      row(out, "prefill, " + tokens + " tokens", rate, limit);
    }
  }

  private static void row(PrintWriter out, String what, double rate, double limit) {
    out.printf(
        Locale.ROOT, "| %s | %.0f | %.0f | %.0f %% |%n", what, rate, limit, 100 * rate / limit);
    out.flush();
  }
}
