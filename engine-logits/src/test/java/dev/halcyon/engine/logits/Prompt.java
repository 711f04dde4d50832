package dev.halcyon.engine.logits;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.function.DoubleUnaryOperator;

/**
 * A random prompt, the hidden rows that stand for it, and what a head must make of them: float64
 * arithmetic, no row like another one.
 */
final class Prompt {

  /** The number of different hidden rows: four values from -4 to 4. */
  private static final int HIDDEN_ROWS = 9 * 9 * 9 * 9;

  final int[] ids;
  private final int vocabSize;
  private final int[][] hidden;
  private final float[][] logits;

  Prompt(long seed, int length, int vocabSize, LogitsType type) {
    this(seed, length, vocabSize, type, x -> x);
  }

  Prompt(long seed, int length, int vocabSize, LogitsType type, DoubleUnaryOperator transform) {
    SplittableRandom random = new SplittableRandom(seed);
    this.vocabSize = vocabSize;
    this.ids = random.ints(length, 0, vocabSize).toArray();
    this.hidden = new int[length][FakeHead.HIDDEN];
    this.logits = new float[length][vocabSize];
    int start = random.nextInt(HIDDEN_ROWS);
    for (int row = 0; row < length; row++) {
      // 1009 has no factor with 9 in common, so no number comes twice.
      int number = (start + row * 1009) % HIDDEN_ROWS;
      for (int i = 0; i < FakeHead.HIDDEN; i++, number /= 9) {
        hidden[row][i] = number % 9 - 4;
      }
      for (int id = 0; id < vocabSize; id++) {
        double sum = 0;
        for (int i = 0; i < FakeHead.HIDDEN; i++) {
          sum += (double) hidden[row][i] * FakeHead.weight(id, i);
        }
        logits[row][id] = Elements.round((float) transform.applyAsDouble(sum / 8), type);
      }
    }
  }

  int length() {
    return ids.length;
  }

  /** Some of the hidden rows on a device, between others that hold NaN. */
  DeviceBuffer upload(
      FakeDevice device, LogitsType type, int position, int rows, int before, int after) {
    float[] values = new float[(before + rows + after) * FakeHead.HIDDEN];
    Arrays.fill(values, Float.NaN);
    for (int row = 0; row < rows; row++) {
      for (int i = 0; i < FakeHead.HIDDEN; i++) {
        values[(before + row) * FakeHead.HIDDEN + i] = hidden[position + row][i];
      }
    }
    return device.upload(type, values);
  }

  float[] logits(int row) {
    return logits[row];
  }

  PromptLogprobs logprobs(int k) {
    return new PromptLogprobs(ids, k, true);
  }

  /** Requires full rows to be right in every bit. */
  void requireFull(FullLogits full) {
    assertThat(full.rows()).isEqualTo(length());
    float[] row = new float[vocabSize];
    for (int i = 0; i < length(); i++) {
      full.read(i, row);
      assertThat(row).as("row %d", i).isEqualTo(logits[i]);
    }
  }

  /** Requires every entry to be right, the last one for the first token. */
  void requireLogprobs(PromptLogprobs got, int firstToken) {
    for (int entry = 0; entry < length(); entry++) {
      int target = entry + 1 < length() ? ids[entry + 1] : firstToken;
      Reference.requireEntry(got, entry, logits[entry], target);
    }
  }
}
