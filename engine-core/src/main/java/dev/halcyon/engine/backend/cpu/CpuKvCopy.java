package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.KvRange;
import dev.halcyon.engine.backend.KvShape;
import java.nio.FloatBuffer;

/**
 * Copies a sequence's tokens from one cache of this backend to another, with all threads of the
 * engine that receives them. Whole blocks of the same size are copied as they lie, several at once
 * where they follow each other in both caches.
 */
final class CpuKvCopy {

  /** What a thread copies at once: much more than handing it out takes. */
  private static final int SEGMENT_BYTES = 1 << 18;

  private final WorkerPool pool;
  private final CpuKvStorage from;
  private final int[] fromBlocks;
  private final CpuKvStorage to;
  private final int[] toBlocks;
  private final int fromSize;
  private final int toSize;

  CpuKvCopy(WorkerPool pool, CpuKvStorage from, int[] fromBlocks, CpuKvStorage to, int[] toBlocks) {
    if (!to.copiesFrom(from)) {
      throw new IllegalArgumentException(
          "a cache of " + to.shape() + " can't take tokens of " + from.shape());
    }
    this.pool = pool;
    this.from = from;
    this.fromBlocks = fromBlocks;
    this.to = to;
    this.toBlocks = toBlocks;
    this.fromSize = from.shape().blockSize();
    this.toSize = to.shape().blockSize();
  }

  void copy(KvRange range) {
    range.requireWithin(from.shape(), fromBlocks);
    range.requireWithin(to.shape(), toBlocks);
    int size = segmentTokens();
    // Segments begin where positions are multiples of their size, but for the first one.
    int firstSegment = range.firstToken() / size;
    int end = range.firstToken() + range.count();
    int segments = (end - 1) / size - firstSegment + 1;
    pool.run(
        range.layers() * segments,
        (index, worker) -> {
          int begin = (firstSegment + index % segments) * size;
          copy(
              range.firstLayer() + index / segments,
              Math.max(begin, range.firstToken()),
              Math.min(begin + size, end));
        });
  }

  /** A power of two, of whole blocks. */
  private int segmentTokens() {
    int fitting = SEGMENT_BYTES / (to.blockFloats() / toSize * Float.BYTES);
    return Math.max(Math.max(fromSize, toSize), Integer.highestOneBit(Math.max(1, fitting)));
  }

  private void copy(int layer, int begin, int end) {
    for (int token = begin; token < end; ) {
      int blocks = wholeBlocks(token, end);
      if (blocks > 0) {
        copyBlocks(layer, token / toSize, blocks);
        token += blocks * toSize;
      } else {
        int run = Math.min(end - token, Math.min(leftOf(fromSize, token), leftOf(toSize, token)));
        copyRun(layer, token, run);
        token += run;
      }
    }
  }

  private static int leftOf(int blockSize, int token) {
    return blockSize - token % blockSize;
  }

  /** How many blocks from a token on can be copied at once; 0 if not even one. */
  private int wholeBlocks(int token, int end) {
    if (fromSize != toSize || token % toSize != 0 || end - token < toSize) {
      return 0;
    }
    int first = token / toSize;
    int most =
        Math.min(
            (end - token) / toSize,
            Math.min(from.blocksInARow(fromBlocks[first]), to.blocksInARow(toBlocks[first])));
    int blocks = 1;
    while (blocks < most
        && fromBlocks[first + blocks] == fromBlocks[first] + blocks
        && toBlocks[first + blocks] == toBlocks[first] + blocks) {
      blocks++;
    }
    return blocks;
  }

  private void copyBlocks(int layer, int index, int blocks) {
    int source = fromBlocks[index];
    int target = toBlocks[index];
    to.buffer(layer, target)
        .put(
            to.keys(target, 0),
            from.buffer(layer, source),
            from.keys(source, 0),
            blocks * to.blockFloats());
  }

  /** Copies tokens that lie in one block of each cache. */
  private void copyRun(int layer, int token, int run) {
    KvShape shape = to.shape();
    int dim = shape.headDim();
    int source = fromBlocks[token / fromSize];
    int target = toBlocks[token / toSize];
    int read = token % fromSize;
    int write = token % toSize;
    FloatBuffer in = from.buffer(layer, source);
    FloatBuffer out = to.buffer(layer, target);
    for (int head = 0; head < shape.heads(); head++) {
      int keysIn = from.keys(source, head) + read;
      int keysOut = to.keys(target, head) + write;
      for (int d = 0; d < dim; d++) {
        out.put(keysOut + d * toSize, in, keysIn + d * fromSize, run);
      }
      int valuesIn = from.values(source, head) + read * dim;
      out.put(to.values(target, head) + write * dim, in, valuesIn, run * dim);
    }
  }
}
