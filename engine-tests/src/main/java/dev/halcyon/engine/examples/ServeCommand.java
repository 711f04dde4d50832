package dev.halcyon.engine.examples;

import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.DTypeChoice;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.disagg.http.HttpOptions;
import dev.halcyon.engine.disagg.http.HttpService;
import dev.halcyon.engine.disagg.router.DisaggService;
import dev.halcyon.engine.disagg.router.RouterOptions;
import dev.halcyon.engine.transfer.KvTransport;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;
import java.util.stream.Stream;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/**
 * Serves a model over HTTP until it is told to stop. Exits with 2 if an argument was wrong, with 1
 * if the model or the address can't be used, and with 0 after a good end.
 */
@Command(
    name = "serve",
    description =
        "Serves the embedded model, or a checkpoint of yours, over HTTP in OpenAI's form; alone, or"
            + " as one of several servers that share requests.",
    footer = {
      "",
      "The environment's HALCYON_API_KEY, if set, is what clients have to send as their key;"
          + " HALCYON_KV_TOKEN is what prefill and decode servers prove to each other."
    },
    sortOptions = false,
    usageHelpAutoWidth = true)
public final class ServeCommand implements Callable<Integer> {

  private static final String KEY_VARIABLE = "HALCYON_API_KEY";

  /** Where it listens, and to whom. */
  private static final class Listening {

    @Option(
        names = "--host",
        paramLabel = "ADDRESS",
        description =
            "The address to listen on; 0.0.0.0 for all of them. Default: ${DEFAULT-VALUE}, which"
                + " other machines can't reach.")
    private String host = "127.0.0.1";

    @Option(
        names = "--port",
        paramLabel = "N",
        description = "The port to listen on; 0 for a free one. Default: ${DEFAULT-VALUE}.")
    private int port = 8000;

    @Option(
        names = "--model-name",
        paramLabel = "NAME",
        description = "What the model is called in requests. Default: its folder's name.")
    private String modelName;

    @Option(
        names = "--api-key-file",
        paramLabel = "FILE",
        description =
            "A file with the key that clients have to send, in place of the environment's.")
    private Path apiKeyFile;

    @Option(
        names = "--tls-certificate",
        paramLabel = "FILE",
        description = "A certificate chain in PEM, to serve https.")
    private Path certificate;

    @Option(names = "--tls-key", paramLabel = "FILE", description = "Its private key in PEM.")
    private Path key;

    @Option(
        names = "--allow-origin",
        paramLabel = "ORIGIN",
        description =
            "A web page that browsers may call for, as https://example.org, or *; may be given"
                + " several times. Default: none.")
    private List<String> origins = List.of();
  }

  /** What requests may cost. */
  private static final class Limits {

    @Option(
        names = "--max-connections",
        paramLabel = "N",
        description = "Open connections. Default: ${DEFAULT-VALUE}.")
    private int connections = 1024;

    @Option(
        names = "--max-body-bytes",
        paramLabel = "N",
        description = "Bytes of a request's body. Default: ${DEFAULT-VALUE}.")
    private int bodyBytes = 16 << 20;

    @Option(
        names = "--max-logits-bytes",
        paramLabel = "N",
        description =
            "Bytes of logits, as float32, that a request may ask for. Default: ${DEFAULT-VALUE}.")
    private int logitsBytes = 64 << 20;

    @Option(
        names = "--max-in-flight-logits-bytes",
        paramLabel = "N",
        description = "The same of all requests together. Default: an eighth of the heap's limit.")
    private Long inFlightLogitsBytes;

    @Option(
        names = "--max-queued",
        paramLabel = "N",
        description =
            "Requests that wait for their turn; more are refused for now. Default: ${DEFAULT-VALUE}.")
    private int queued = 1024;

    @Option(
        names = "--request-timeout",
        paramLabel = "SECONDS",
        description = "How long a request may take. Default: ${DEFAULT-VALUE}.")
    private long requestSeconds = 600;

