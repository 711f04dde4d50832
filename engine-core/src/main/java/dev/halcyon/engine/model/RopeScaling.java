package dev.halcyon.engine.model;

/**
 * How rotary frequencies are stretched to sequences longer than those of the pretraining.
 * Frequencies are computed in float32 in the order of Hugging Face transformers, as a model
 * computes what it was trained on.
 */
public sealed interface RopeScaling {

  /**
   * One frequency for each pair of rotating elements, in radians per position.
   *
   * @param theta the base
   * @param rotaryDim rotating elements
   * @param length the positions of the sequence so far; only {@link Dynamic} heeds it
   */
  float[] frequencies(double theta, int rotaryDim, int length);

  /** The factor on cosines and sines. */
  default double attentionScaling() {
    return 1;
  }

  /** The positions that the scaling makes room for; 0 where max_position_embeddings says it. */
  default long contextLength() {
    return 0;
  }

  /** theta^(-2i / rotaryDim) for pair i. */
  static float[] plainFrequencies(double theta, int rotaryDim) {
    float[] frequencies = new float[rotaryDim / 2];
    for (int i = 0; i < frequencies.length; i++) {
      frequencies[i] = 1 / (float) Math.pow(theta, 2f * i / rotaryDim);
    }
    return frequencies;
  }

  /** No scaling. */
  record None() implements RopeScaling {

    @Override
    public float[] frequencies(double theta, int rotaryDim, int length) {
      return plainFrequencies(theta, rotaryDim);
    }
  }

  /**
   * Every frequency divided by a factor (position interpolation).
   *
   * @param factor how much longer sequences become
   * @param originalPositions the positions of the pretraining
   */
  record Linear(double factor, int originalPositions) implements RopeScaling {

    @Override
    public float[] frequencies(double theta, int rotaryDim, int length) {
      float[] frequencies = plainFrequencies(theta, rotaryDim);
      for (int i = 0; i < frequencies.length; i++) {
        frequencies[i] /= (float) factor;
      }
      return frequencies;
    }

    @Override
    public long contextLength() {
      return (long) (factor * originalPositions);
    }
  }

  /**
   * A base that grows with the sequence once it is longer than in the pretraining (dynamic NTK).
   *
   * @param factor how much longer sequences may become
   * @param originalPositions the positions of the pretraining
   */
  record Dynamic(double factor, int originalPositions) implements RopeScaling {

    @Override
    public float[] frequencies(double theta, int rotaryDim, int length) {
      if (length <= originalPositions) {
        // At the original length the stretch is factor - (factor - 1), one but for rounding.
        return plainFrequencies(theta, rotaryDim);
      }
      float stretch = (float) factor * length / originalPositions - (float) (factor - 1);
      double power = rotaryDim / (rotaryDim - 2.0);
      return plainFrequencies((float) theta * (float) Math.pow(stretch, power), rotaryDim);
    }

    @Override
    public long contextLength() {
      return (long) (factor * originalPositions);
    }
  }

  /**
   * Long wavelengths divided by a factor, short ones kept, those between interpolated (Llama 3.1).
   *
   * @param factor how much longer sequences become
   * @param lowFrequency wavelengths above originalPositions / lowFrequency are divided by the
   *     factor
   * @param highFrequency wavelengths below originalPositions / highFrequency are kept
   * @param originalPositions the positions of the pretraining
   */
  record Llama3(double factor, double lowFrequency, double highFrequency, int originalPositions)
      implements RopeScaling {

    @Override
    public float[] frequencies(double theta, int rotaryDim, int length) {
      float[] frequencies = plainFrequencies(theta, rotaryDim);
      for (int i = 0; i < frequencies.length; i++) {
        frequencies[i] = scaled(frequencies[i]);
      }
      return frequencies;
    }

    private float scaled(float frequency) {
      float wavelength = (float) (2 * Math.PI) / frequency;
      if (wavelength > originalPositions / lowFrequency) {
        return frequency / (float) factor;
      }
      if (wavelength < originalPositions / highFrequency) {
        return frequency;
      }
      float smooth =
          (originalPositions / wavelength - (float) lowFrequency)
              / (float) (highFrequency - lowFrequency);
      return (1 - smooth) * frequency / (float) factor + smooth * frequency;
    }
  }

  /**
   * A ramp from kept to divided frequencies, and a factor on the rotated values (YaRN, arXiv
   * 2309.00071).
   *
   * @param factor how much longer sequences become
   * @param originalPositions the positions of the pretraining
   * @param attentionScaling the factor on cosines and sines
   * @param betaFast pairs that turn more often than this in the original length keep their
   *     frequency
   * @param betaSlow pairs that turn less often than this have it divided by the factor
   * @param truncate whether the ramp's ends are rounded outwards to whole pairs
   */
  record Yarn(
      double factor,
      int originalPositions,
      double attentionScaling,
      double betaFast,
      double betaSlow,
      boolean truncate)
      implements RopeScaling {

    @Override
    public float[] frequencies(double theta, int rotaryDim, int length) {
      double low = pairThatTurns(betaFast, theta, rotaryDim);
      double high = pairThatTurns(betaSlow, theta, rotaryDim);
      double first = Math.max(truncate ? Math.floor(low) : low, 0);
      double last = Math.min(truncate ? Math.ceil(high) : high, rotaryDim - 1);
      double span = first == last ? 0.001 : last - first;
      float[] frequencies = new float[rotaryDim / 2];
      for (int i = 0; i < frequencies.length; i++) {
        float wavelength = (float) Math.pow(theta, 2f * i / rotaryDim);
        float ramp = (i - (float) first) / (float) span;
        float keep = 1 - Math.min(1, Math.max(0, ramp));
        frequencies[i] = 1 / ((float) factor * wavelength) * (1 - keep) + 1 / wavelength * keep;
      }
      return frequencies;
    }

    /** The pair, as a fraction, that makes so many turns over the original length. */
    private double pairThatTurns(double turns, double theta, int rotaryDim) {
      return rotaryDim
          * Math.log(originalPositions / (turns * 2 * Math.PI))
          / (2 * Math.log(theta));
    }

    @Override
    public long contextLength() {
      return (long) (factor * originalPositions);
    }
  }
}
