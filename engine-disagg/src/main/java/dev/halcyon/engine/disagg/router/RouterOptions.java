package dev.halcyon.engine.disagg.router;

import dev.halcyon.engine.ScheduleStyle;
import dev.halcyon.engine.disagg.server.Checks;
import dev.halcyon.engine.disagg.server.ServerOptions;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;

/**
 * What a {@link DisaggService} routes to, and how. {@link #builder()} has a default for everything
 * but the endpoints. An endpoint is the URL of one server, as "http://prefill-0.prefill:8000": not
 * of a balancer with several behind it, because a prompt is where it was computed.
 *
 * @param server how the router listens, to whom, and what its clients may cost
 * @param prefill the endpoints with the prefill role
 * @param decode the endpoints with the decode role
 * @param scheduleStyle CONTEXT_FIRST: the router has the prompt computed and hands it on;
 *     GENERATION_FIRST: the decode endpoint is asked first and has the prompt computed itself.
 *     Default: CONTEXT_FIRST
 * @param choice how endpoints are chosen. Default: LEAST_LOADED
 * @param affinityEntries how many beginnings of prompts are remembered, with the prefill endpoint
 *     that has seen them; 0 for none. Some 100 bytes each. Default: 65,536
 * @param affinitySlack how many more calls than on the least loaded one may run on a prefill
 *     endpoint that gets a prompt for its beginning. Default: 8
 * @param endpointKey the API key that endpoints ask for. Default: null, none
 * @param endpointTrust certificates in PEM that those of https endpoints have to lead to. Default:
 *     null, those that Java trusts
 * @param maxInFlight requests that are routed at a time. Default: 512
 * @param maxWaiting requests that wait for their turn; one more is refused with 429. Default: 512
 * @param maxRetries how often a request is tried again. Default: 2
 * @param retryDelay the pause before the first of them, doubled each time. Default: 50 ms
 * @param connectTimeout how long connecting to an endpoint may take. Default: 2 s
 * @param requestTimeout how long a request may take in all. Default: 10 minutes
 * @param silenceTimeout how long an endpoint may be silent within its answer. Default: 60 s
 * @param maxHandoverBytes the largest answer of a prefill endpoint. Default: 128 MiB
 * @param healthInterval the time between two checks of an endpoint. Default: 2 s
 * @param healthTimeout how long such a check may take. Default: 2 s
 * @param failuresToMarkDown failed checks or calls in a row after which an endpoint gets no more
 *     requests. Default: 3
 * @param successesToMarkUp good checks in a row after which it gets requests again. Default: 2
 */
