package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaMemcpy2DAsync;
import static org.bytedeco.cuda.global.cudart.cudaMemcpyAsync;

import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.HalfFloats;
import dev.halcyon.engine.logits.HostBuffer;
import dev.halcyon.engine.logits.LogitsType;
import java.nio.FloatBuffer;
import java.nio.ShortBuffer;
import java.util.Objects;
import org.bytedeco.cuda.global.cudart;

/** Copies within the device and between it and the host. */
final class TransferOps {

  private static final int WIDENED_AT_ONCE = 4096;

  private final CudaContext context;
  private final Readback readback;
  private final DevicePointer source = new DevicePointer();
  private final DevicePointer target = new DevicePointer();

  TransferOps(CudaContext context, Readback readback) {
    this.context = context;
    this.readback = readback;
  }

  void copy(long from, long to, long bytes) {
    if (bytes > 0) {
      context.check(
          cudaMemcpyAsync(
              target.at(to),
              source.at(from),
              bytes,
              cudart.cudaMemcpyDeviceToDevice,
              context.compute()),
          "copying on the device");
    }
  }

  /**
   * One strided copy for each rank.
   *
   * @param run the bytes of a rank's part of a row
   */
  void joinShards(long shards, int ranks, int rows, long run, long out) {
    if (rows == 0 || run == 0) {
      return;
    }
    for (int rank = 0; rank < ranks; rank++) {
      context.check(
          cudaMemcpy2DAsync(
              target.at(out + rank * run),
              ranks * run,
              source.at(shards + rank * rows * run),
              run,
              run,
              rows,
              cudart.cudaMemcpyDeviceToDevice,
              context.compute()),
          "joining the columns of ranks");
    }
  }

  /** Starts a copy to pinned memory; whoever looks there waits for it. */
  void download(long from, long count, HostBuffer to, long toFirst) {
    Objects.checkFromIndexSize(toFirst, count, to.bytes() / Float.BYTES);
    if (!(to instanceof CudaHostBuffer pinned)) {
      throw new IllegalArgumentException("to is not a host buffer of the CUDA backend: " + to);
    }
    if (count > 0) {
      pinned.receive(
          context.downloads(),
          address ->
              context
                  .downloads()
                  .start(from, address + toFirst * Float.BYTES, count * Float.BYTES));
    }
  }

  /** Any thread may call it. */
  void read(long from, LogitsType type, int count, float[] to, int toIndex) {
    Objects.checkFromIndexSize(toIndex, count, to.length);
    if (count == 0) {
      return;
    }
    readback.read(
        from,
        (long) count * type.bytes(),
        (bytes, offset) -> {
          int at = toIndex + (int) (offset / type.bytes());
          if (type == LogitsType.F32) {
            FloatBuffer floats = bytes.asFloatBuffer();
            floats.get(to, at, floats.remaining());
          } else {
            widen(bytes.asShortBuffer(), type == LogitsType.F16 ? DType.F16 : DType.BF16, to, at);
          }
        });
  }

  /** Through arrays, whose loops are compiled to vectors. */
  private static void widen(ShortBuffer from, DType type, float[] to, int at) {
    short[] halves = new short[Math.min(WIDENED_AT_ONCE, from.remaining())];
    int begin = at;
    while (from.hasRemaining()) {
      int count = Math.min(halves.length, from.remaining());
      from.get(halves, 0, count);
      if (type == DType.BF16) {
        for (int i = 0; i < count; i++) {
          to[begin + i] = HalfFloats.bf16(halves[i]);
        }
      } else {
        for (int i = 0; i < count; i++) {
          to[begin + i] = HalfFloats.f16(halves[i]);
        }
      }
      begin += count;
    }
  }
}
