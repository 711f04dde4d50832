package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.disagg.server.Checks;
import dev.halcyon.engine.disagg.server.ServerOptions;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;

/**
 * How an {@link HttpService} listens and what it allows. {@link #builder()} has a default for
 * everything.
 *
 * @param server how it listens, to whom, and what clients may cost
 * @param modelName what the model is called in requests. Default: null, the checkpoint's folder, or
 *     "default" for the embedded model
 * @param maxPrompts prompts in one request. Default: 128
 * @param maxLogprobs the most likely tokens that a request may ask for at each position. Default:
 *     20
 * @param maxLogitsBytes bytes, as float32, of the logits that a request may ask for. Default: 64
 *     MiB
 * @param maxInFlightLogitsBytes the same of all requests together, until their answers have been
 *     sent. An answer takes up to five times its logits' bytes of the heap while it is written.
 *     Default: an eighth of the heap's limit
 * @param split the part that the server has in split requests. Default: null, none
 * @param requestTimeout how long a request may run. Default: 10 minutes
 */
public record HttpOptions(
    ServerOptions server,
    String modelName,
    int maxPrompts,
    int maxLogprobs,
    int maxLogitsBytes,
    long maxInFlightLogitsBytes,
    SplitOptions split,
    Duration requestTimeout) {

  public HttpOptions {
    Objects.requireNonNull(server, "server");
    Checks.atLeast(1, maxPrompts, "maxPrompts");
    Checks.atLeast(0, maxLogprobs, "maxLogprobs");
    Checks.atLeast(0, maxLogitsBytes, "maxLogitsBytes");
    Checks.atLeast(0, maxInFlightLogitsBytes, "maxInFlightLogitsBytes");
    Checks.positive(requestTimeout, "requestTimeout");
  }

  /** A decode server's requests come with what was handed over. */
  ServerOptions serverWithHandover() {
    if (!hasRole(SplitOptions.Role.DECODE)) {
      return server;
    }
    long bytes = (long) server.maxBodyBytes() + split.maxHandoverBytes();
    return server.withMaxBodyBytes((int) Math.min(bytes, Integer.MAX_VALUE - 64));
  }

  boolean hasRole(SplitOptions.Role role) {
    return split != null && split.role() == role;
  }

  public static Builder builder() {
    return new Builder();
  }

  /** Collects options; checked when built. Each setter is named for what it sets. */
  public static final class Builder {

    private final ServerOptions.Builder server = ServerOptions.builder();
    private String modelName;
    private int maxPrompts = 128;
    private int maxLogprobs = 20;
    private int maxLogitsBytes = 64 << 20;
    private long maxInFlightLogitsBytes = Runtime.getRuntime().maxMemory() / 8;
    private SplitOptions split;
    private Duration requestTimeout = Duration.ofMinutes(10);

    private Builder() {}

    public Builder host(String value) {
      server.host(value);
      return this;
    }

    public Builder port(int value) {
      server.port(value);
      return this;
    }

    public Builder modelName(String value) {
      modelName = value;
      return this;
    }

    public Builder apiKey(String value) {
      server.apiKey(value);
      return this;
    }

    /** Serves https with these PEM files; both null for plain http. */
    public Builder tls(Path certificate, Path key) {
      server.tls(certificate, key);
      return this;
    }

    public Builder allowedOrigins(List<String> value) {
      server.allowedOrigins(value);
      return this;
    }

    public Builder maxConnections(int value) {
      server.maxConnections(value);
      return this;
    }

    public Builder maxBodyBytes(int value) {
      server.maxBodyBytes(value);
      return this;
    }

    public Builder maxPrompts(int value) {
      maxPrompts = value;
      return this;
    }

    public Builder maxLogprobs(int value) {
      maxLogprobs = value;
      return this;
    }

    public Builder maxLogitsBytes(int value) {
      maxLogitsBytes = value;
      return this;
    }

    public Builder maxInFlightLogitsBytes(long value) {
      maxInFlightLogitsBytes = value;
      return this;
    }

    public Builder split(SplitOptions value) {
      split = value;
      return this;
    }

    public Builder requestTimeout(Duration value) {
      requestTimeout = value;
      return this;
    }

    public Builder bodyTimeout(Duration value) {
      server.bodyTimeout(value);
      return this;
    }

    public Builder idleTimeout(Duration value) {
      server.idleTimeout(value);
      return this;
    }

    public Builder stallTimeout(Duration value) {
      server.stallTimeout(value);
      return this;
    }

    public Builder heartbeat(Duration value) {
      server.heartbeat(value);
      return this;
    }

    public Builder drainTimeout(Duration value) {
      server.drainTimeout(value);
      return this;
    }

    /**
     * @throws IllegalArgumentException if a value can't be right
     */
    public HttpOptions build() {
      return new HttpOptions(
          server.build(),
          modelName,
          maxPrompts,
          maxLogprobs,
          maxLogitsBytes,
          maxInFlightLogitsBytes,
          split,
          requestTimeout);
    }
  }
}
