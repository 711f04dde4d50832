package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaEventRecord;
import static org.bytedeco.cuda.global.cudart.cudaEventSynchronize;
import static org.bytedeco.cuda.global.cudart.cudaMemcpy2DAsync;
import static org.bytedeco.cuda.global.cudart.cudaMemcpyAsync;

import dev.halcyon.engine.backend.Owned;
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.util.function.IntUnaryOperator;
import org.bytedeco.cuda.cudart.CUevent_st;
import org.bytedeco.cuda.global.cudart;

/**
 * Copies Java arrays to the device in the order of the compute stream, through pinned slots that
 * are used in turn: the host goes on while the device copies. For the owner thread: {@code
 * to(address)}, then runs of values and gaps, then {@code end()}.
 */
final class UploadRing implements AutoCloseable {

  private static final int SLOTS = 4;
  private static final int SLOT_BYTES = 1 << 20;

  private final CudaContext context;
  private final Owned owned = new Owned();
  private final Slot[] slots = new Slot[SLOTS];
  private final DevicePointer to = new DevicePointer();
  private int next;
  private Slot slot;
  private long address;

  /** Pinned memory, and when the device has read it. */
  private record Slot(PinnedBlock block, CUevent_st done) {}

  UploadRing(CudaContext context) {
    this.context = context;
    try {
      for (int i = 0; i < SLOTS; i++) {
        slots[i] = slot();
      }
    } catch (RuntimeException | Error e) {
      owned.closeAfter(e);
      throw e;
    }
  }

  private Slot slot() {
    PinnedBlock block = PinnedBlock.require(context.device(), SLOT_BYTES, "copies to the GPU");
    owned.add(block::close);
    return new Slot(block, context.event(owned));
  }

  /** Begins a copy to an address on the device. */
  UploadRing to(long begin) {
    address = begin;
    takeSlot();
    return this;
  }

  private void takeSlot() {
    slot = slots[next];
    next = (next + 1) % SLOTS;
    // An event that was never recorded counts as done.
    context.check(cudaEventSynchronize(slot.done()), "copying to the device");
    slot.block().bytes().clear();
  }

  /** Copies integers. */
  UploadRing ints(int[] from, int fromIndex, int count) {
    int done = 0;
    while (done < count) {
      ByteBuffer bytes = room();
      int run = Math.min(count - done, bytes.remaining() / Integer.BYTES);
      bytes.asIntBuffer().put(from, fromIndex + done, run);
      bytes.position(bytes.position() + run * Integer.BYTES);
      done += run;
    }
    return this;
  }

  /** Copies floats. */
  UploadRing floats(float[] from, int fromIndex, int count) {
    int done = 0;
    while (done < count) {
      ByteBuffer bytes = room();
      int run = Math.min(count - done, bytes.remaining() / Float.BYTES);
      bytes.asFloatBuffer().put(from, fromIndex + done, run);
      bytes.position(bytes.position() + run * Float.BYTES);
      done += run;
    }
    return this;
  }

  /** Leaves a gap, whose elements on the device hold anything afterwards. */
  UploadRing skip(int elements) {
    long left = (long) elements * Integer.BYTES;
    while (left > 0) {
      ByteBuffer bytes = room();
      int run = (int) Math.min(left, bytes.remaining());
      bytes.position(bytes.position() + run);
      left -= run;
    }
    return this;
  }

  private ByteBuffer room() {
    if (!slot.block().bytes().hasRemaining()) {
      flush();
      takeSlot();
    }
    return slot.block().bytes();
  }

  /**
   * Copies the beginnings of rows of a table, all of them to the same column, and no more of the
   * table than that.
   *
   * @param begin the table's address
   * @param stride elements from row to row on the device
   * @param width elements of a row that are copied, at most stride; what a row has no elements for
   *     holds anything afterwards
   * @param count how many elements a row has, at most width
   */
  void table(long begin, int stride, int width, int rows, int[][] from, IntUnaryOperator count) {
    int atOnce = SLOT_BYTES / Integer.BYTES / width;
    if (atOnce == 0) {
      for (int row = 0; row < rows; row++) {
        to(begin + (long) row * stride * Integer.BYTES)
            .ints(from[row], 0, count.applyAsInt(row))
            .end();
      }
      return;
    }
    for (int first = 0; first < rows; first += atOnce) {
      takeSlot();
      IntBuffer ints = slot.block().bytes().asIntBuffer();
      int end = Math.min(rows, first + atOnce);
      for (int row = first; row < end; row++) {
        ints.position((row - first) * width).put(from[row], 0, count.applyAsInt(row));
      }
      long run = (long) width * Integer.BYTES;
      context.check(
          cudaMemcpy2DAsync(
              to.at(begin + (long) first * stride * Integer.BYTES),
              (long) stride * Integer.BYTES,
              slot.block().address(),
              run,
              run,
              end - first,
              cudart.cudaMemcpyHostToDevice,
              context.compute()),
          "copying to the device");
      context.check(cudaEventRecord(slot.done(), context.compute()), "copying to the device");
    }
  }

  /** Sends what is left; all that was copied is there for what is called from now on. */
  void end() {
    flush();
  }

  private void flush() {
    int bytes = slot.block().bytes().position();
    if (bytes > 0) {
      context.check(
          cudaMemcpyAsync(
              to.at(address),
              slot.block().address(),
              bytes,
              cudart.cudaMemcpyHostToDevice,
              context.compute()),
          "copying to the device");
      context.check(cudaEventRecord(slot.done(), context.compute()), "copying to the device");
      address += bytes;
    }
  }

  @Override
  public void close() {
    owned.close();
  }
}
