package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaDeviceGetStreamPriorityRange;
import static org.bytedeco.cuda.global.cudart.cudaEventCreateWithFlags;
import static org.bytedeco.cuda.global.cudart.cudaEventDestroy;
import static org.bytedeco.cuda.global.cudart.cudaStreamCreateWithPriority;
import static org.bytedeco.cuda.global.cudart.cudaStreamDestroy;
import static org.bytedeco.cuda.global.cudart.cudaStreamSynchronize;

import dev.halcyon.engine.backend.Owned;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import java.util.concurrent.locks.ReentrantLock;
import org.bytedeco.cuda.cudart.CUevent_st;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.cuda.global.cudart;

/**
 * A device with the streams of one engine on it. All operations go to the compute stream, in the
 * order in which they are called; weights and what other threads read use streams of their own.
 *
 * <p>The owner thread puts its work on the compute stream without a lock. Every other thread takes
 * the {@link #gate()} to put something there, such as freeing a buffer; capturing a graph holds
 * that lock, so that nothing foreign gets into the graph.
 */
final class CudaContext implements AutoCloseable {

  private static final int NO_PRIORITY = 0;

  private final CudaDevice device;
  private final CUstream_st compute;
  private final CUstream_st upload;
  private final CUstream_st readback;
  private final CUstream_st download;
  private final CUstream_st exports;
  private final Downloads downloads;
  private final ReentrantLock gate = new ReentrantLock();
  private final Owned owned = new Owned();
  private volatile boolean broken;
  private volatile boolean closed;

  CudaContext(CudaDevice device) {
    this.device = device;
    device.makeCurrent();
    try {
      compute = stream(NO_PRIORITY);
      upload = stream(NO_PRIORITY);
      readback = stream(NO_PRIORITY);
      download = stream(NO_PRIORITY);
      exports = stream(highestPriority());
      downloads = new Downloads(this, download);
      owned.add(downloads::close);
    } catch (RuntimeException | Error e) {
      owned.closeAfter(e);
      throw e;
    }
  }

  private int highestPriority() {
    int[] least = new int[1];
    int[] greatest = new int[1];
    check(cudaDeviceGetStreamPriorityRange(least, greatest), "reading priorities of streams");
    return greatest[0];
  }

  private CUstream_st stream(int priority) {
    CUstream_st stream = new CUstream_st();
    check(
        cudaStreamCreateWithPriority(stream, cudart.cudaStreamNonBlocking, priority),
        "creating a stream");
    owned.add(() -> cudaStreamDestroy(stream));
    return stream;
  }

  /**
   * A new event, which notes no time.
   *
   * @param owner destroys it
   */
  CUevent_st event(Owned owner) {
    return event(owner, cudart.cudaEventDisableTiming);
  }

  /**
   * A new event.
   *
   * @param owner destroys it
   * @param flags of cudaEventCreateWithFlags
   */
  CUevent_st event(Owned owner, int flags) {
    CUevent_st event = new CUevent_st();
    check(cudaEventCreateWithFlags(event, flags), "creating an event");
    owner.add(() -> cudaEventDestroy(event));
    return event;
  }

  CudaDevice device() {
    return device;
  }

  /** Where operations run. */
  CUstream_st compute() {
    return compute;
  }

  /** Where weights are copied to the device. */
  CUstream_st upload() {
    return upload;
  }

  /** Where results are copied to the host. */
  CUstream_st readback() {
    return readback;
  }

  /**
   * Where keys and values are copied to the host. Its kernels are small, and go before those of the
   * compute stream that have not begun: a large one there would hold them up by as long as it
   * takes.
   */
  CUstream_st exports() {
    return exports;
  }

  /** Copies of results to pinned memory. */
  Downloads downloads() {
    return downloads;
  }

  /** Held by whoever captures a graph, and by threads other than the owner that use its stream. */
  ReentrantLock gate() {
    return gate;
  }

  /** Makes this thread's calls go to the device. Cheap; every entry from outside begins with it. */
  void enter() {
    int code = cudart.cudaSetDevice(device.index());
    if (code != 0) {
      check(code, "choosing GPU " + device.index());
    }
  }

  /**
   * Checks what a function of the runtime or the driver returned.
   *
   * @throws OutOfDeviceMemoryException if the device had no room for what the call needs itself
   * @throws CudaException if it failed for another reason
   */
  void check(int code, String what) {
    if (code == cudart.cudaErrorMemoryAllocation) {
      cudart.cudaGetLastError();
      throw new OutOfDeviceMemoryException(what, 0, 0);
    }
    if (code != 0) {
      CudaException failure = CudaErrors.failure(code, what);
      broken |= failure.sticky();
      throw failure;
    }
  }

  /** Whether the device has lost its state: frees are of no use then, and their errors no news. */
  boolean broken() {
    return broken;
  }

  /** Whether the streams are gone: buffers that live longer are freed without them. */
  boolean closed() {
    return closed;
  }

  /** Waits for what was called. What went wrong in kernels shows here at the latest. */
  void synchronize() {
    awaitCompute();
    downloads.awaitAll();
  }

  /** Waits for what was called on the compute stream alone, not for downloads. */
  void awaitCompute() {
    check(cudaStreamSynchronize(compute), "computing");
  }

  /** Waits for all streams, whatever became of their work; nothing once they are closed. */
  void drain() {
    gate.lock();
    try {
      if (!closed) {
        cudart.cudaSetDevice(device.index());
        for (CUstream_st stream :
            new CUstream_st[] {compute, upload, readback, download, exports}) {
          cudaStreamSynchronize(stream);
        }
        cudart.cudaGetLastError();
      }
    } finally {
      gate.unlock();
    }
  }

  /** Waits for what is under way, then lets go of the streams; closing twice is harmless. */
  @Override
  public void close() {
    gate.lock();
    try {
      if (!closed) {
        drain();
        closed = true;
        owned.close();
        cudart.cudaGetLastError();
      }
    } finally {
      gate.unlock();
    }
  }
}
