package dev.halcyon.engine.model;

import dev.halcyon.engine.ModelLoadException;
import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.RopeTable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;

/**
 * Cosines and sines of every position's angles.
 *
 * <p>With {@link RopeScaling.Dynamic} the frequencies depend on the sequence's length. Row p of the
 * table uses those of length max(p + 1, original length): the values that transformers computes for
 * a sequence fed token by token. They don't depend on how a prompt is cut into chunks, whereas
 * transformers' own result for a long prompt in one pass differs from that of the same prompt in
 * two.
 */
final class RopeTables {

  private RopeTables() {}

  /** Computes the table of a rotary embedding and makes it resident. */
  static RopeTable load(Backend backend, RopeConfig rope, int positions) {
    FloatBuffer cos = allocate(positions, rope);
    FloatBuffer sin = allocate(positions, rope);
    fill(rope, positions, cos, sin);
    return backend.loadRope(positions, rope.rotaryDim(), rope.layout(), cos.flip(), sin.flip());
  }

  /** The bytes of a table, as host memory and, most likely, on the device. */
  static long bytes(RopeConfig rope, int positions) {
    return (long) positions * rope.rotaryDim() * Float.BYTES;
  }

  private static void fill(RopeConfig rope, int positions, FloatBuffer cos, FloatBuffer sin) {
    float scaling = (float) rope.scaling().attentionScaling();
    boolean dynamic = rope.scaling() instanceof RopeScaling.Dynamic;
    float[] frequencies = rope.scaling().frequencies(rope.theta(), rope.rotaryDim(), 0);
    for (int position = 0; position < positions; position++) {
      if (dynamic) {
        frequencies = rope.scaling().frequencies(rope.theta(), rope.rotaryDim(), position + 1);
      }
      for (float frequency : frequencies) {
        // The angle is rounded to float32 before its cosine is taken, as in transformers.
        float angle = position * frequency;
        cos.put((float) Math.cos(angle) * scaling);
        sin.put((float) Math.sin(angle) * scaling);
      }
    }
  }

  private static FloatBuffer allocate(int positions, RopeConfig rope) {
    long bytes = (long) positions * (rope.rotaryDim() / 2) * Float.BYTES;
    if (bytes > Integer.MAX_VALUE) {
      throw new ModelLoadException(
          "Rotary tables for "
              + positions
              + " positions would take "
              + 2 * bytes
              + " bytes. Ask for a smaller maxSequenceLength");
    }
    return ByteBuffer.allocateDirect((int) bytes).order(ByteOrder.nativeOrder()).asFloatBuffer();
  }
}
