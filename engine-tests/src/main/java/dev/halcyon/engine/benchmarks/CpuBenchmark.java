package dev.halcyon.engine.benchmarks;

import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.Engine;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/**
 * Measures the engine on the CPU against what the machine can do, in one run: decoding against the
 * rate at which memory streams, prefill against OpenBLAS's sgemm, and both, if asked, against other
 * engines. docs/performance.md says how to read the result.
 */
@Command(
    name = "cpu-benchmark",
    mixinStandardHelpOptions = true,
    sortOptions = false,
    description = "Measures the CPU backend against the machine's limits and against peers.")
public final class CpuBenchmark implements Callable<Integer> {

  private static final long SEED = 1;
  private static final int BANDWIDTH_PASSES = 10;
  private static final int SGEMM_PASSES = 5;

  /**
   * What is timed runs once to warm up, then this often; the best run counts, as for the limits.
   */
  private static final int RUNS = 3;

  @Spec private CommandSpec spec;

  @Mixin private ShapeOptions shapeOptions;

  @Option(
      names = "--cache-dir",
      paramLabel = "DIR",
      description = "where checkpoints and the peers' files are kept (default: ${DEFAULT-VALUE})")
  private Path cache = Path.of(System.getProperty("java.io.tmpdir"), "halcyon-benchmark");

  @Option(
      names = "--threads",
      paramLabel = "N",
      description = "threads of everything measured (default: ${DEFAULT-VALUE})")
  private int threads = Runtime.getRuntime().availableProcessors();

  @Option(
      names = "--batches",
      paramLabel = "N",
      split = ",",
      description = "batch sizes of decoding (default: 1,4,16)")
  private List<Integer> batches = List.of(1, 4, 16);

  @Option(
      names = "--prompt",
      paramLabel = "N",
      description = "prompt tokens of a decode run (default: ${DEFAULT-VALUE})")
  private int promptTokens = 16;

  @Option(
      names = "--generate",
      paramLabel = "N",
      description = "generated tokens of a decode run (default: ${DEFAULT-VALUE})")
  private int generatedTokens = 64;

  @Option(
      names = "--prefill",
      paramLabel = "N",
      description = "prompt tokens of the prefill run (default: ${DEFAULT-VALUE})")
  private int prefillTokens = 512;

  @Option(
      names = "--bandwidth-mib",
      paramLabel = "MIB",
      description = "memory read for the bandwidth (default: ${DEFAULT-VALUE})")
  private int bandwidthMib = 1280;

  @Option(
      names = "--sgemm-size",
      paramLabel = "N",
      description = "rows and columns of sgemm's matrices (default: ${DEFAULT-VALUE})")
  private int sgemmSize = 4096;

  @Option(names = "--peers", description = "also measure the peers; fetches them with Maven")
  private boolean withPeers;

  @Option(
      names = "--peers-script",
      paramLabel = "FILE",
      description = "what measures the peers (default: ${DEFAULT-VALUE})")
  private Path peersScript = Path.of("scripts", "peers", "run");

  @Option(
      names = "--peers-java-home",
      paramLabel = "DIR",
      description = "a JDK of 21 or later for the peers (default: JAVA_HOME, then the PATH's)")
  private Path peersJavaHome;

  public static void main(String[] args) {
    System.exit(new CommandLine(new CpuBenchmark()).execute(args));
  }

  @Override
  public Integer call() throws Exception {
    PrintWriter out = spec.commandLine().getOut();
    ModelShape shape = shapeOptions.shape();
    Workload workload = new Workload(promptTokens, generatedTokens, batches, prefillTokens);
    Path checkpoint = RandomCheckpoint.inCache(cache, shape, SEED);
    printSetting(out, shape, checkpoint);

    Limits limits = measureLimits();
    EngineRates rates = measureEngine(checkpoint);
    List<PeerResult> peers =
        withPeers
            ? Peers.measure(
                peersScript, checkpoint, cache.resolve("peers"), peersJavaHome, threads, workload)
            : List.of();
    out.println(
        new BenchmarkTable(shape, workload, peers)
            .render(limits.bandwidth, limits.sgemmPeak, rates.decode, rates.prefill));
    printPeers(out, peers);
    return 0;
  }

  private record Limits(double bandwidth, double sgemmPeak) {}

  private record EngineRates(Map<Integer, Double> decode, double prefill) {}

  private Limits measureLimits() throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try {
      return new Limits(
          MemoryBandwidth.measure(pool, threads, bandwidthMib * (1L << 20), BANDWIDTH_PASSES),
          SgemmPeak.measure(pool, threads, sgemmSize, SGEMM_PASSES));
    } finally {
      pool.shutdown();
    }
  }

  private EngineRates measureEngine(Path checkpoint) {
    try (Engine engine =
        Engine.builder()
            .model(checkpoint)
            .backend(BackendChoice.CPU)
            .threads(threads)
            .prefixReuse(false)
            .build()) {
      EngineMeasurement measurement = new EngineMeasurement(engine);
      Map<Integer, Double> decode = new TreeMap<>();
      for (int batch : batches) {
        measurement.decode(batch, promptTokens, generatedTokens, 1);
        decode.put(batch, measurement.decode(batch, promptTokens, generatedTokens, RUNS));
      }
      measurement.prefill(prefillTokens, 1);
      return new EngineRates(decode, measurement.prefill(prefillTokens, RUNS));
    }
  }

  private void printSetting(PrintWriter out, ModelShape shape, Path checkpoint) {
    out.println(Machine.describe(threads));
    out.printf(
        Locale.ROOT,
        "checkpoint %s: BF16, %.3f GB of weights read by a decode step%n%n",
        checkpoint.toAbsolutePath(),
        shape.decodeBytes() / 1e9);
    out.flush();
  }

  private static void printPeers(PrintWriter out, List<PeerResult> peers) {
    for (PeerResult peer : peers) {
      out.printf(
          "%s: %s%n",
          peer.peer(), peer.error() == null ? peer.setting() : "no result: " + peer.error());
    }
    out.flush();
  }
}
