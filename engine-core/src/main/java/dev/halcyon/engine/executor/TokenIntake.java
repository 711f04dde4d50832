package dev.halcyon.engine.executor;

import dev.halcyon.engine.FinishReason;
import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.RequestOutOfMemoryException;
import dev.halcyon.engine.executor.ActiveRequest.RequestSpec;
import dev.halcyon.engine.sampling.SampledToken;
import java.util.List;

/**
 * What becomes of sampled tokens: outputs grow by them and are handed out, finished ones end, and
 * what goes on elsewhere is kept for the engine that fetches it. For the executor's thread.
 */
final class TokenIntake {

  private final Scheduler scheduler;
  private final KvTransfers transfers;
  private final ActiveRequests active;

  TokenIntake(Scheduler scheduler, KvTransfers transfers, ActiveRequests active) {
    this.scheduler = scheduler;
    this.transfers = transfers;
    this.active = active;
  }

  /**
   * Takes the tokens that a sequence got at once: one, or the first one of each sample.
   *
   * @param now the time, by System.nanoTime
   */
  void accept(ActiveRequest request, Sequence sequence, List<SampledToken> tokens, long now) {
    for (SampledToken token : tokens) {
      if (token.error() != null) {
        active.fail(request, token.error());
        return;
      }
    }
    try {
      if (request.context() != null && !request.context().finished()) {
        request.context().finish(tokens.get(0).tokenId());
      }
      if (request.spec().split().contextOnly()) {
        handOver(request, sequence, tokens, now);
        return;
      }
      append(request, sequence, tokens, now);
    } catch (OutOfMemoryError e) {
      active.fail(
          request, new RequestOutOfMemoryException("Memory for the request's output ran out", e));
      return;
    } catch (KvTransferException e) {
      active.fail(request, e);
      return;
    }
    active.endIfFinished(request, now);
  }

  /** Adds a token to a sequence, or the first one to each sample's. */
  private void append(
      ActiveRequest request, Sequence sequence, List<SampledToken> tokens, long now) {
    List<Sequence> targets = List.of(sequence);
    if (!request.forked()) {
      scheduler.fork(request);
      targets = List.copyOf(request.sequences());
    }
    for (int i = 0; i < targets.size(); i++) {
      request.markToken(now);
      append(request, targets.get(i), tokens.get(i));
    }
  }

  private void append(ActiveRequest request, Sequence sequence, SampledToken token) {
    SequenceOutput output = sequence.output();
    sequence.append(token.tokenId());
    append(request.spec(), output, token, sequence.generated());
    if (output.finished()) {
      scheduler.remove(sequence);
    }
    request.handOut(output);
  }

  /** Adds a token to an output, which may end it. */
  private static void append(
      RequestSpec spec, SequenceOutput output, SampledToken token, int generated) {
    output.append(token, spec.stopIds().contains(token.tokenId()));
    if (!output.finished() && generated >= spec.maxTokens()) {
      output.finish(FinishReason.LENGTH);
    }
  }

  /**
   * Ends a context-only request with its first tokens, and keeps its prompt for the engine that
   * goes on, unless they end all of its outputs.
   */
  private void handOver(
      ActiveRequest request, Sequence sequence, List<SampledToken> tokens, long now) {
    boolean goesOn = appendFirst(request, tokens, now);
    try {
      if (request.split().offersEarly()) {
        // Kept in any case: who fetches it already does not know yet that nothing is left to do.
        KvDescriptor descriptor = transfers.settle(sequence, now);
        request.continueElsewhere(tokens, goesOn ? descriptor : null);
      } else if (goesOn) {
        request.continueElsewhere(tokens, transfers.pin(request, sequence.table(), now));
      }
      request.outputs().forEach(request::handOut);
      active.endIfFinished(request, now);
    } catch (RuntimeException | OutOfMemoryError e) {
      transfers.unpin(request.handle());
      throw e;
    }
  }

  /**
   * Ends a request of which nothing is left to do, since another engine's first tokens end its
   * outputs. It has begun to fetch its prompt, so that the other side hears that nobody wants it.
   */
  void endByFirstTokens(ActiveRequest request, long now) {
    try {
      if (appendFirst(request, request.split().firstTokens(), now)) {
        throw new IllegalArgumentException(
            "kvDescriptor is missing in what firstTokens gave, but they end not every output");
      }
      request.outputs().forEach(request::handOut);
      active.endIfFinished(request, now);
    } catch (IllegalArgumentException e) {
      active.fail(request, e);
    }
  }

  /** Adds each output's first token; returns whether any goes on elsewhere. */
  private static boolean appendFirst(ActiveRequest request, List<SampledToken> tokens, long now) {
    boolean goesOn = false;
    for (int i = 0; i < tokens.size(); i++) {
      SequenceOutput output = request.output(i);
      request.markToken(now);
      append(request.spec(), output, tokens.get(i), 1);
      if (!output.finished()) {
        output.suspend();
        goesOn = true;
      }
    }
    return goesOn;
  }
}