    @Option(
        names = "--stall-timeout",
        paramLabel = "SECONDS",
        description =
            "How long a client may read nothing before it is cut off. Default: ${DEFAULT-VALUE}.")
    private long stallSeconds = 30;

    @Option(
        names = "--drain-timeout",
        paramLabel = "SECONDS",
        description =
            "How long running requests have for their end when the server stops. Default:"
                + " ${DEFAULT-VALUE}.")
    private long drainSeconds = 30;
  }

  /** What computes. */
  private static final class Computing {

    @Option(
        names = "--model",
        paramLabel = "DIR",
        description = "A checkpoint in Hugging Face layout. Default: the embedded model.")
    private Path model;

    @Option(
        names = "--backend",
        paramLabel = "NAME",
        description = "auto, cpu or cuda. Default: auto, a GPU if there is one that can be used.")
    private BackendChoice backend = BackendChoice.AUTO;

    @Option(
        names = "--device",
        paramLabel = "N",
        description = "Which GPU, counted from 0. Default: ${DEFAULT-VALUE}.")
    private int device;

    @Option(
        names = "--dtype",
        paramLabel = "TYPE",
        description = "auto, f32, f16 or bf16: the type of activations. Default: auto.")
    private DTypeChoice dtype = DTypeChoice.AUTO;

    @Option(
        names = "--threads",
        paramLabel = "N",
        description = "Threads to compute with. Default: one for each processor.")
    private Integer threads;

    @Option(
        names = "--max-batch-size",
        paramLabel = "N",
        description = "Sequences that are computed together. Default: the engine's.")
    private Integer batchSize;

    @Option(
        names = "--max-batch-tokens",
        paramLabel = "N",
        description = "Tokens that one step computes at most. Default: the engine's.")
    private Integer batchTokens;

    @Option(
        names = "--max-sequence-length",
        paramLabel = "N",
        description = "Tokens of prompt and output together. Default: the model's limit.")
    private Integer sequenceLength;

    @Option(
        names = "--kv-cache-tokens",
        paramLabel = "N",
        description = "Tokens that the KV cache holds. Default: what fits into memory.")
    private Integer cacheTokens;

    boolean isGiven() {
      return backend != BackendChoice.AUTO
          || device != 0
          || dtype != DTypeChoice.AUTO
          || Stream.of(model, threads, batchSize, batchTokens, sequenceLength, cacheTokens)
              .anyMatch(Objects::nonNull);
    }
  }

  @ArgGroup(exclusive = false, heading = "%nThe model:%n")
  private Computing computing = new Computing();

  @ArgGroup(exclusive = false, heading = "%nThe server:%n")
  private Listening listening = new Listening();

  @ArgGroup(exclusive = false, heading = "%nPrefill and decode apart:%n")
  private SplitArguments split = new SplitArguments();

  @ArgGroup(exclusive = false, heading = "%nThe router in front of them:%n")
  private RouterArguments routing = new RouterArguments();

  @ArgGroup(exclusive = false, heading = "%nLimits:%n")
  private Limits limits = new Limits();

  @Option(
      names = {"-h", "--help"},
      usageHelp = true,
      description = "Show this help.")
  private boolean help;

  private final Map<String, String> environment;
  private final Consumer<String> started;
  private final CountDownLatch stop;

  private ServeCommand(
      Map<String, String> environment, Consumer<String> started, CountDownLatch stop) {
    this.environment = environment;
    this.started = started;
    this.stop = stop;
  }

  public static void main(String[] args) {
    CountDownLatch stop = new CountDownLatch(1);
    CountDownLatch stopped = new CountDownLatch(1);
    Consumer<String> stopOnSignal =
        url ->
            Runtime.getRuntime()
                .addShutdownHook(new Thread(() -> stopAndWait(stop, stopped), "halcyon-stop"));
    int code = run(System.out, System.err, System.getenv(), stopOnSignal, stop, args);
    stopped.countDown();
    if (stop.getCount() > 0) { // otherwise the JVM is on its way out
      System.exit(code);
    }
  }

