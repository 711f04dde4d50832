package dev.halcyon.engine.benchmarks;

import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.disagg.transfer.InProcessTransport;
import dev.halcyon.engine.disagg.transfer.NetworkOptions;
import dev.halcyon.engine.disagg.transfer.TcpTransport;
import dev.halcyon.engine.disagg.transfer.UcxTransport;
import dev.halcyon.engine.transfer.KvTransport;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/**
 * Measures requests that are split between two engines of one machine against whole ones: time to
 * the first token, generated tokens a second, and how fast keys and values go over, against the way
 * that they go in the same run. docs/performance.md says how to read the result.
 */
@Command(
    name = "disagg-benchmark",
    mixinStandardHelpOptions = true,
    sortOptions = false,
    description = "Measures requests that are split between two engines against whole ones.")
public final class DisaggBenchmark implements Callable<Integer> {

  private static final long SEED = 1;

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
      names = "--backend",
      paramLabel = "NAME",
      description = "cpu or cuda (default: ${DEFAULT-VALUE})")
  private BackendChoice backend = BackendChoice.CPU;

  @Option(
      names = "--device",
      paramLabel = "N",
      description = "the GPU that computes prompts, from 0 (default: ${DEFAULT-VALUE})")
  private int device;

  @Option(
      names = "--decode-device",
      paramLabel = "N",
      description = "the GPU that goes on with them (default: the same)")
  private Integer decodeDevice;

  @Option(
      names = "--transport",
      paramLabel = "NAME",
      split = ",",
      description = "ways between the engines: in-process, tcp, ucx (default: all)")
  private List<Way> ways = List.of(Way.values());

  @Option(
      names = "--prompt",
      paramLabel = "N",
      split = ",",
      description = "prompt tokens (default: 128,1024)")
  private List<Integer> promptTokens = List.of(128, 1024);

  @Option(
      names = "--piece-bytes",
      paramLabel = "N",
      description = "size of the pieces that go over a network (default: the transport's)")
  private Integer pieceBytes;

  @Option(
      names = "--window",
      paramLabel = "N",
      description = "pieces that are on their way at once (default: the transport's)")
  private Integer window;

  @Option(
      names = "--workers",
      paramLabel = "N",
      description =
          "threads of each side for pieces, beside those of connections (default: the"
              + " transport's)")
  private Integer workers;

  @Option(
      names = "--connections",
      paramLabel = "N",
      description =
          "connections that a prompt's pieces come over, of TCP, and threads of each side for them"
              + " (default: the transport's)")
  private Integer connections;

  @Option(
      names = "--generate",
      paramLabel = "N",
      description = "generated tokens where rates are measured (default: ${DEFAULT-VALUE})")
  private int generatedTokens = 32;

  @Option(
      names = "--batch",
      paramLabel = "N",
      description = "requests at once where rates are measured (default: ${DEFAULT-VALUE})")
  private int batch = 4;

  @Option(
      names = "--threads",
      paramLabel = "N",
      description = "threads of each engine on the CPU (default: ${DEFAULT-VALUE})")
  private int threads = Runtime.getRuntime().availableProcessors();

  @Option(
      names = "--runs",
      paramLabel = "N",
      description =
          "runs of each after one to warm up; the best counts (default: ${DEFAULT-VALUE})")
  private int runs = 3;

  @Option(
      names = "--cache-dir",
      paramLabel = "DIR",
      description = "where checkpoints are kept (default: ${DEFAULT-VALUE})")
  private Path cache = Path.of(System.getProperty("java.io.tmpdir"), "halcyon-benchmark");

  /** How keys and values go from one engine to the other. */
  private enum Way {
    IN_PROCESS("in-process"),
    TCP("tcp"),
    UCX("ucx");

    private final String title;

    Way(String title) {
      this.title = title;
    }

    @Override
    public String toString() {
      return title;
    }

    static Way of(String title) {
      for (Way way : values()) {
        if (way.title.equals(title)) {
          return way;
        }
      }
      throw new CommandLine.TypeConversionException("'" + title + "' is not a way");
    }
  }

  /** Both ends of a way. */
  private record Ends(KvTransport context, TimedTransport generation) implements AutoCloseable {

    static Ends of(Way way, NetworkOptions context, NetworkOptions generation) {
      return switch (way) {
        case IN_PROCESS -> {
          InProcessTransport both = new InProcessTransport();
          yield new Ends(both, new TimedTransport(both));
        }
        case TCP ->
            new Ends(new TcpTransport(context), new TimedTransport(new TcpTransport(generation)));
        case UCX ->
            new Ends(new UcxTransport(context), new TimedTransport(new UcxTransport(generation)));
      };
    }

    @Override
    public void close() {
      generation.close();
      context.close();
    }
  }

  public static void main(String[] args) {
    System.exit(commandLine().execute(args));
  }

  static CommandLine commandLine() {
    return new CommandLine(new DisaggBenchmark())
        .setCaseInsensitiveEnumValuesAllowed(true)
        .registerConverter(Way.class, Way::of);
  }

  @Override
  public Integer call() throws IOException {
    PrintWriter out = spec.commandLine().getOut();
    ModelShape shape = shapeOptions.shape();
    int longest = promptTokens.stream().max(Integer::compare).orElseThrow();
    Path checkpoint =
        model == null
            ? RandomCheckpoint.inCache(cache, shape, longest + generatedTokens + 1, SEED)
            : model;
    double copy = LinkSpeed.memoryCopy();
    double loopback = LinkSpeed.loopback();
    double device = copy;
    out.println(Machine.describe(threads));
    out.printf(
        Locale.ROOT,
        "%s, %d layers of %d, %d KV heads of %d; rates of %d requests at once, %d tokens each%n"
            + "one thread copies %.1f GB/s in memory; one connection over loopback %.1f GB/s%n",
        backend,
        shape.layers(),
        shape.hidden(),
        shape.kvHeads(),
        shape.headDim(),
        batch,
        generatedTokens,
        copy / 1e9,
        loopback / 1e9);
    if (backend == BackendChoice.CUDA) {
      DeviceLimits limits = DeviceLimits.measure("cuda", this.device);
      // What a copy reads it also writes; between two GPUs keys and values go over the host.
      boolean oneDevice = decodeDevice == null || decodeDevice == this.device;
      device = oneDevice ? limits.memoryBytes() / 2 : limits.downloadBytes();
      out.printf(
          Locale.ROOT,
          "a copy within the GPU's memory: %.1f GB/s; one to pinned host memory: %.1f GB/s%n",
          limits.memoryBytes() / 2e9,
          limits.downloadBytes() / 1e9);
    }
    out.printf("%n%s", SplitFigures.HEADER);
    out.flush();
    for (Way way : ways) {
      Optional<String> unavailable = way == Way.UCX ? UcxTransport.unavailable() : Optional.empty();
      if (unavailable.isPresent()) {
        out.printf("%nno %s: %s%n", way, unavailable.get());
      } else {
        measure(way, checkpoint, longest, way == Way.IN_PROCESS ? device : loopback, out);
      }
    }
    return 0;
  }

  private void measure(Way way, Path checkpoint, int longest, double link, PrintWriter out) {
    try (Ends ends = Ends.of(way, network().build(), fetching());
        Engine prefill = engine(checkpoint, longest).kvTransport(ends.context()).build();
        Engine decode =
            engine(checkpoint, longest)
                .prefixReuse(false)
                .deviceIndex(decodeDevice == null ? device : decodeDevice)
                .kvTransport(ends.generation())
                .build()) {
      SplitMeasurement measurement = new SplitMeasurement(prefill, decode, ends.generation());
      for (int tokens : promptTokens) {
        SplitFigures figures = measurement.measure(tokens, generatedTokens, batch, runs);
        out.print(figures.row(way.toString(), tokens, link));
        out.flush();
      }
    }
  }

  /** What both sides have in common. */
  private NetworkOptions.Builder network() {
    NetworkOptions.Builder options = NetworkOptions.builder();
    if (workers != null) {
      options.workers(workers);
    }
    if (connections != null) {
      options.connections(connections);
    }
    return options;
  }

  private NetworkOptions fetching() {
    NetworkOptions.Builder options = network().listen(false);
    if (pieceBytes != null) {
      options.pieceBytes(pieceBytes);
    }
    if (window != null) {
      options.window(window);
    }
    return options.build();
  }

  private EngineBuilder engine(Path checkpoint, int longest) {
    int tokens = longest + generatedTokens + 1;
    return Engine.builder()
        .model(checkpoint)
        .backend(backend)
        .deviceIndex(device)
        .threads(threads)
        .maxBatchSize(batch)
        // Pinned prompts and those that go on, each rounded up to whole blocks.
        .kvCacheTokens(2 * batch * (tokens + 64));
  }
}
