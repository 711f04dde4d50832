package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaEventRecord;
import static org.bytedeco.cuda.global.cudart.cudaEventSynchronize;
import static org.bytedeco.cuda.global.cudart.cudaMemcpyAsync;
import static org.bytedeco.cuda.global.cudart.cudaStreamWaitEvent;

import dev.halcyon.engine.backend.Owned;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.bytedeco.cuda.cudart.CUevent_st;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.cuda.global.cudart;

/**
 * Copies to pinned memory on a stream of their own, beside what is computed next. Two things keep
 * that from showing: whatever writes to memory that is still being copied from, or frees it, waits
 * on the device ({@link #beforeReuse}), and whoever looks at memory that is still being copied to
 * waits on the host ({@link #await}).
 */
final class Downloads implements AutoCloseable {

  private final CudaContext context;
  private final CUstream_st stream;
  private final Owned owned = new Owned();
  private final CUevent_st computed;
  private final CUevent_st copied;
  private final DevicePointer source = new DevicePointer();
  private final DevicePointer target = new DevicePointer();

  /** Held by those who wait for {@link #copied}, so that it is there. */
  private final ReadWriteLock open = new ReentrantReadWriteLock();

  /**
   * Numbers of copies, from 1: the last one that was started, and the last one known to be done.
   */
  private volatile long started;

  private final AtomicLong done = new AtomicLong();

  /**
   * What copies under way read, from the lowest address to the highest; empty if there are none.
   */
  private long pendingFrom;

  private volatile long pendingTo;

  Downloads(CudaContext context, CUstream_st stream) {
    this.context = context;
    this.stream = stream;
    try {
      computed = context.event(owned);
      copied = context.event(owned);
    } catch (RuntimeException | Error e) {
      owned.closeAfter(e);
      throw e;
    }
  }

  /**
   * Starts a copy of what all operations called so far leave at an address.
   *
   * @param to a host address, in memory that is not freed before {@link #await} returned
   * @return the copy's number
   */
  synchronized long start(long from, long to, long bytes) {
    context.check(cudaEventRecord(computed, context.compute()), "copying from the device");
    context.check(cudaStreamWaitEvent(stream, computed, 0), "copying from the device");
    context.check(
        cudaMemcpyAsync(
            target.at(to), source.at(from), bytes, cudart.cudaMemcpyDeviceToHost, stream),
        "copying from the device");
    context.check(cudaEventRecord(copied, stream), "copying from the device");
    pendingFrom = pendingTo == 0 ? from : Math.min(pendingFrom, from);
    pendingTo = Math.max(pendingTo, from + bytes);
    return ++started;
  }

  /**
   * Has the compute stream wait, before it writes to memory or frees it, for copies from there. Any
   * thread may call it that may use that stream.
   */
  void beforeReuse(long address, long bytes) {
    if (pendingTo != 0) {
      waitOnDevice(address, bytes);
    }
  }

  private synchronized void waitOnDevice(long address, long bytes) {
    if (address < pendingTo && pendingFrom < address + bytes) {
      context.check(cudaStreamWaitEvent(context.compute(), copied, 0), "copying from the device");
      pendingTo = 0;
    }
  }

  /** Waits until all copies up to a number are done; at once after the engine's end. */
  void await(long number) {
    if (done.get() >= number) {
      return;
    }
    open.readLock().lock();
    try {
      if (done.get() < number) {
        long reached = started;
        context.enter();
        context.check(cudaEventSynchronize(copied), "copying from the device");
        done.accumulateAndGet(reached, Math::max);
      }
    } finally {
      open.readLock().unlock();
    }
  }

  /** Waits until all copies are done. */
  void awaitAll() {
    await(started);
  }

  /** The stream is idle by now. */
  @Override
  public void close() {
    open.writeLock().lock();
    try {
      done.set(Long.MAX_VALUE);
      owned.close();
    } finally {
      open.writeLock().unlock();
    }
  }
}
