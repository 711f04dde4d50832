package dev.halcyon.engine.cuda;

import static org.bytedeco.cuda.global.cudart.cudaGraphDestroy;
import static org.bytedeco.cuda.global.cudart.cudaGraphInstantiate;
import static org.bytedeco.cuda.global.cudart.cudaGraphLaunch;
import static org.bytedeco.cuda.global.cudart.cudaStreamBeginCapture;
import static org.bytedeco.cuda.global.cudart.cudaStreamEndCapture;

import dev.halcyon.engine.backend.DeviceBatch;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.bytedeco.cuda.cudart.CUgraphExec_st;
import org.bytedeco.cuda.cudart.CUgraph_st;
import org.bytedeco.cuda.global.cudart;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Steps recorded as CUDA graphs, one for each number of rows, and started as one call. A graph has
 * the addresses of all that its operations use; what differs from step to step is read from the
 * batch's arrays on the device. When anything that a graph may use was freed, all are let go and
 * recorded again when their turn comes. A step that can't be recorded runs operation by operation.
 */
final class StepGraphs implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(StepGraphs.class);

  private final CudaContext context;
  private final CudaMemory memory;
  private final Map<Integer, CUgraphExec_st> graphs = new HashMap<>();
  private final Set<Integer> refused = new HashSet<>();
  private boolean recording;
  private Consumer<DeviceBatch> body;
  private long arrays;
  private long freed;
  private long replays;

  StepGraphs(CudaContext context, CudaMemory memory) {
    this.context = context;
    this.memory = memory;
  }

  /** Whether steps that have no graph yet get one. */
  void recording(boolean on) {
    recording = on;
  }

  /** How many graphs there are. */
  int size() {
    return graphs.size();
  }

  /** How many steps ran from a graph. */
  long replays() {
    return replays;
  }

  /**
   * Runs the body of a step.
   *
   * @param batch with its padding
   */
  void run(CudaBatch batch, Consumer<DeviceBatch> step) {
    forgetOthers(batch, step);
    int rows = batch.batch().rows();
    CUgraphExec_st graph = graphs.get(rows);
    if (graph != null) {
      context.check(cudaGraphLaunch(graph, context.compute()), "starting a recorded step");
      replays++;
      return;
    }
    // Before anything is recorded: this loads kernels, chooses algorithms and sizes scratch.
    step.accept(batch);
    if (recording && !refused.contains(rows)) {
      record(batch, step);
    }
  }

  /** Lets go of graphs of another body, of arrays elsewhere, or that use what is freed. */
  private void forgetOthers(CudaBatch batch, Consumer<DeviceBatch> step) {
    if (body != step || arrays != batch.tokenIds() || freed != memory.recordedFreed()) {
      clear();
      body = step;
      arrays = batch.tokenIds();
      freed = memory.recordedFreed();
    }
  }

  private void record(CudaBatch batch, Consumer<DeviceBatch> step) {
    int rows = batch.batch().rows();
    try (CUgraph_st recorded = capture(batch, step)) {
      CUgraphExec_st graph = new CUgraphExec_st();
      try {
        context.check(
            cudaGraphInstantiate(graph, recorded, 0), "preparing a step of " + rows + " rows");
      } finally {
        cudaGraphDestroy(recorded);
      }
      graphs.put(rows, graph);
      memory.markRecorded();
    } catch (NotRecordableException | OutOfDeviceMemoryException e) {
      refuse(rows, e);
    } catch (CudaException e) {
      if (e.sticky()) {
        throw e;
      }
      refuse(rows, e);
    }
  }

  private void refuse(int rows, RuntimeException cause) {
    refused.add(rows);
    LOG.warn(
        "Steps of {} rows run without a CUDA graph, which is slower: {}", rows, cause.getMessage());
  }

  /** Records what the body calls, none of which runs. */
  private CUgraph_st capture(CudaBatch batch, Consumer<DeviceBatch> step) {
    CUgraph_st recorded = new CUgraph_st();
    context.downloads().awaitAll();
    // No other thread may put anything on the stream meanwhile.
    context.gate().lock();
    try {
      context.check(
          cudaStreamBeginCapture(context.compute(), cudart.cudaStreamCaptureModeThreadLocal),
          "recording a step");
      memory.recording(true);
      int code;
      try {
        step.accept(batch);
      } finally {
        code = cudaStreamEndCapture(context.compute(), recorded);
        cudart.cudaGetLastError();
        memory.recording(false);
      }
      context.check(code, "recording a step");
      return recorded;
    } finally {
      context.gate().unlock();
    }
  }

  private void clear() {
    if (!graphs.isEmpty()) {
      context.synchronize();
      destroy();
    }
    refused.clear();
  }

  private void destroy() {
    graphs.values().forEach(cudart::cudaGraphExecDestroy);
    graphs.clear();
  }

  /** Nothing runs any more. */
  @Override
  public void close() {
    destroy();
  }
}
