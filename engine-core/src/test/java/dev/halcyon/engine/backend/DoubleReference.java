package dev.halcyon.engine.backend;

/** The operations in double precision, as plainly as they can be written. */
final class DoubleReference {

  private DoubleReference() {}

  static double[] rmsNorm(float[] x, int from, float[] weight, double offset, double eps) {
    int n = weight.length;
    double squares = 0;
    for (int i = 0; i < n; i++) {
      squares += (double) x[from + i] * x[from + i];
    }
    double[] y = new double[n];
    for (int i = 0; i < n; i++) {
      y[i] = x[from + i] / Math.sqrt(squares / n + eps) * (weight[i] + offset);
    }
    return y;
  }

  static double activation(Activation activation, double x) {
    return switch (activation) {
      case SILU -> x / (1 + Math.exp(-x));
      case GELU_TANH ->
          0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x)));
      case GELU -> x * normalDistribution(x);
    };
  }

  /** Phi(x) by Simpson's rule on its density, from 0 to x. */
  private static double normalDistribution(double x) {
    int steps = 2000;
    double h = x / steps;
    double sum = 0;
    for (int i = 0; i <= steps; i++) {
      int factor = i == 0 || i == steps ? 1 : i % 2 == 1 ? 4 : 2;
      sum += factor * Math.exp(-0.5 * i * h * i * h);
    }
    return 0.5 + sum * h / 3 / Math.sqrt(2 * Math.PI);
  }

  static double[] layerNorm(float[] x, int from, float[] weight, double eps) {
    int n = weight.length;
    double mean = 0;
    for (int i = 0; i < n; i++) {
      mean += (double) x[from + i] / n;
    }
    double variance = 0;
    for (int i = 0; i < n; i++) {
      variance += (x[from + i] - mean) * (x[from + i] - mean) / n;
    }
    double[] y = new double[n];
    for (int i = 0; i < n; i++) {
      y[i] = (x[from + i] - mean) / Math.sqrt(variance + eps) * weight[i];
    }
    return y;
  }

  /** Rotates a head's pairs by position * frequency(i). */
  static void rope(double[] head, int rotaryDim, RopeLayout layout, int position) {
    boolean halves = layout == RopeLayout.HALVES;
    for (int i = 0; i < rotaryDim / 2; i++) {
      int first = halves ? i : 2 * i;
      int second = halves ? i + rotaryDim / 2 : 2 * i + 1;
      double angle = position * ropeFrequency(i, rotaryDim);
      double a = head[first];
      double b = head[second];
      head[first] = a * Math.cos(angle) - b * Math.sin(angle);
      head[second] = b * Math.cos(angle) + a * Math.sin(angle);
    }
  }

  static double ropeFrequency(int i, int rotaryDim) {
    return Math.pow(10000, -2.0 * i / rotaryDim);
  }

  /** Attention of one query at a position over keys and values [position][headDim]. */
  static double[] attention(
      double[] query, double[][] keys, double[][] values, int position, AttentionSpec spec) {
    int from = spec.slidingWindow() == 0 ? 0 : Math.max(0, position - spec.slidingWindow() + 1);
    double[] weights = new double[position + 1];
    double max = Double.NEGATIVE_INFINITY;
    for (int j = from; j <= position; j++) {
      double score = 0;
      for (int d = 0; d < query.length; d++) {
        score += query[d] * keys[j][d];
      }
      score *= spec.scale();
      if (spec.softcap() != 0) {
        score = spec.softcap() * Math.tanh(score / spec.softcap());
      }
      weights[j] = score;
      max = Math.max(max, score);
    }
    double total = 0;
    double[] out = new double[query.length];
    for (int j = from; j <= position; j++) {
      double weight = Math.exp(weights[j] - max);
      total += weight;
      for (int d = 0; d < query.length; d++) {
        out[d] += weight * values[j][d];
      }
    }
    for (int d = 0; d < query.length; d++) {
      out[d] /= total;
    }
    return out;
  }
}
