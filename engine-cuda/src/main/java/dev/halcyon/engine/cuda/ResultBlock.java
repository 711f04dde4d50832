package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaMemcpyAsync;

import java.nio.ByteBuffer;
import org.bytedeco.cuda.global.cudart;

/**
 * Brings small results to the host, through pinned memory that only grows. For the owner thread.
 */
final class ResultBlock implements AutoCloseable {

  private static final int LEAST_BYTES = 64 << 10;

  private final CudaContext context;
  private final DevicePointer source = new DevicePointer();
  private PinnedBlock block;

  ResultBlock(CudaContext context) {
    this.context = context;
  }

  /**
   * Copies what all operations called so far leave at an address, and waits for it: on return it is
   * complete, and so are those operations.
   *
   * @return the bytes, little-endian, until the next call
   */
  ByteBuffer download(long address, int bytes) {
    grow(bytes);
    context.check(
        cudaMemcpyAsync(
            block.address(),
            source.at(address),
            bytes,
            cudart.cudaMemcpyDeviceToHost,
            context.compute()),
        "copying results from the device");
    context.synchronize();
    return block.bytes();
  }

  private void grow(int bytes) {
    if (block != null && block.bytes().capacity() >= bytes) {
      return;
    }
    close();
    int size = Math.max(LEAST_BYTES, bytes);
    block = PinnedBlock.require(context.device(), size, "results from the GPU");
  }

  @Override
  public void close() {
    if (block != null) {
      block.close();
      block = null;
    }
  }
}
