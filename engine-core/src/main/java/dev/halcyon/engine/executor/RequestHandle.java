package dev.halcyon.engine.executor;

import dev.halcyon.engine.DisaggParams;
import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.GenerationDelta;
import dev.halcyon.engine.GenerationHandle;
import dev.halcyon.engine.GenerationResult;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.Flow;
import java.util.function.Consumer;
import java.util.stream.Stream;

/** The caller's end of a request. The executor's thread publishes and ends it, exactly once. */
final class RequestHandle implements GenerationHandle {

  private final long requestId;
  private final Executor delivery;
  private final Consumer<RequestHandle> canceller;
  private final DeltaPublisher deltas;
  private final CompletableFuture<GenerationResult> result = new CompletableFuture<>();
  private final CompletableFuture<DisaggParams> offer = new CompletableFuture<>();
  private boolean offered;

  RequestHandle(long requestId, Executor delivery, Consumer<RequestHandle> canceller) {
    this.requestId = requestId;
    this.delivery = delivery;
    this.canceller = canceller;
    this.deltas = new DeltaPublisher(delivery);
  }

  void publish(GenerationDelta delta) {
    deltas.publish(delta);
  }

  /** The prompt can be fetched as it is computed. */
  void offer(DisaggParams early) {
    offered = true;
    delivery.execute(() -> offer.complete(early));
  }

  boolean offered() {
    return offered;
  }

  /**
   * Ends the request well. The future completes elsewhere: callers' code never runs on this thread.
   */
  void complete(GenerationResult value) {
    deltas.end(null);
    endOffer(
        new KvTransferException(
            Reason.CANCELLED, "The request ended, and its prompt was not offered before"));
    delivery.execute(() -> result.complete(value));
  }

  /** Where there was an offer its own task completes it, perhaps later. */
  private void endOffer(Throwable why) {
    if (!offered) {
      delivery.execute(() -> offer.completeExceptionally(why));
    }
  }

  void fail(Throwable error) {
    deltas.end(error);
    endOffer(error);
    delivery.execute(() -> result.completeExceptionally(error));
  }

  @Override
  public long requestId() {
    return requestId;
  }

  @Override
  public CompletableFuture<GenerationResult> result() {
    return result.copy();
  }

  @Override
  public CompletableFuture<DisaggParams> offer() {
    return offer.copy();
  }

  @Override
  public Flow.Publisher<GenerationDelta> deltas() {
    return deltas;
  }

  @Override
  public Stream<GenerationDelta> stream() {
    return DeltaStream.of(deltas, this::cancel);
  }

  @Override
  public void cancel() {
    canceller.accept(this);
  }

  @Override
  public GenerationResult await() {
    try {
      return result.get();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      cancel();
      throw new EngineException(
          "Interrupted while waiting for a result; the request is cancelled", e);
    } catch (ExecutionException e) {
      if (e.getCause() instanceof RuntimeException failure) {
        throw failure;
      }
      throw new EngineException("The request failed", e.getCause());
    }
  }
}
