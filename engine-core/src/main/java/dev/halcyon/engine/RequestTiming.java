package dev.halcyon.engine;

import java.time.Duration;

/**
 * How long a request took.
 *
 * @param queueTime from submission until its first tokens were scheduled; the whole time if they
 *     never were
 * @param timeToFirstToken from submission until the first token was sampled; null if none was
 * @param total from submission to the end
 * @param tokensPerSecond tokens per second after the first, over all outputs; 0 with fewer than two
 */
public record RequestTiming(
    Duration queueTime, Duration timeToFirstToken, Duration total, double tokensPerSecond) {}
