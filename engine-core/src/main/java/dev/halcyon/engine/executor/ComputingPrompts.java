package dev.halcyon.engine.executor;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.executor.StepPlan.Chunk;
import dev.halcyon.engine.executor.StepProgress.Part;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvProgress;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Prompts that are on offer while they are computed. They own no blocks: see {@link GrowingPrompt}.
 */
final class ComputingPrompts {

  private final TransferParts parts;
  private final TransferMailbox mailbox;
  private final Map<RequestHandle, GrowingPrompt> growing = new LinkedHashMap<>();
  private final List<Lost> lost = new ArrayList<>();

  /** A prompt that is computed for nobody any more. */
  record Lost(RequestHandle handle, KvTransferException error) {}

  ComputingPrompts(TransferParts parts, TransferMailbox mailbox) {
    this.parts = parts;
    this.mailbox = mailbox;
  }

  /**
   * Offers a prompt that is about to be computed. Nothing is held if that fails.
   *
   * @throws KvTransferException if the transport does not take it
   */
  KvDescriptor offer(Sequence sequence) {
    RequestHandle handle = sequence.request().handle();
    GrowingPrompt prompt =
        new GrowingPrompt(
            KvManifest.of(parts.layout(), sequence.request().prompt()),
            parts.storage(),
            mailbox,
            why -> lose(handle, why));
    try {
      prompt.offeredAs(parts.transport().offer(prompt));
    } catch (KvTransferException e) {
      throw e;
    } catch (RuntimeException e) {
      throw new KvTransferException(
          Reason.PEER_LOST, "The transport failed to offer the prompt: " + e.getMessage(), e);
    }
    growing.put(handle, prompt);
    return prompt.offer().descriptor();
  }

  /** The blocks of a sequence are about to be given back, or some exchanged for others. */
  void suspend(Sequence sequence) {
    GrowingPrompt prompt = growing.get(sequence.request().handle());
    if (prompt != null) {
      prompt.suspend();
    }
  }

  /** What is to be told of each layer that a step writes. */
  StepProgress duringStep(StepPlan plan) {
    if (growing.isEmpty() || !parts.storage().exportsOnAnyThread()) {
      return new StepProgress(List.of(), written -> {});
    }
    List<Part> offered = new ArrayList<>();
    for (Chunk chunk : plan.chunks()) {
      GrowingPrompt prompt = growing.get(chunk.sequence().request().handle());
      if (prompt != null) {
        int end = chunk.start() + chunk.count();
        offered.add(new Part(prompt, chunk.sequence().table(), chunk.start(), end));
      }
    }
    return new StepProgress(offered, parts.storage()::whenWritten);
  }

  /** A step of a sequence has ended. */
  void advanced(Sequence sequence) {
    GrowingPrompt prompt = growing.get(sequence.request().handle());
    if (prompt != null && sequence.table() != null) {
      prompt.advance(sequence.table(), KvProgress.of(sequence.computed()));
    }
  }

  /** Has a pin serve a prompt that is wholly computed. */
  KvDescriptor settle(RequestHandle handle, PinnedPrompts pinned, Sequence sequence, long now) {
    GrowingPrompt prompt = growing.get(handle);
    prompt.settle(
        pinned.take(handle, sequence, prompt.manifest(), prompt.offer(), prompt.view(), now));
    growing.remove(handle);
    return prompt.offer().descriptor();
  }

  /** Takes an offer back whose request ended before its prompt was computed, if there is one. */
  void withdraw(RequestHandle handle, KvTransferException why) {
    GrowingPrompt prompt = growing.remove(handle);
    if (prompt != null) {
      prompt.withdraw(why);
    }
  }

  private void lose(RequestHandle handle, KvTransferException why) {
    growing.remove(handle);
    lost.add(new Lost(handle, why));
  }

  /** The prompts that their takers gave up, or lost, since the last call. */
  List<Lost> takeLost() {
    List<Lost> taken = List.copyOf(lost);
    lost.clear();
    return taken;
  }

  boolean hasLost() {
    return !lost.isEmpty();
  }

  void endAll(KvTransferException why) {
    List.copyOf(growing.keySet()).forEach(handle -> withdraw(handle, why));
    lost.clear();
  }
}
