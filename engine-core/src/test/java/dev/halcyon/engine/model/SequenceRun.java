package dev.halcyon.engine.model;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** A sequence that a test feeds to a decoder: its prompt, then greedily what follows. */
final class SequenceRun {

  final int[] tokens;
  final int promptLength;
  final List<float[]> logits = new ArrayList<>();
  int known;
  int computed;

  SequenceRun(int[] prompt, int steps) {
    promptLength = prompt.length;
    known = prompt.length;
    tokens = Arrays.copyOf(prompt, prompt.length + steps);
  }

  boolean finished() {
    return known == tokens.length;
  }

  int rows(int chunk) {
    return Math.min(chunk, known - computed);
  }

  /**
   * Takes the logits of the next row; those of the last known token choose the one that follows.
   */
  void accept(float[] row) {
    if (computed < promptLength) {
      logits.add(row);
    }
    computed++;
    if (computed == known) {
      tokens[known++] = argmax(row);
    }
  }

  int[] generated() {
    return Arrays.copyOfRange(tokens, promptLength, tokens.length);
  }

  private static int argmax(float[] row) {
    int best = 0;
    for (int i = 1; i < row.length; i++) {
      if (row[i] > row[best]) {
        best = i;
      }
    }
    return best;
  }
}
