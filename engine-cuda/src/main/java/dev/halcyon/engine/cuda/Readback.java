package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaEventRecord;
import static org.bytedeco.cuda.global.cudart.cudaEventSynchronize;
import static org.bytedeco.cuda.global.cudart.cudaMemcpyAsync;
import static org.bytedeco.cuda.global.cudart.cudaStreamWaitEvent;

import dev.halcyon.engine.backend.Owned;
import java.nio.ByteBuffer;
import org.bytedeco.cuda.cudart.CUevent_st;
import org.bytedeco.cuda.global.cudart;

/**
 * Copies device memory to the host for any thread, on a stream of its own, so that computing goes
 * on beside it. Two pinned blocks take turns: one is filled while the other one is read.
 */
final class Readback implements AutoCloseable {

  private static final int BLOCK_BYTES = 4 << 20;

  private final CudaContext context;
  private final Owned owned = new Owned();
  private final PinnedBlock[] blocks = new PinnedBlock[2];
  private final CUevent_st[] filled = new CUevent_st[2];
  private final CUevent_st computed;

  /** Takes bytes in their order. */
  interface Consumer {

    /**
     * @param bytes a part of what is read, from position 0 to its limit
     * @param offset how many bytes came before
     */
    void accept(ByteBuffer bytes, long offset);
  }

  Readback(CudaContext context) {
    this.context = context;
    try {
      computed = context.event(owned);
      for (int i = 0; i < blocks.length; i++) {
        filled[i] = context.event(owned);
        PinnedBlock block =
            PinnedBlock.require(context.device(), BLOCK_BYTES, "copies from the GPU");
        owned.add(block::close);
        blocks[i] = block;
      }
    } catch (RuntimeException | Error e) {
      owned.closeAfter(e);
      throw e;
    }
  }

  /** Reads what all operations called so far leave at an address; complete on return. */
  synchronized void read(long address, long bytes, Consumer consumer) {
    context.enter();
    afterCompute();
    DevicePointer from = new DevicePointer();
    long asked = 0;
    long done = 0;
    for (int turn = 0; done < bytes; turn ^= 1) {
      while (asked < bytes && asked - done < 2L * BLOCK_BYTES) {
        int block = (int) (asked / BLOCK_BYTES & 1);
        long run = Math.min(BLOCK_BYTES, bytes - asked);
        fill(block, from.at(address + asked), run);
        asked += run;
      }
      int run = (int) Math.min(BLOCK_BYTES, bytes - done);
      context.check(cudaEventSynchronize(filled[turn]), "copying from the device");
      consumer.accept(blocks[turn].bytes().clear().limit(run), done);
      done += run;
    }
  }

  private void afterCompute() {
    context.gate().lock();
    try {
      if (context.closed()) {
        throw new IllegalStateException("The CUDA backend is closed");
      }
      context.check(cudaEventRecord(computed, context.compute()), "reading results");
      context.check(cudaStreamWaitEvent(context.readback(), computed, 0), "reading results");
    } finally {
      context.gate().unlock();
    }
  }

  private void fill(int block, DevicePointer from, long bytes) {
    context.check(
        cudaMemcpyAsync(
            blocks[block].address(),
            from,
            bytes,
            cudart.cudaMemcpyDeviceToHost,
            context.readback()),
        "copying from the device");
    context.check(cudaEventRecord(filled[block], context.readback()), "copying from the device");
  }

  @Override
  public synchronized void close() {
    owned.close();
  }
}
