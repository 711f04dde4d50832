package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaEventCreateWithFlags;
import static org.bytedeco.cuda.global.cudart.cudaEventDestroy;
import static org.bytedeco.cuda.global.cudart.cudaEventElapsedTime;
import static org.bytedeco.cuda.global.cudart.cudaEventRecord;
import static org.bytedeco.cuda.global.cudart.cudaEventSynchronize;
import static org.bytedeco.cuda.global.cudart.cudaMemsetAsync;

import dev.halcyon.engine.backend.Owned;
import java.util.function.IntConsumer;
import org.bytedeco.cuda.cudart.CUevent_st;
import org.bytedeco.cuda.global.cudart;

/**
 * Finds the fastest of several ways to compute the same. Each run finds the device's cache as a
 * step does, full of something else: weights come from memory.
 */
final class GemmTimer implements AutoCloseable {

  private static final int RUNS = 4;

  /** A way is taken before an earlier one only if it is faster by this much: less is noise. */
  private static final float GAIN = 0.97f;

  private final CudaContext context;
  private final Owned owned = new Owned();
  private final CUevent_st begin;
  private final CUevent_st end;
  private final CudaBuffer eviction;
  private final float[] millis = new float[1];

  /**
   * @throws dev.halcyon.engine.logits.OutOfDeviceMemoryException if there is no room for twice the
   *     device's cache
   */
  GemmTimer(CudaContext context, CudaMemory memory) {
    this.context = context;
    try {
      begin = event();
      end = event();
      eviction = memory.allocateOwn(2L * context.device().cacheBytes(), "timing of products");
      owned.add(eviction::close);
    } catch (RuntimeException | Error e) {
      owned.closeAfter(e);
      throw e;
    }
  }

  private CUevent_st event() {
    CUevent_st event = new CUevent_st();
    context.check(cudaEventCreateWithFlags(event, cudart.cudaEventDefault), "creating an event");
    owned.add(() -> cudaEventDestroy(event));
    return event;
  }

  /**
   * Runs each of the ways several times.
   *
   * @param way runs the way of a number
   * @return the number of the one whose best run was the fastest
   */
  int fastest(int ways, IntConsumer way) {
    int best = 0;
    float least = Float.MAX_VALUE;
    for (int i = 0; i < ways; i++) {
      float time = bestOfRuns(way, i);
      if (time < least * (i == 0 ? 1 : GAIN)) {
        best = i;
        least = time;
      }
    }
    return best;
  }

  private float bestOfRuns(IntConsumer way, int number) {
    try {
      // The first run of a kernel loads it.
      way.accept(number);
    } catch (CudaException e) {
      if (e.sticky()) {
        throw e;
      }
      // Proposed for a few rows more, and not possible for these.
      return Float.MAX_VALUE;
    }
    float least = Float.MAX_VALUE;
    for (int run = 0; run < RUNS; run++) {
      least = Math.min(least, time(way, number));
    }
    return least;
  }

  private float time(IntConsumer way, int number) {
    context.check(
        cudaMemsetAsync(
            new DevicePointer(eviction.address()), 0, eviction.bytes(), context.compute()),
        "timing products");
    context.check(cudaEventRecord(begin, context.compute()), "timing products");
    way.accept(number);
    context.check(cudaEventRecord(end, context.compute()), "timing products");
    context.check(cudaEventSynchronize(end), "timing products");
    context.check(cudaEventElapsedTime(millis, begin, end), "timing products");
    return millis[0];
  }

  @Override
  public void close() {
    owned.close();
  }
}
