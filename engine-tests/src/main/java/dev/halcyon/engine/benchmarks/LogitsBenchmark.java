package dev.halcyon.engine.benchmarks;

import dev.halcyon.engine.backend.HostTensor;
import dev.halcyon.engine.logits.FullLogits;
import java.io.PrintWriter;
import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/**
 * Measures what context logits and prompt logprobs cost over the bare projection of the same rows
 * through the same head, in one run: time, device memory and host memory. docs/performance.md says
 * how to read the result.
 */
@Command(
    name = "logits-benchmark",
    mixinStandardHelpOptions = true,
    sortOptions = false,
    description = "Measures context logits and prompt logprobs against the bare projection.")
public final class LogitsBenchmark implements Callable<Integer> {

  private static final long SEED = 1;
  private static final int SGEMM_PASSES = 5;

  @Spec private CommandSpec spec;

  @Option(
      names = "--backend",
      paramLabel = "NAME",
      description = "cpu or cuda (default: ${DEFAULT-VALUE})")
  private String backend = "cpu";

  @Option(
      names = "--device",
      paramLabel = "N",
      description = "which GPU, from 0 (default: ${DEFAULT-VALUE})")
  private int device;

  @Option(
      names = "--rows",
      paramLabel = "N",
      description = "tokens of the prompt (default: ${DEFAULT-VALUE})")
  private int rows = 2048;

  @Option(
      names = "--vocab",
      paramLabel = "N",
      description = "vocabulary entries of the head (default: ${DEFAULT-VALUE})")
  private int vocabSize = 131_072;

  @Option(
      names = "--hidden",
      paramLabel = "N",
      description = "elements of a hidden row (default: ${DEFAULT-VALUE})")
  private int hiddenSize = 2048;

  @Option(
      names = "--chunk",
      paramLabel = "N",
      description = "tokens of a step, as the engine's maxBatchTokens (default: ${DEFAULT-VALUE})")
  private int chunkRows = 1024;

  @Option(
      names = "--threads",
      paramLabel = "N",
      description = "threads of everything measured (default: ${DEFAULT-VALUE})")
  private int threads = Runtime.getRuntime().availableProcessors();

  @Option(
      names = "--runs",
      paramLabel = "N",
      description = "runs of each, in turn; the best one counts (default: ${DEFAULT-VALUE})")
  private int runs = 2;

  @Option(
      names = "--prompts",
      paramLabel = "N",
      description =
          "prompts of a run, one after the other in one engine; the best one counts"
              + " (default: ${DEFAULT-VALUE})")
  private int prompts = 1;

  @Option(
      names = "--sgemm-size",
      paramLabel = "N",
      description = "rows and columns of sgemm's matrices (default: ${DEFAULT-VALUE})")
  private int sgemmSize = 4096;

  public static void main(String[] args) {
    System.exit(new CommandLine(new LogitsBenchmark()).execute(args));
  }

  @Override
  public Integer call() throws Exception {
    if (runs < 1 || prompts < 1) {
      throw new ParameterException(
          spec.commandLine(), "--runs and --prompts must be positive: " + runs + ", " + prompts);
    }
    PrintWriter out = spec.commandLine().getOut();
    out.println(Machine.describe(threads));
    out.printf(
        "%d rows in steps of %d, a BF16 head of %d entries of %d elements, best of %d runs of %d prompts%n",
        rows, chunkRows, vocabSize, hiddenSize, runs, prompts);
    out.flush();
    HostTensor weights = RandomHead.weights(vocabSize, hiddenSize, SEED);
    double operations = 2.0 * rows * vocabSize * hiddenSize;
    double peak = backend.equals("cpu") ? sgemmPeak(out) : devicePeak(out);
    out.printf(
        Locale.ROOT,
        "limit of the projection: %.4f s, %.3f TFLOP%n%n",
        operations / peak,
        operations / 1e12);
    out.flush();
    out.print(new LogitsTable(operations, peak).render(measure(weights)));
    out.flush();
    return 0;
  }

  private double devicePeak(PrintWriter out) {
    DeviceLimits limits = DeviceLimits.measure(backend, device);
    out.printf(
        Locale.ROOT,
        "a large BF16 product: %.0f TFLOP/s; a copy to pinned host memory: %.1f GB/s, %.4f s for all"
            + " rows in float32%n",
        limits.operations() / 1e12,
        limits.downloadBytes() / 1e9,
        FullLogits.bytes(rows, vocabSize) / limits.downloadBytes());
    return limits.operations();
  }

  private double sgemmPeak(PrintWriter out) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try {
      double peak = SgemmPeak.measure(pool, threads, sgemmSize, SGEMM_PASSES);
      out.printf(Locale.ROOT, "OpenBLAS's sgemm: %.0f GFLOP/s%n", peak / 1e9);
      return peak;
    } finally {
      pool.shutdown();
    }
  }

  /** In turn, so that a machine that is slow for a while is so to all of them. */
  private Map<LogitsScenario, LogitsCost> measure(HostTensor weights) {
    LogitsMeasurement measurement =
        new LogitsMeasurement(backend, device, weights, rows, chunkRows, threads, prompts);
    Map<LogitsScenario, LogitsCost> costs = new EnumMap<>(LogitsScenario.class);
    for (int run = 0; run < runs; run++) {
      for (LogitsScenario scenario : LogitsScenario.values()) {
        costs.merge(scenario, measurement.measure(scenario, run == 0), LogitsCost::best);
      }
    }
    return costs;
  }
}