  /**
   * Runs the command and returns its exit code.
   *
   * @param environment the environment's variables
   * @param started told where to call it, once it listens
   * @param stop opened when it is to stop
   */
  static int run(
      PrintStream out,
      PrintStream err,
      Map<String, String> environment,
      Consumer<String> started,
      CountDownLatch stop,
      String... args) {
    return CommandRunner.run("serve", new ServeCommand(environment, started, stop), out, err, args);
  }

  @Override
  public Integer call() throws IOException, InterruptedException {
    split.requireFits();
    if (split.role == SplitArguments.Role.ROUTER) {
      route();
    } else {
      routing.requireNone();
      serve();
    }
    return 0;
  }

  private void route() throws IOException, InterruptedException {
    if (computing.isGiven()) {
      throw new IllegalArgumentException("--role router computes nothing: leave out --model etc.");
    }
    RouterOptions options =
        routing
            .options(key())
            .server(options().server())
            .prefill(split.prefills())
            .maxHandoverBytes(split.handoverBytes())
            .maxWaiting(limits.queued)
            .requestTimeout(Duration.ofSeconds(limits.requestSeconds))
            .build();
    try (DisaggService router = DisaggService.start(options)) {
      started.accept(router.url());
      stop.await();
    }
  }

  private void serve() throws IOException, InterruptedException {
    HttpOptions options = options();
    try (KvTransport transport = split.open(environment.get(SplitArguments.TOKEN_VARIABLE));
        Engine engine = open(transport);
        HttpService service = HttpService.start(engine, options)) {
      started.accept(service.url());
      stop.await();
    }
  }

  /** What clients have to send; null for nothing. */
  private String key() throws IOException {
    String key = environment.getOrDefault(KEY_VARIABLE, "").strip();
    if (listening.apiKeyFile != null) {
      key = Files.readString(listening.apiKeyFile).strip();
    }
    return key.isEmpty() ? null : key;
  }

  private HttpOptions options() throws IOException {
    HttpOptions.Builder options = HttpOptions.builder();
    ifGiven(limits.inFlightLogitsBytes, options::maxInFlightLogitsBytes);
    return options
        .host(listening.host)
        .port(listening.port)
        .modelName(listening.modelName)
        .apiKey(key())
        .tls(listening.certificate, listening.key)
        .allowedOrigins(listening.origins)
        .maxConnections(limits.connections)
        .maxBodyBytes(limits.bodyBytes)
        .maxLogitsBytes(limits.logitsBytes)
        .split(split.options(key()))
        .requestTimeout(Duration.ofSeconds(limits.requestSeconds))
        .stallTimeout(Duration.ofSeconds(limits.stallSeconds))
        .drainTimeout(Duration.ofSeconds(limits.drainSeconds))
        .build();
  }

  private Engine open(KvTransport transport) {
    EngineBuilder builder =
        Engine.builder()
            .maxQueuedRequests(limits.queued)
            .kvTransport(transport)
            .kvTransferTimeout(split.timeout());
    if (computing.model == null) {
      builder.defaultModel();
    } else {
      builder.model(computing.model);
    }
    builder.backend(computing.backend).deviceIndex(computing.device).dtype(computing.dtype);
    ifGiven(computing.threads, builder::threads);
    ifGiven(computing.batchSize, builder::maxBatchSize);
    ifGiven(computing.batchTokens, builder::maxBatchTokens);
    ifGiven(computing.sequenceLength, builder::maxSequenceLength);
    ifGiven(computing.cacheTokens, builder::kvCacheTokens);
    try (LoadingBar bar = new LoadingBar(Boolean.getBoolean("halcyon.progress"))) {
      return builder.progressListener(bar).build();
    }
  }

  private static <T> void ifGiven(T value, Consumer<T> setter) {
    if (value != null) {
      setter.accept(value);
    }
  }

  private static void stopAndWait(CountDownLatch stop, CountDownLatch stopped) {
    stop.countDown();
    try {
      stopped.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
