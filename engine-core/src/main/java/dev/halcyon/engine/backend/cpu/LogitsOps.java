package dev.halcyon.engine.backend.cpu;

import static dev.halcyon.engine.backend.cpu.CpuBuffer.bytes;
import static dev.halcyon.engine.backend.cpu.CpuBuffer.floats;
import static dev.halcyon.engine.backend.cpu.CpuBuffer.requireApart;

import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.HalfFloats;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.logits.HostBuffer;
import dev.halcyon.engine.logits.LogitsDevice;
import dev.halcyon.engine.logits.LogitsType;
import dev.halcyon.engine.logits.PromptLogprobs;
import dev.halcyon.engine.logits.RowLogprobs;
import java.nio.ByteBuffer;
import java.nio.FloatBuffer;
import java.nio.ShortBuffer;
import java.util.Objects;

/** What {@link LogitsDevice} asks for besides memory: copies, conversion, logprobs of rows. */
final class LogitsOps {

  private final WorkerPool pool;
  private final Scratch[] scratch;
  private final Kernels kernels;

  LogitsOps(WorkerPool pool, Scratch[] scratch, Kernels kernels) {
    this.pool = pool;
    this.scratch = scratch;
    this.kernels = kernels;
  }

  void toFloat32(DeviceBuffer from, LogitsType type, long count, DeviceBuffer to) {
    if (type == LogitsType.F32) {
      copy(from, to, size(count, Float.BYTES));
      return;
    }
    requireApart(from, size(count, type.bytes()), "from", to, size(count, Float.BYTES));
    ShortBuffer halves = bytes(from, count, type.bytes(), "from").asShortBuffer();
    FloatBuffer out = floats(to, count, "to");
    Chunks.runColumns(
        pool,
        1,
        Math.toIntExact(count),
        (row, first, run, worker) -> {
          short[] narrow = scratch[worker].shorts(run);
          float[] wide = scratch[worker].a(run);
          halves.get(first, narrow, 0, run);
          kernels.widen(stored(type), narrow, run, wide);
          out.put(first, wide, 0, run);
        });
  }

  private static DType stored(LogitsType type) {
    return switch (type) {
      case F32 -> DType.F32;
      case F16 -> DType.F16;
      case BF16 -> DType.BF16;
    };
  }

  void copy(DeviceBuffer from, DeviceBuffer to, long count) {
    size(count, 1);
    requireApart(from, count, "from", to, count);
    ByteBuffer source = bytes(from, count, 1, "from");
    bytes(to, count, 1, "to").put(0, source, 0, (int) count);
  }

  void download(DeviceBuffer from, long count, HostBuffer to, long toFirst) {
    FloatBuffer source = floats(from, count, "from");
    Objects.checkFromIndexSize(toFirst, count, to.bytes() / Float.BYTES);
    float[] values = scratch[0].a(Chunks.ELEMENTS);
    for (int done = 0; done < count; done += Chunks.ELEMENTS) {
      int run = (int) Math.min(Chunks.ELEMENTS, count - done);
      source.get(done, values, 0, run);
      to.write(toFirst + done, values, 0, run);
    }
  }

  void write(float[] from, int fromIndex, int count, DeviceBuffer to, long first) {
    floats(to, end(first, count), "to").put((int) first, from, fromIndex, count);
  }

  /** Uses no scratch memory, since any thread may call it. */
  void read(DeviceBuffer from, LogitsType type, long first, int count, float[] to, int toIndex) {
    long needed = end(first, count);
    if (type == LogitsType.F32) {
      floats(from, needed, "from").get((int) first, to, toIndex, count);
      return;
    }
    ShortBuffer halves = bytes(from, needed, type.bytes(), "from").asShortBuffer();
    Objects.checkFromIndexSize(toIndex, count, to.length);
    int at = (int) first;
    if (type == LogitsType.BF16) {
      for (int i = 0; i < count; i++) {
        to[toIndex + i] = HalfFloats.bf16(halves.get(at + i));
      }
    } else {
      for (int i = 0; i < count; i++) {
        to[toIndex + i] = HalfFloats.f16(halves.get(at + i));
      }
    }
  }

  void joinShards(
      DeviceBuffer shards, LogitsType type, int ranks, int rows, int cols, DeviceBuffer out) {
    if (ranks < 1 || rows < 0 || cols < 0) {
      throw new IllegalArgumentException("ranks " + ranks + ", rows " + rows + ", cols " + cols);
    }
    // In two steps, so that no product overflows before it is refused.
    long rowElements = size((long) ranks * cols, type.bytes()) / type.bytes();
    long elements = rowElements * rows;
    long size = size(elements, type.bytes());
    requireApart(shards, size, "shards", out, size);
    ByteBuffer from = bytes(shards, elements, type.bytes(), "shards");
    ByteBuffer to = bytes(out, elements, type.bytes(), "out");
    int run = cols * type.bytes();
    Chunks.run(
        pool,
        ranks * rows,
        cols,
        (part, worker) -> {
          int rank = part / rows;
          int row = part % rows;
          to.put((row * ranks + rank) * run, from, part * run, run);
        });
  }

  void reduce(
      DeviceBuffer logits,
      LogitsType type,
      int rows,
      int cols,
      PromptLogprobs out,
      int firstEntry) {
    out.requireReducible(rows, cols, firstEntry);
    bytes(logits, (long) rows * cols, type.bytes(), "logits");
    pool.run(
        rows,
        (row, worker) -> {
          float[] own = scratch[worker].logits(cols);
          read(logits, type, (long) row * cols, cols, own, 0);
          float max = kernels.max(own, cols);
          double logOfSum = Math.log(kernels.sumOfExp(own, cols, max));
          new RowLogprobs(own, max, logOfSum).setEntry(out, firstEntry + row);
        });
  }

  /** The size in bytes of elements; numbers that no buffer holds are refused here. */
  private static long size(long count, int elementBytes) {
    if (count < 0 || count > NativeBlock.MAX_BYTES / elementBytes) {
      throw new IllegalArgumentException("No buffer holds " + count + " elements");
    }
    return count * elementBytes;
  }

  /** Where a run of elements ends; places that no buffer has are refused here. */
  private static long end(long first, int count) {
    if (first < 0 || count < 0 || first > NativeBlock.MAX_BYTES) {
      throw new IllegalArgumentException("from element " + first + ", count " + count);
    }
    return first + count;
  }
}
