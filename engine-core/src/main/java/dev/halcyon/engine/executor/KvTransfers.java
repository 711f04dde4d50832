package dev.halcyon.engine.executor;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.executor.ComputingPrompts.Lost;
import dev.halcyon.engine.executor.ReceivedPrompts.Ended;
import dev.halcyon.engine.executor.StepPlan.Chunk;
import dev.halcyon.engine.kvcache.BlockTable;
import dev.halcyon.engine.kvcache.KvCacheManager;
import java.util.List;

/**
 * The executor's side of all transfers, prompts that leave and prompts that come. Used by its
 * thread alone; transports reach it through a mailbox, which it empties between two steps.
 */
final class KvTransfers {

  /** Pieces copied between two steps, so that generation goes on meanwhile. */
  private static final int TASKS_PER_STEP = 32;

  private final TransferMailbox mailbox;
  private final PinnedPrompts pinned;
  private final ComputingPrompts computing;
  private final ReceivedPrompts received;

  /**
   * @param parts null without a transport; then there are never any transfers
   * @param wake wakes the executor's thread
   * @param onFreed called when blocks came back
   */
  KvTransfers(TransferParts parts, KvCacheManager kv, Runnable wake, Runnable onFreed) {
    this.mailbox = new TransferMailbox(wake);
    this.pinned = new PinnedPrompts(parts, kv, mailbox, onFreed);
    this.computing = new ComputingPrompts(parts, mailbox);
    this.received = new ReceivedPrompts(parts, mailbox);
  }

  /** Does what transports asked for. */
  void serve() {
    mailbox.run(TASKS_PER_STEP);
  }

  /** Whether nothing waits to be done at once. */
  boolean isIdle() {
    return mailbox.isEmpty() && !received.hasEnded() && !computing.hasLost();
  }

  /** Prompts that wait to be fetched. */
  int pinnedCount() {
    return pinned.count();
  }

  /** Prompts on their way here. */
  int receivingCount() {
    return received.count();
  }

  List<BlockTable> pinnedTables() {
    return pinned.tables();
  }

  /** Ends transfers without progress; returns the nanoseconds until the next would end. */
  long reap(long now) {
    return Math.min(pinned.reap(now), received.reap(now));
  }

  /** Keeps a computed prompt until it is fetched. */
  KvDescriptor pin(ActiveRequest request, BlockTable table, long now) {
    return pinned.pin(request.handle(), table, request.prompt(), now);
  }

  /** Offers a prompt that is about to be computed. */
  KvDescriptor offer(Sequence sequence) {
    return computing.offer(sequence);
  }

  /** A step is planned: takes note of the blocks that it takes away, before others write them. */
  void planned(StepPlan plan) {
    plan.paused().forEach(computing::suspend);
    for (Chunk chunk : plan.chunks()) {
      if (chunk.copy() != null) {
        computing.suspend(chunk.sequence());
      }
    }
  }

  /** What is to be told of each layer that a step writes; to be closed before its results count. */
  StepProgress duringStep(StepPlan plan) {
    return computing.duringStep(plan);
  }

  /** A step of a sequence has ended. */
  void advanced(Sequence sequence) {
    computing.advanced(sequence);
  }

  /** Keeps a prompt until it is fetched that was on offer before. */
  KvDescriptor settle(Sequence sequence, long now) {
    return computing.settle(sequence.request().handle(), pinned, sequence, now);
  }

  /** The offers of unfinished prompts that nobody wants any more. */
  List<Lost> takeLost() {
    return computing.takeLost();
  }

  /** Takes back the offer of a prompt that will not be computed, if there is one. */
  void withdraw(RequestHandle handle, KvTransferException why) {
    computing.withdraw(handle, why);
  }

  void unpin(RequestHandle handle) {
    pinned.cancel(handle);
  }

  /** Begins to fetch a sequence's prompt. */
  void receive(Sequence sequence, long now) {
    received.start(sequence, sequence.request().spec().split().kvDescriptor(), now);
  }

  /** The first tokens of a request came, before or after its prompt. */
  void firstTokensCame(ActiveRequest request) {
    received.firstTokensCame(request);
  }

  List<Ended> takeEnded() {
    return received.takeEnded();
  }

  /** Gives up what is on its way to a request. */
  void drop(ActiveRequest request) {
    received.drop(request);
  }

  /** Ends everything; later wishes of transports are answered with that. */
  void close(KvTransferException why) {
    computing.endAll(why);
    pinned.endAll(why);
    received.endAll(why);
    mailbox.close();
  }
}
