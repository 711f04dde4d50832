package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaEventRecord;
import static org.bytedeco.cuda.global.cudart.cudaEventSynchronize;
import static org.bytedeco.cuda.global.cudart.cudaMemcpyAsync;
import static org.bytedeco.cuda.global.cudart.cudaStreamWaitEvent;

import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.HalfFloats;
import dev.halcyon.engine.backend.Owned;
import dev.halcyon.engine.cuda.WeightLoader.Piece;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.bytedeco.cuda.cudart.CUevent_st;
import org.bytedeco.cuda.global.cudart;

/**
 * Sends weights to the device: each of several threads fills pinned slots in turn from the mapped
 * file, and the device copies some while another one is filled. One thread alone can't read as fast
 * as the bus carries.
 */
final class WeightStream {

  /** Small, so that threads end a matrix at nearly the same time. */
  static final int SLOT_BYTES = 2 << 20;

  private static final int SLOTS = 4;
  private static final int MAX_LANES = 16;

  private final CudaContext context;
  private final int laneCount;
  private Owned owned = new Owned();
  private List<Lane> lanes;
  private ExecutorService threads;
  private CUevent_st sent;

  WeightStream(CudaContext context, int threads) {
    this.context = context;
    this.laneCount = Math.min(threads, MAX_LANES);
  }

  /** Sends pieces; operations called from now on see them. */
  void send(List<Piece> pieces, DType resident) {
    context.enter();
    open();
    // The memory was allocated in the order of the compute stream.
    order(context.compute(), context.upload());
    AtomicInteger next = new AtomicInteger();
    List<Future<?>> running = new ArrayList<>();
    for (Lane lane : lanes.subList(1, Math.min(lanes.size(), pieces.size()))) {
      running.add(threads.submit(() -> lane.run(pieces, next, resident)));
    }
    RuntimeException failure = null;
    try {
      lanes.get(0).run(pieces, next, resident);
    } catch (RuntimeException e) {
      failure = e;
    }
    for (Future<?> lane : running) {
      failure = join(lane, failure);
    }
    order(context.upload(), context.compute());
    if (failure != null) {
      throw failure;
    }
  }

  private static RuntimeException join(Future<?> lane, RuntimeException failure) {
    boolean interrupted = false;
    try {
      while (true) {
        try {
          lane.get();
          return failure;
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    } catch (ExecutionException e) {
      RuntimeException own =
          e.getCause() instanceof RuntimeException cause
              ? cause
              : new EngineException("Loading weights failed", e.getCause());
      if (failure == null) {
        return own;
      }
      failure.addSuppressed(own);
      return failure;
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private void order(
      org.bytedeco.cuda.cudart.CUstream_st first, org.bytedeco.cuda.cudart.CUstream_st then) {
    context.check(cudaEventRecord(sent, first), "loading weights");
    context.check(cudaStreamWaitEvent(then, sent, 0), "loading weights");
  }

  private void open() {
    if (lanes != null) {
      return;
    }
    Owned opening = new Owned();
    try {
      sent = context.event(opening);
      List<Lane> opened = new ArrayList<>();
      for (int i = 0; i < laneCount; i++) {
        opened.add(new Lane(opening));
      }
      threads =
          Executors.newCachedThreadPool(
              task -> {
                Thread thread = new Thread(task, "halcyon-weights");
                thread.setDaemon(true);
                return thread;
              });
      opening.add(threads::shutdown);
      owned = opening;
      lanes = opened;
    } catch (RuntimeException | Error e) {
      opening.closeAfter(e);
      throw e;
    }
  }

  /** Waits for what is under way and lets go of threads and pinned memory, until the next send. */
  void release() {
    if (lanes != null) {
      lanes = null;
      cudart.cudaSetDevice(context.device().index());
      if (!context.closed()) {
        cudart.cudaStreamSynchronize(context.upload());
      }
      owned.close();
    }
  }

  /** What one thread works with. */
  private final class Lane {
    private final ByteBuffer[] slots = new ByteBuffer[SLOTS];
    private final long[] addresses = new long[SLOTS];
    private final CUevent_st[] copied = new CUevent_st[SLOTS];
    private int turn;

    Lane(Owned owner) {
      PinnedBlock block =
          PinnedBlock.require(context.device(), SLOTS * SLOT_BYTES, "loading weights");
      owner.add(block::close);
      for (int i = 0; i < SLOTS; i++) {
        int at = i * SLOT_BYTES;
        slots[i] = block.bytes().slice(at, SLOT_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        addresses[i] = block.address().address() + at;
        copied[i] = context.event(owner);
      }
    }

    void run(List<Piece> pieces, AtomicInteger next, DType resident) {
      context.enter();
      DevicePointer to = new DevicePointer();
      DevicePointer from = new DevicePointer();
      for (int i = next.getAndIncrement(); i < pieces.size(); i = next.getAndIncrement()) {
        Piece piece = pieces.get(i);
        context.check(cudaEventSynchronize(copied[turn]), "loading weights");
        fill(slots[turn].clear(), piece, resident);
        context.check(
            cudaMemcpyAsync(
                to.at(piece.address()),
                from.at(addresses[turn]),
                (long) piece.elements() * resident.bytes(),
                cudart.cudaMemcpyHostToDevice,
                context.upload()),
            "loading weights");
        context.check(cudaEventRecord(copied[turn], context.upload()), "loading weights");
        turn = (turn + 1) % SLOTS;
      }
    }
  }

  private static void fill(ByteBuffer slot, Piece piece, DType resident) {
    if (piece.type() == resident) {
      slot.put(piece.from());
      return;
    }
    FloatBuffer floats = slot.asFloatBuffer();
    for (int i = 0; i < piece.elements(); i++) {
      floats.put(i, HalfFloats.widen(piece.type(), piece.from().getShort(2 * i)));
    }
  }
}
