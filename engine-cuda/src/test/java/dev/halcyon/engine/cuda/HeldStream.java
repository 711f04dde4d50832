package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cuStreamWaitValue32;
import static org.bytedeco.cuda.global.cudart.cudaStreamSynchronize;

import java.lang.invoke.VarHandle;
import org.bytedeco.cuda.global.cudart;

/**
 * Holds a compute stream up at where it is now: what is called from now on waits, however fast the
 * device is. Kernels that did not run before must not be called meanwhile, since loading them may
 * wait for the device.
 */
final class HeldStream implements AutoCloseable {

  private final CudaContext context;
  private final PinnedBlock gate;

  HeldStream(CudaContext context) {
    this.context = context;
    gate = PinnedBlock.require(context.device(), Integer.BYTES, "a test");
    gate.bytes().putInt(0, 0);
    CudaErrors.check(
        cuStreamWaitValue32(
            context.compute(), gate.address().address(), 1, cudart.CU_STREAM_WAIT_VALUE_EQ),
        "holding a stream up");
  }

  /** Lets it go on. */
  void release() {
    gate.bytes().putInt(0, 1);
    VarHandle.fullFence();
  }

  @Override
  public void close() {
    release();
    CudaErrors.check(cudaStreamSynchronize(context.compute()), "computing");
    gate.close();
  }
}
