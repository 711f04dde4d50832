package dev.halcyon.engine.backend.cpu;

/** Scalar functions in double precision inside, right to float32's last place. */
final class Activations {

  private static final double GELU_LIMIT = 9;
  private static final int GELU_STEPS = 64;

  /** The normal distribution function at multiples of 1 / GELU_STEPS from -GELU_LIMIT on. */
  private static final double[] PHI = new double[(int) (2 * GELU_LIMIT * GELU_STEPS) + 2];

  /** Phi's slope at the same places, per step. */
  private static final double[] SLOPE = new double[PHI.length];

  static {
    for (int i = 0; i < PHI.length; i++) {
      double x = (double) i / GELU_STEPS - GELU_LIMIT;
      PHI[i] = normalDistribution(x);
      SLOPE[i] = density(x) / GELU_STEPS;
    }
  }

  private Activations() {}

  /**
   * The hyperbolic tangent: several times faster than Math.tanh, which no JDK compiles to an
   * intrinsic.
   */
  static float tanh(float x) {
    if (Math.abs(x) < 1e-3f) {
      // Below this the next term of the series, x^5 * 2 / 15, is under a tenth of float32's
      // precision.
      return x - x * x * x / 3;
    }
    if (Math.abs(x) > 20) {
      return Math.signum(x);
    }
    double e = Math.exp(2.0 * x);
    return (float) ((e - 1) / (e + 1));
  }

  /**
   * x * Phi(x), by cubic Hermite interpolation in a table of Phi, whose derivative is the normal
   * density. The error of Phi is at most h^4 / 384 * max |Phi''''| = 2e-10.
   */
  static float gelu(float x) {
    if (!(Math.abs(x) < GELU_LIMIT)) {
      // Phi(-9) is 1e-19, so x * Phi(x) is nothing beside what it is added to. NaN stays NaN.
      return x > 0 ? x : x * 0f;
    }
    double at = (x + GELU_LIMIT) * GELU_STEPS;
    int i = (int) at;
    double t = at - i;
    double slope0 = SLOPE[i];
    double slope1 = SLOPE[i + 1];
    double rise = PHI[i + 1] - PHI[i];
    double c2 = 3 * rise - 2 * slope0 - slope1;
    double c3 = slope0 + slope1 - 2 * rise;
    return (float) (x * (PHI[i] + t * (slope0 + t * (c2 + t * c3))));
  }

  private static double density(double x) {
    return Math.exp(-0.5 * x * x) / Math.sqrt(2 * Math.PI);
  }

  /**
   * By the series Phi(x) = 1/2 + density(x) * (x + x^3 / 3 + x^5 / (3 * 5) + ...), whose terms have
   * one sign.
   */
  private static double normalDistribution(double x) {
    double term = x;
    double sum = x;
    for (int n = 3; Math.abs(term) > 1e-17 * Math.abs(sum); n += 2) {
      term *= x * x / n;
      sum += term;
    }
    return 0.5 + density(x) * sum;
  }
}
