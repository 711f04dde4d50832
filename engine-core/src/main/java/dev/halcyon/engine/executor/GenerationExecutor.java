package dev.halcyon.engine.executor;

import dev.halcyon.engine.CloseMode;
import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.EngineClosedException;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.EngineFailedException;
import dev.halcyon.engine.EngineMetrics;
import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationRequest;
import dev.halcyon.engine.IncompleteContextLogitsException;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.RequestOutOfMemoryException;
import dev.halcyon.engine.executor.ActiveRequest.RequestSpec;
import dev.halcyon.engine.executor.ModelRunner.ChunkResult;
import dev.halcyon.engine.executor.StepPlan.Chunk;
import dev.halcyon.engine.executor.SubmissionQueue.Supply;
import dev.halcyon.engine.kvcache.BlockTable;
import dev.halcyon.engine.logits.OutOfDeviceMemoryException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs requests on one thread of its own, step after step: plan (scheduler), launch and collect
 * (runner), then hand out what came. User threads only put requests in and take results out.
 */
public final class GenerationExecutor implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(GenerationExecutor.class);

  private final ExecutorOptions options;
  private final ExecutorParts parts;
  private final SubmissionQueue queue;
  private final Scheduler scheduler;
  private final MetricsRecorder metrics;
  private final RequestLimits limits;
  private final KvTransfers transfers;
  private final AtomicLong nextId = new AtomicLong(1);
  private final ActiveRequests active;
  private final TokenIntake intake;
  private final Thread thread;
  private volatile boolean closing;

  /**
   * Starts the executor's thread. The parts become its own: they are closed when the thread ends.
   */
  public GenerationExecutor(ExecutorOptions options, ExecutorParts parts) {
    this.options = options;
    this.parts = parts;
    this.queue = new SubmissionQueue(options.maxQueuedRequests(), options.queueFullPolicy());
    this.scheduler = new Scheduler(options, parts.kvManager());
    this.limits = new RequestLimits(options, parts.kvManager());
    this.transfers =
        new KvTransfers(parts.transfers(), parts.kvManager(), queue::wake, scheduler::blocksFreed);
    this.metrics =
        new MetricsRecorder(
            parts.kvManager(), scheduler, transfers, parts.deviceMemory(), parts.hostMemoryUsed());
    this.active = new ActiveRequests(queue, scheduler, transfers, metrics);
    this.intake = new TokenIntake(scheduler, transfers, active);
    this.thread = new Thread(this::run, "halcyon-executor");
    this.thread.setDaemon(true);
    queue.ownedBy(thread);
    thread.start();
  }

  /** The metrics at the end of the last step, with the memory that is in use now. */
  public EngineMetrics metrics() {
    return metrics.snapshot();
  }

  /**
   * Hands a request over.
   *
   * @param request what is asked
   * @param promptIds its prompt as token ids
   * @throws IllegalArgumentException if it asks for something that can never be right
   * @throws dev.halcyon.engine.EngineException if it can't run here, or there is no place for it
   */
  public GenerationHandle submit(GenerationRequest request, int[] promptIds) {
    RequestSpec spec = parts.requests().spec(request, promptIds);
    limits.require(spec);
    queue.acquirePlace();
    try {
      RequestHandle handle =
          new RequestHandle(nextId.getAndIncrement(), parts.delivery(), queue::cancel);
      ActiveRequest added =
          new ActiveRequest(
              handle.requestId(), spec, handle, parts.requests().outputs(spec), System.nanoTime());
      queue.add(added);
      if (request.firstTokens() != null) {
        DisaggParams offer = request.disaggParams();
        request
            .firstTokens()
            .whenComplete((later, error) -> queue.supply(supply(added, offer, later, error)));
      }
      return handle;
    } catch (RuntimeException | Error e) {
      queue.releasePlace();
      throw e;
    }
  }

  /** On the thread that has the first tokens: they are checked, and their logits copied. */
  private Supply supply(
      ActiveRequest request, DisaggParams offer, DisaggParams later, Throwable error) {
    Throwable cause =
        error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
    if (cause instanceof EngineException failure) {
      return new Supply(request, null, failure);
    } else if (cause != null) {
      return new Supply(
          request,
          null,
          new KvTransferException(
              Reason.PEER_LOST, "The first tokens did not come: " + cause, cause));
    }
    try {
      return new Supply(request, parts.requests().supplied(request.spec(), offer, later), null);
    } catch (RuntimeException e) {
      return new Supply(request, null, e);
    }
  }

  /**
   * Throws {@link EngineClosedException} or {@link EngineFailedException} once nothing more can
   * run.
   */
  public void requireOpen() {
    queue.requireOpen();
  }

  /**
   * Ends or drains what runs, as configured, frees everything and returns when that is done; called
   * from the executor's own thread it only asks for it.
   */
  @Override
  public void close() {
    closing = true;
    queue.close(new EngineClosedException("The engine is closed"));
    if (Thread.currentThread() == thread || parts.isWorker().test(Thread.currentThread())) {
      return;
    }
    boolean interrupted = false;
    while (thread.isAlive()) {
      try {
        thread.join();
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private void run() {
    Throwable failure = null;
    try {
      loop();
    } catch (Throwable e) {
      failure = e;
      LOG.error("The engine failed and runs nothing any more", e);
    }
    end(failure);
  }

  private void loop() {
    while (true) {
      takeHandedOver();
      transfers.serve();
      long now = System.nanoTime();
      long soonest = Math.min(active.reapTimeouts(now), transfers.reap(now));
      endTransfers(now);
      if (active.hasNotices()) {
        metrics.publish();
        active.tellCallers();
      }
      if (mayEnd()) {
        return;
      }
      if (!scheduler.hasWork() || !step()) {
        idle(soonest);
      }
    }
  }

  private boolean mayEnd() {
    return closing
        && (options.closeMode() == CloseMode.ABORT
            || active.isEmpty() && transfers.pinnedCount() == 0);
  }

  private void idle(long soonest) {
    if (options.integrityChecks()) {
      List<BlockTable> tables = new ArrayList<>(scheduler.liveTables());
      tables.addAll(transfers.pinnedTables());
      parts.kvManager().checkIntegrity(tables);
    }
    metrics.publish();
    if (queue.isEmpty() && transfers.isIdle() && !mayEnd()) {
      if (soonest == Long.MAX_VALUE) {
        LockSupport.park(queue);
      } else {
        LockSupport.parkNanos(queue, soonest);
      }
    }
  }

  private void takeSubmissions() {
    for (ActiveRequest request = queue.poll(); request != null; request = queue.poll()) {
      active.add(request);
      scheduler.add(request);
    }
  }

  /**
   * Takes what user threads handed over. Cancellations are taken off the queue first: one that is
   * there then has its request in the queue or among the active ones.
   */
  private void takeHandedOver() {
    List<RequestHandle> cancelled = queue.drainCancels();
    List<Supply> supplies = queue.drainSupplies();
    takeSubmissions();
    supplies.forEach(this::takeFirstTokens);
    for (RequestHandle handle : cancelled) {
      ActiveRequest request = active.get(handle);
      if (request != null) {
        active.endEarly(request, FinishReason.CANCELLED);
      } else {
        transfers.unpin(handle);
      }
    }
  }

  private void takeFirstTokens(Supply supply) {
    ActiveRequest request = supply.request();
    if (request.ended()) {
      return;
    }
    if (supply.error() != null) {
      active.fail(request, supply.error());
      return;
    }
    request.supply(supply.part());
    if (!request.endsByFirstTokens()) {
      transfers.firstTokensCame(request);
    } else if (!request.needsTransfer()) {
      intake.endByFirstTokens(request, System.nanoTime());
    }
  }

  /**
   * Goes on with requests whose prompts came, and fails those whose prompts will not come, or are
   * not wanted any more.
   */
  private void endTransfers(long now) {
    for (ReceivedPrompts.Ended ended : transfers.takeEnded()) {
      ActiveRequest request = ended.request();
      if (ended.error() != null) {
        active.fail(request, ended.error());
        continue;
      }
      Sequence sequence = request.sequences().get(0);
      scheduler.received(sequence);
      intake.accept(request, sequence, request.split().firstTokens(), now);
    }
    for (ComputingPrompts.Lost lost : transfers.takeLost()) {
      ActiveRequest request = active.get(lost.handle());
      if (request != null) {
        active.fail(request, lost.error());
      }
    }
  }

  /** Returns false when there was nothing to do but to wait for transfers. */
  private boolean step() {
    long start = System.nanoTime();
    StepPlan plan = scheduler.schedule();
    transfers.planned(plan);
    for (Sequence sequence : plan.receives()) {
      if (sequence.request().markScheduled(start, sequence.computed())) {
        queue.releasePlace();
      }
      transfers.receive(sequence, start);
      if (sequence.request().endsByFirstTokens()) {
        intake.endByFirstTokens(sequence.request(), start);
      }
    }
    if (plan.isEmpty()) {
      if (!plan.receives().isEmpty()) {
        return true;
      }
      if (transfers.pinnedCount() > 0 || transfers.receivingCount() > 0) {
        return false;
      }
      throw new IllegalStateException(
          "no sequence can be scheduled: "
              + scheduler.runningCount()
              + " running, "
              + scheduler.waitingCount()
              + " waiting");
    }
    markScheduled(plan, start);
    prepareContexts(plan);
    offerPrompts(plan);
    if (plan.isEmpty()) {
      return true;
    }
    List<ChunkResult> results;
    try (StepProgress progress = transfers.duringStep(plan)) {
      results = parts.runner().collect(parts.runner().launch(plan, progress));
    } catch (OutOfDeviceMemoryException | OutOfMemoryError e) {
      failStep(plan, e);
      return true;
    }
    int sampled = update(results);
    metrics.step(sampled, System.nanoTime() - start);
    active.tellCallers();
    return true;
  }

  private void markScheduled(StepPlan plan, long now) {
    for (Chunk chunk : plan.chunks()) {
      ActiveRequest request = chunk.sequence().request();
      if (request.markScheduled(now, chunk.start())) {
        queue.releasePlace();
        metrics.promptStarted(request.prompt().length, chunk.start());
      }
    }
  }

  /** Storage first: a request that wants rows of its prompt gets room for them, or fails alone. */
  private void prepareContexts(StepPlan plan) {
    for (Chunk chunk : List.copyOf(plan.chunks())) {
      ActiveRequest request = chunk.sequence().request();
      try {
        if (request.wantsContext() && request.context() == null) {
          request.prepareContext(parts.contexts().open(request));
        }
        chunk.requireContextRows();
      } catch (RequestOutOfMemoryException | IncompleteContextLogitsException e) {
        plan.remove(chunk.sequence());
        active.fail(request, e);
      }
    }
  }

  /** Makes prompts known whose turn has come, if they are to be fetched while they are computed. */
  private void offerPrompts(StepPlan plan) {
    for (Chunk chunk : List.copyOf(plan.chunks())) {
      ActiveRequest request = chunk.sequence().request();
      if (request.split().offersEarly() && !request.handle().offered()) {
        try {
          request.handle().offer(request.early(transfers.offer(chunk.sequence())));
        } catch (KvTransferException e) {
          plan.remove(chunk.sequence());
          active.fail(request, e);
        }
      }
    }
  }

  /**
   * Memory ran out in a step: its requests fail, with their blocks given back; the others go on.
   */
  private void failStep(StepPlan plan, Throwable error) {
    LOG.warn("Memory ran out in a step; its requests fail: {}", error.getMessage());
    List<ActiveRequest> failed =
        plan.chunks().stream().map(chunk -> chunk.sequence().request()).distinct().toList();
    for (ActiveRequest request : failed) {
      active.fail(
          request,
          new RequestOutOfMemoryException(
              "Memory ran out while the request ran: " + error.getMessage(), error));
    }
  }

  /** Closes a step: notes what was computed, then adds the sampled tokens. Returns how many. */
  private int update(List<ChunkResult> results) {
    for (ChunkResult result : results) {
      scheduler.computed(result.chunk());
      transfers.advanced(result.chunk().sequence());
    }
    int sampled = 0;
    long now = System.nanoTime();
    for (ChunkResult result : results) {
      Sequence sequence = result.chunk().sequence();
      ActiveRequest request = sequence.request();
      if (result.error() != null) {
        active.fail(request, result.error());
      }
      if (request.ended() || result.tokens().isEmpty()) {
        continue;
      }
      sampled += result.tokens().size();
      intake.accept(request, sequence, result.tokens(), now);
    }
    return sampled;
  }

  /** Ends whatever is left, then frees the parts. Runs on the executor's thread, once. */
  private void end(Throwable failure) {
    RuntimeException reason =
        failure == null
            ? new EngineClosedException("The engine was closed while the request ran")
            : new EngineFailedException("The engine failed: " + failure.getMessage(), failure);
    queue.close(reason);
    for (ActiveRequest request = queue.poll(); request != null; request = queue.poll()) {
      active.add(request);
    }
    active.abandon(reason);
    transfers.close(new KvTransferException(Reason.CLOSED, reason.getMessage(), reason));
    active.tellCallers();
    try {
      parts.onEnd().run();
    } catch (RuntimeException e) {
      LOG.error("Freeing the engine's memory failed", e);
    }
    metrics.close();
  }
}
