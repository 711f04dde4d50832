package dev.halcyon.engine.examples;

import dev.halcyon.engine.BackendChoice;
import dev.halcyon.engine.ChatMessage;
import dev.halcyon.engine.DTypeChoice;
import dev.halcyon.engine.Engine;
import dev.halcyon.engine.EngineBuilder;
import dev.halcyon.engine.GenerationDelta;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.RequestTiming;
import dev.halcyon.engine.SamplingParams;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/**
 * Continues a prompt on the command line, the text streamed to standard output as it comes. Exits
 * with 0, with 2 if an argument was wrong, and with 1 if anything else was.
 */
@Command(
    name = "generate",
    description = "Continues a prompt with the embedded model, or with a checkpoint of yours.",
    sortOptions = false,
    usageHelpAutoWidth = true)
public final class GenerateCommand implements Callable<Integer> {

  @Parameters(
      paramLabel = "PROMPT",
      description = "The text to continue, or with --chat to answer.")
  private String prompt;

  @Option(
      names = "--model",
      paramLabel = "DIR",
      description = "A checkpoint in Hugging Face layout. Default: the embedded model.")
  private Path model;

  @Option(names = "--chat", description = "Apply the checkpoint's chat template to the prompt.")
  private boolean chat;

  @Option(
      names = "--max-tokens",
      paramLabel = "N",
      description = "The most tokens to generate. Default: ${DEFAULT-VALUE}.")
  private int maxTokens = 200;

  @Option(
      names = "--temperature",
      paramLabel = "T",
      description = "0 takes the likeliest token. Default, here and below: as the model says.")
  private Float temperature;

  @Option(names = "--top-k", paramLabel = "K", description = "Sample from the K likeliest tokens.")
  private Integer topK;

  @Option(
      names = "--top-p",
      paramLabel = "P",
      description = "Sample from the fewest tokens that together have probability P.")
  private Float topP;

  @Option(
      names = "--min-p",
      paramLabel = "P",
      description = "Sample from tokens at least P times as likely as the likeliest.")
  private Float minP;

  @Option(
      names = "--seed",
      paramLabel = "SEED",
      description = "The same seed gives the same text. Default: another one each time.")
  private Long seed;

  @Option(
      names = "--stop",
      paramLabel = "TEXT",
      description = "Stop before this text comes; may be given several times.")
  private List<String> stop = List.of();

  @Option(
      names = "--no-echo",
      description = "Write the new text only. Without, and without --chat, it follows the prompt.")
  private boolean noEcho;

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
      description =
          "auto, f32, f16 or bf16: the type of activations. Default: auto, the checkpoint's on a GPU"
              + " and f32 on the CPU.")
  private DTypeChoice dtype = DTypeChoice.AUTO;

  @Option(
      names = "--threads",
      paramLabel = "N",
      description = "Threads to compute with. Default: one for each processor.")
  private Integer threads;

  @Option(
      names = {"-h", "--help"},
      usageHelp = true,
      description = "Show this help.")
  private boolean help;

  private final PrintStream out;
  private final PrintStream err;

  private GenerateCommand(PrintStream out, PrintStream err) {
    this.out = out;
    this.err = err;
  }

  public static void main(String[] args) {
    // UTF-8 whatever the locale says; flushed after each delta.
    PrintStream out =
        new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
    System.exit(run(out, System.err, args));
  }

  /** Runs the command and returns its exit code. */
  static int run(PrintStream out, PrintStream err, String... args) {
    return CommandRunner.run("generate", new GenerateCommand(out, err), out, err, args);
  }

  @Override
  public Integer call() {
    SamplingParams params = params();
    try (Engine engine = open()) {
      GenerationHandle handle = engine.submit(request(params));
      if (!stream(handle)) {
        return CommandRunner.FAILED;
      }
      try (GenerationResult result = handle.await()) {
        err.println(summary(result, engine.backendName()));
      }
      return 0;
    }
  }

  private SamplingParams params() {
    return SamplingParams.builder()
        .maxTokens(maxTokens)
        .temperature(temperature)
        .topK(topK)
        .topP(topP)
        .minP(minP)
        .seed(seed)
        .stop(stop)
        .build();
  }

  private GenerationRequest request(SamplingParams params) {
    return chat
        ? GenerationRequest.of(List.of(ChatMessage.user(prompt)), params)
        : GenerationRequest.of(prompt, params);
  }

  private Engine open() {
    EngineBuilder builder = Engine.builder();
    if (model == null) {
      builder.defaultModel();
    } else {
      builder.model(model);
    }
    builder.backend(backend).deviceIndex(device).dtype(dtype);
    if (threads != null) {
      builder.threads(threads);
    }
    try (LoadingBar bar = new LoadingBar(Boolean.getBoolean("halcyon.progress"))) {
      return builder.progressListener(bar).build();
    }
  }

  /**
   * Writes deltas as they come; false if nobody reads them any more: then the request is cancelled.
   */
  private boolean stream(GenerationHandle handle) {
    try (Stream<GenerationDelta> deltas = handle.stream()) {
      if (!noEcho && !chat) {
        out.print(prompt);
      }
      Iterator<GenerationDelta> each = deltas.iterator();
      while (each.hasNext()) {
        out.print(each.next().text());
        if (out.checkError()) { // flushes too
          return false;
        }
      }
      out.println();
      return !out.checkError();
    }
  }

  private static String summary(GenerationResult result, String backendName) {
    RequestTiming timing = result.timing();
    Duration first = timing.timeToFirstToken();
    return String.format(
        Locale.ROOT,
        "%d tokens, %.1f tokens/s, first token after %s, finished: %s, on: %s",
        result.usage().generatedTokens(),
        timing.tokensPerSecond(),
        first == null ? "-" : first.toMillis() + " ms",
        result.outputs().get(0).finishReason(),
        backendName);
  }
}
