package dev.halcyon.engine.cuda;

import java.util.Arrays;

/** A list of 32-bit words, to be uploaded as the structures that a kernel reads. Only grows. */
final class Words {

  private int[] words = new int[1024];
  private int size;

  Words clear() {
    size = 0;
    return this;
  }

  Words i32(int value) {
    if (size == words.length) {
      words = Arrays.copyOf(words, 2 * size);
    }
    words[size++] = value;
    return this;
  }

  Words f32(float value) {
    return i32(Float.floatToRawIntBits(value));
  }

  /** A 64-bit value, at an even number of words. */
  Words i64(long value) {
    return i32((int) value).i32((int) (value >>> 32));
  }

  /** Takes back what came after the first words. */
  void truncate(int words) {
    size = words;
  }

  Words all(Words other) {
    for (int i = 0; i < other.size; i++) {
      i32(other.words[i]);
    }
    return this;
  }

  int size() {
    return size;
  }

  /** The words, of which {@link #size()} count. */
  int[] array() {
    return words;
  }
}
