package dev.halcyon.engine.executor;

import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The requests that the executor has taken and that have not ended, and the ways in which they end:
 * what they hold comes back at once, and their callers are told by {@link #tellCallers}. For the
 * executor's thread.
 */
final class ActiveRequests {

  private static final Logger LOG = LoggerFactory.getLogger(ActiveRequests.class);

  private final SubmissionQueue queue;
  private final Scheduler scheduler;
  private final KvTransfers transfers;
  private final MetricsRecorder metrics;
  private final Map<RequestHandle, ActiveRequest> active = new LinkedHashMap<>();

  /** What callers are told once the metrics show it. */
  private final List<Runnable> notices = new ArrayList<>();

  ActiveRequests(
      SubmissionQueue queue, Scheduler scheduler, KvTransfers transfers, MetricsRecorder metrics) {
    this.queue = queue;
    this.scheduler = scheduler;
    this.transfers = transfers;
    this.metrics = metrics;
  }

  void add(ActiveRequest request) {
    active.put(request.handle(), request);
  }

  /** The request of a handle; null if it has ended. */
  ActiveRequest get(RequestHandle handle) {
    return active.get(handle);
  }

  boolean isEmpty() {
    return active.isEmpty();
  }

  /** Whether callers are to be told of something. */
  boolean hasNotices() {
    return !notices.isEmpty();
  }

  void tellCallers() {
    notices.forEach(Runnable::run);
    notices.clear();
  }

  /** Ends requests whose time is up; returns the nanoseconds until the next one. */
  long reapTimeouts(long now) {
    long soonest = Long.MAX_VALUE;
    List<ActiveRequest> late = new ArrayList<>();
    for (ActiveRequest request : active.values()) {
      if (request.hasTimeout()) {
        long left = request.nanosLeft(now);
        if (left <= 0) {
          late.add(request);
        } else {
          soonest = Math.min(soonest, left);
        }
      }
    }
    late.forEach(request -> endEarly(request, FinishReason.TIMEOUT));
    return soonest;
  }

  /** Ends a request all of whose outputs are finished. */
  void endIfFinished(ActiveRequest request, long now) {
    if (request.outputs().stream().allMatch(SequenceOutput::finished)) {
      request.outputs().forEach(output -> metrics.finished(output.finishReason()));
      forget(request);
      if (request.context() != null && !request.context().finished()) {
        request.releaseContext();
      }
      GenerationResult result = request.result(now);
      notices.add(() -> request.handle().complete(result));
    }
  }

  /** Ends a request where it is, with what it has; its blocks come back now. */
  void endEarly(ActiveRequest request, FinishReason reason) {
    if (reason == FinishReason.CANCELLED) {
      request.releaseContext();
    }
    for (SequenceOutput output : request.outputs()) {
      if (!output.finished()) {
        output.finish(reason);
        request.handOut(output);
      }
    }
    endIfFinished(request, System.nanoTime());
  }

  /** Ends a request with an error, unless it has ended. */
  void fail(ActiveRequest request, Throwable error) {
    if (!request.ended()) {
      request.outputs().forEach(output -> metrics.finished(FinishReason.ERROR));
      transfers.withdraw(
          request.handle(),
          new KvTransferException(
              Reason.CANCELLED, "The prompt was not computed: " + error.getMessage(), error));
      forget(request);
      request.releaseContext();
      notices.add(() -> request.handle().fail(error));
    }
  }

  private void forget(ActiveRequest request) {
    transfers.drop(request);
    transfers.withdraw(
        request.handle(),
        new KvTransferException(
            Reason.CANCELLED, "The request ended before its prompt was computed"));
    request.sequences().forEach(scheduler::remove);
    if (request.markScheduled(System.nanoTime(), 0)) {
      queue.releasePlace();
    }
    request.markEnded();
    active.remove(request.handle());
  }

  /** Ends all at once where nothing runs any more, so that blocks need not come back. */
  void abandon(RuntimeException reason) {
    for (ActiveRequest request : List.copyOf(active.values())) {
      request.markEnded();
      release(request);
      request.outputs().forEach(output -> metrics.finished(FinishReason.ERROR));
      request.handle().fail(reason);
    }
    active.clear();
  }

  /** Where a device is lost freeing may fail too, which must keep nobody from being told. */
  private static void release(ActiveRequest request) {
    try {
      request.releaseContext();
    } catch (RuntimeException e) {
      LOG.debug("Freeing what a request held failed", e);
    }
  }
}
