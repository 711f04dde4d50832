package dev.halcyon.engine.backend.cpu;

import java.nio.FloatBuffer;

/**
 * One worker's reusable working memory; each array grows to the largest use and is then kept.
 * {@link Kernels#dot} uses a and b; its callers keep what they need in c.
 */
final class Scratch implements AutoCloseable {

  private float[] a = {};
  private float[] b = {};
  private float[] c = {};
  private float[] logits = {};
  private short[] shorts = {};
  private NativeBlock block;
  private FloatBuffer nativeFloats;
  private final AttentionScratch attention = new AttentionScratch();

  float[] a(int size) {
    if (a.length < size) {
      a = new float[size];
    }
    return a;
  }

  float[] b(int size) {
    if (b.length < size) {
      b = new float[size];
    }
    return b;
  }

  float[] c(int size) {
    if (c.length < size) {
      c = new float[size];
    }
    return c;
  }

  /** An array of exactly this many elements. */
  float[] logits(int vocabSize) {
    if (logits.length != vocabSize) {
      logits = new float[vocabSize];
    }
    return logits;
  }

  short[] shorts(int size) {
    if (shorts.length < size) {
      shorts = new short[size];
    }
    return shorts;
  }

  AttentionScratch attention() {
    return attention;
  }

  /** Native floats, for what is handed to BLAS. */
  FloatBuffer nativeFloats(int size) {
    if (nativeFloats == null || nativeFloats.capacity() < size) {
      close();
      block = NativeBlock.allocate(4L * size);
      if (block == null) {
        throw new OutOfMemoryError("No native memory for a tile of " + size + " floats");
      }
      nativeFloats = block.bytes().asFloatBuffer();
    }
    return nativeFloats;
  }

  @Override
  public void close() {
    if (block != null) {
      nativeFloats = null;
      block.close();
      block = null;
    }
  }
}
