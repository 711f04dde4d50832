package dev.halcyon.engine.sampling;

/**
 * Unnormalised probabilities: exp((logit - max) / temperature), 1 for the most likely token.
 *
 * @param max the highest logit, finite
 * @param temperature above 0
 */
record Weights(float max, float temperature) {

  double of(float logit) {
    return Math.exp(scaled(logit));
  }

  /** The logarithm of the weight. */
  double scaled(float logit) {
    return ((double) logit - max) / temperature;
  }

  /** The logit that has a weight, as near as a double can tell. */
  double logitOf(double weight) {
    return max + temperature * Math.log(weight);
  }
}
