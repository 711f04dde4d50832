package dev.halcyon.engine;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;
import java.util.stream.Stream;

/** A request that was submitted. All methods may be called from any thread. */
public interface GenerationHandle {

  /** The engine's number for the request. */
  long requestId();

  /**
   * The result, completed on a thread of its own, or with the typed error that ended the request.
   * Cancelling or completing this future changes nothing for the request: use {@link #cancel()}.
   */
  CompletableFuture<GenerationResult> result();

  /**
   * Of a context-only request in style GENERATION_FIRST: what its generation-only counterpart is
   * submitted with while the prompt is computed. Completed when the prompt's turn comes; with the
   * request's error, or a {@link KvTransferException}, if it ends before, and with the end of any
   * other request.
   */
  CompletableFuture<DisaggParams> offer();

  /**
   * The deltas as they come, from the first one on whenever the subscriber arrives. One subscriber;
   * a second one gets an {@link IllegalStateException}. A subscriber that asks for few delays
   * nobody and loses nothing. Cancelling the subscription ends the delivery, not the request.
   */
  Flow.Publisher<GenerationDelta> deltas();

  /**
   * The deltas as a blocking stream, in place of {@link #deltas()}. Closing the stream before its
   * end cancels the request. A failed request's error is thrown from the stream.
   */
  Stream<GenerationDelta> stream();

  /**
   * Ends the request at the next step with CANCELLED and what was generated so far. Does nothing
   * once it has ended.
   */
  void cancel();

  /** The result, waited for; errors as {@link #result()} gives them, without wrapping. */
  GenerationResult await();
}
