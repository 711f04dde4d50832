package dev.halcyon.engine.examples;

import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.disagg.router.ChoicePolicy;
import dev.halcyon.engine.disagg.router.RouterOptions;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.stream.Stream;
import picocli.CommandLine.Option;

/** How a router deals with the servers behind it. */
final class RouterArguments {

  @Option(
      names = "--decode",
      paramLabel = "URL",
      description = "A decode server; may be given several times, as --prefill.")
  private List<URI> decodes;

  @Option(
      names = "--schedule-style",
      paramLabel = "STYLE",
      description =
          "context_first (prompts are computed, then handed on) or generation_first (the decode"
              + " server is asked first). Default: context_first.")
  private ScheduleStyle style;

  @Option(
      names = "--choice",
      paramLabel = "POLICY",
      description = "round_robin or least_loaded. Default: least_loaded.")
  private ChoicePolicy choice;

  @Option(
      names = "--max-running",
      paramLabel = "N",
      description = "Requests that are routed at a time; others wait. Default: 512.")
  private Integer running;

  @Option(
      names = "--max-retries",
      paramLabel = "N",
      description = "How often a request is tried again where that is safe. Default: 2.")
  private Integer retries;

  @Option(
      names = "--health-interval",
      paramLabel = "SECONDS",
      description = "The time between two checks of a server. Default: 2.")
  private Long healthSeconds;

  @Option(
      names = "--endpoint-api-key-file",
      paramLabel = "FILE",
      description = "A file with the key to send to servers. Default: the router's own key.")
  private Path keyFile;

  @Option(
      names = "--endpoint-trust",
      paramLabel = "FILE",
      description =
          "Certificates in PEM that those of https servers have to lead to. Default: those that"
              + " Java trusts.")
  private Path trust;

  /**
   * Options with what is given here.
   *
   * @param ownKey what clients have to send here, or null
   */
  RouterOptions.Builder options(String ownKey) throws IOException {
    RouterOptions.Builder options =
        RouterOptions.builder()
            .decode(decodes == null ? List.of() : decodes)
            .endpointKey(keyFile == null ? ownKey : Files.readString(keyFile).strip())
            .endpointTrust(trust);
    ifGiven(style, options::scheduleStyle);
    ifGiven(choice, options::choice);
    ifGiven(running, options::maxInFlight);
    ifGiven(retries, options::maxRetries);
    ifGiven(healthSeconds, seconds -> options.healthInterval(Duration.ofSeconds(seconds)));
    return options;
  }

  /** Requires that nothing is given here, which is for routers alone. */
  void requireNone() {
    if (Stream.of(decodes, style, choice, running, retries, healthSeconds, keyFile, trust)
        .anyMatch(Objects::nonNull)) {
      throw new IllegalArgumentException(
          "--decode, --schedule-style, --choice, --max-running, --max-retries, --health-interval"
              + " and --endpoint-... are for --role router");
    }
  }

  private static <T> void ifGiven(T value, Consumer<T> setter) {
    if (value != null) {
      setter.accept(value);
    }
  }
}