public record RouterOptions(
    ServerOptions server,
    List<URI> prefill,
    List<URI> decode,
    ScheduleStyle scheduleStyle,
    ChoicePolicy choice,
    int affinityEntries,
    int affinitySlack,
    String endpointKey,
    Path endpointTrust,
    int maxInFlight,
    int maxWaiting,
    int maxRetries,
    Duration retryDelay,
    Duration connectTimeout,
    Duration requestTimeout,
    Duration silenceTimeout,
    int maxHandoverBytes,
    Duration healthInterval,
    Duration healthTimeout,
    int failuresToMarkDown,
    int successesToMarkUp) {

  public RouterOptions {
    Objects.requireNonNull(server, "server");
    Objects.requireNonNull(scheduleStyle, "scheduleStyle");
    Objects.requireNonNull(choice, "choice");
    prefill = endpoints(prefill, "prefill");
    decode = endpoints(decode, "decode");
    if (endpointKey != null && endpointKey.isBlank()) {
      throw new IllegalArgumentException("endpointKey must not be blank; leave it out for none");
    }
    Checks.atLeast(0, affinityEntries, "affinityEntries");
    Checks.atLeast(0, affinitySlack, "affinitySlack");
    Checks.atLeast(1, maxInFlight, "maxInFlight");
    Checks.atLeast(0, maxWaiting, "maxWaiting");
    Checks.atLeast(0, maxRetries, "maxRetries");
    Checks.notNegative(retryDelay, "retryDelay");
    Checks.positive(connectTimeout, "connectTimeout");
    Checks.positive(requestTimeout, "requestTimeout");
    Checks.positive(silenceTimeout, "silenceTimeout");
    Checks.atLeast(1, maxHandoverBytes, "maxHandoverBytes");
    Checks.positive(healthInterval, "healthInterval");
    Checks.positive(healthTimeout, "healthTimeout");
    Checks.atLeast(1, failuresToMarkDown, "failuresToMarkDown");
    Checks.atLeast(1, successesToMarkUp, "successesToMarkUp");
  }

  private static List<URI> endpoints(List<URI> urls, String name) {
    if (urls.isEmpty()) {
      throw new IllegalArgumentException(name + " is empty, expected at least one endpoint's URL");
    }
    List<URI> plain = urls.stream().map(url -> endpoint(url, name)).toList();
    if (plain.stream().distinct().count() < plain.size()) {
      throw new IllegalArgumentException(name + " has an endpoint twice: " + plain);
    }
    return plain;
  }

  /** An endpoint's URL without a slash at its end. */
  private static URI endpoint(URI url, String name) {
    boolean http = "http".equalsIgnoreCase(url.getScheme());
    boolean path = url.getRawPath() != null && !url.getRawPath().matches("/?");
    if ((!http && !"https".equalsIgnoreCase(url.getScheme()))
        || url.getHost() == null
        || path
        || url.getRawUserInfo() != null
        || url.getRawQuery() != null
        || url.getRawFragment() != null) {
      throw new IllegalArgumentException(
          name + " has " + url + ", expected the form http://host:port or https://host:port");
    }
    int port = url.getPort() >= 0 ? url.getPort() : http ? 80 : 443;
    return URI.create((http ? "http://" : "https://") + url.getHost() + ":" + port);
  }

  public static Builder builder() {
    return new Builder();
  }

  /** The key is left out. */
  @Override
  public String toString() {
    return "RouterOptions[" + server + ", prefill " + prefill + ", decode " + decode + "]";
  }

  /** Collects options; checked when built. Each setter is named for what it sets. */
  public static final class Builder {

    private ServerOptions server = ServerOptions.builder().build();
    private List<URI> prefill = List.of();
    private List<URI> decode = List.of();
    private ScheduleStyle scheduleStyle = ScheduleStyle.CONTEXT_FIRST;
    private ChoicePolicy choice = ChoicePolicy.LEAST_LOADED;
    private int affinityEntries = 1 << 16;
    private int affinitySlack = 8;
    private String endpointKey;
    private Path endpointTrust;
    private int maxInFlight = 512;
    private int maxWaiting = 512;
    private int maxRetries = 2;
    private Duration retryDelay = Duration.ofMillis(50);
    private Duration connectTimeout = Duration.ofSeconds(2);
    private Duration requestTimeout = Duration.ofMinutes(10);
    private Duration silenceTimeout = Duration.ofSeconds(60);
    private int maxHandoverBytes = 128 << 20;
    private Duration healthInterval = Duration.ofSeconds(2);
    private Duration healthTimeout = Duration.ofSeconds(2);
    private int failuresToMarkDown = 3;
    private int successesToMarkUp = 2;

    private Builder() {}

    public Builder server(ServerOptions value) {
      server = value;
      return this;
    }

    public Builder prefill(List<URI> value) {
      prefill = value;
      return this;
    }

    public Builder decode(List<URI> value) {
      decode = value;
      return this;
    }

    public Builder scheduleStyle(ScheduleStyle value) {
      scheduleStyle = value;
      return this;
    }

    public Builder choice(ChoicePolicy value) {
      choice = value;
      return this;
    }

    public Builder affinityEntries(int value) {
      affinityEntries = value;
      return this;
    }

    public Builder affinitySlack(int value) {
      affinitySlack = value;
      return this;
    }

    public Builder endpointKey(String value) {
      endpointKey = value;
      return this;
    }

    public Builder endpointTrust(Path value) {
      endpointTrust = value;
      return this;
    }

    public Builder maxInFlight(int value) {
      maxInFlight = value;
      return this;
    }

    public Builder maxWaiting(int value) {
      maxWaiting = value;
      return this;
    }

    public Builder maxRetries(int value) {
      maxRetries = value;
      return this;
    }

    public Builder retryDelay(Duration value) {
      retryDelay = value;
      return this;
    }

    public Builder connectTimeout(Duration value) {
      connectTimeout = value;
      return this;
    }

    public Builder requestTimeout(Duration value) {
      requestTimeout = value;
      return this;
    }

    public Builder silenceTimeout(Duration value) {
      silenceTimeout = value;
      return this;
    }

    public Builder maxHandoverBytes(int value) {
      maxHandoverBytes = value;
      return this;
    }

    public Builder healthInterval(Duration value) {
      healthInterval = value;
      return this;
    }

    public Builder healthTimeout(Duration value) {
      healthTimeout = value;
      return this;
    }

    public Builder failuresToMarkDown(int value) {
      failuresToMarkDown = value;
      return this;
    }

    public Builder successesToMarkUp(int value) {
      successesToMarkUp = value;
      return this;
    }

    /**
     * @throws IllegalArgumentException if a value can't be right
     */
    public RouterOptions build() {
      return new RouterOptions(
          server,
          prefill,
          decode,
          scheduleStyle,
          choice,
          affinityEntries,
          affinitySlack,
          endpointKey,
          endpointTrust,
          maxInFlight,
          maxWaiting,
          maxRetries,
          retryDelay,
          connectTimeout,
          requestTimeout,
          silenceTimeout,
          maxHandoverBytes,
          healthInterval,
          healthTimeout,
          failuresToMarkDown,
          successesToMarkUp);
    }
  }
}
