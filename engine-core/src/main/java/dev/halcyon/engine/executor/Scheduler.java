package dev.halcyon.engine.executor;

import dev.halcyon.engine.CapacityPolicy;
import dev.halcyon.engine.executor.StepPlan.Chunk;
import dev.halcyon.engine.kvcache.BlockTable;
import dev.halcyon.engine.kvcache.KvCacheManager;
import dev.halcyon.engine.kvcache.PreparedWrite;
import dev.halcyon.engine.kvcache.PreparedWrite.Outcome;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;

/**
 * Decides which sequences compute how many tokens in a step. Knows blocks and tokens, no tensors.
 *
 * <p>A step takes the generation rows of all running sequences first, so that no prompt holds up a
 * stream, then chunks of running contexts, then lets in waiting sequences, each group in {@link
 * Sequence#ORDER}. Nobody overtakes the first one that waits.
 */
final class Scheduler {

  private final ExecutorOptions options;
  private final KvCacheManager kv;
  private final TreeSet<Sequence> waiting = new TreeSet<>(Sequence.ORDER);
  private final TreeSet<Sequence> running = new TreeSet<>(Sequence.ORDER);
  private final BlockBudget budget;
  private long pauses;
  private boolean pausedNow;
  private boolean admissionBlocked;

  Scheduler(ExecutorOptions options, KvCacheManager kv) {
    this.options = options;
    this.kv = kv;
    this.budget = new BlockBudget(kv);
  }

  /** Lets a new request wait for its turn. */
  void add(ActiveRequest request) {
    waiting.addAll(request.sequences());
    admissionBlocked = false;
  }

  int runningCount() {
    return running.size();
  }

  int waitingCount() {
    return waiting.size();
  }

  long pauses() {
    return pauses;
  }

  boolean hasWork() {
    return !running.isEmpty() || !waiting.isEmpty();
  }

  /** The block tables held by sequences. */
  List<BlockTable> liveTables() {
    return running.stream().map(Sequence::table).toList();
  }

  /** Plans the next step; empty when there is nothing to do. */
  StepPlan schedule() {
    StepPlan plan = new StepPlan();
    pausedNow = false;
    List<Sequence> order = new ArrayList<>(running);
    order.removeIf(sequence -> sequence.request().receiving());
    for (Sequence sequence : order) {
      if (sequence.remaining() == 1) {
        extend(plan, sequence);
      }
    }
    for (Sequence sequence : order) {
      if (sequence.remaining() > 1) {
        extend(plan, sequence);
      }
    }
    if (!pausedNow) {
      admit(plan);
    }
    return plan;
  }

  /** Closes a chunk that was computed: its tokens are in the cache now, and may be shared. */
  void computed(Chunk chunk) {
    Sequence sequence = chunk.sequence();
    if (sequence.table() != null) {
      sequence.advance(chunk.count());
      kv.commit(sequence.table(), sequence, sequence.computed());
    }
  }

  /** Makes the sequences of the other samples, which share the prompt's blocks with the first. */
  void fork(ActiveRequest request) {
    Sequence first = request.sequences().get(0);
    for (int i = 1; i < request.samples(); i++) {
      Sequence sequence = new Sequence(request, i);
      sequence.attach(kv.fork(first.table(), first.computed()), first.computed());
      request.sequences().add(sequence);
      running.add(sequence);
    }
  }

  /** Takes a sequence out and gives its blocks back. */
  void remove(Sequence sequence) {
    waiting.remove(sequence);
    if (running.remove(sequence)) {
      kv.release(sequence.detach());
    }
    admissionBlocked = false;
  }

  /** Plans the next tokens of a running sequence, as many as fit into the step. */
  private void extend(StepPlan plan, Sequence sequence) {
    int count = Math.min(sequence.remaining(), options.maxBatchTokens() - plan.tokens());
    if (count == 0) {
      return;
    }
    while (running.contains(sequence)) {
      if (kv.grow(sequence.table(), sequence.computed() + count)) {
        PreparedWrite write = kv.prepareWrite(sequence.table(), sequence.computed());
        if (write.outcome() != Outcome.OUT_OF_BLOCKS) {
          plan.add(new Chunk(sequence, sequence.computed(), count, write.copy()));
          return;
        }
      }
      if (options.capacityPolicy() == CapacityPolicy.GUARANTEED_NO_EVICT) {
        throw new IllegalStateException("blocks that were set aside for a sequence are gone");
      }
      pause(plan, newestComputing());
    }
  }

  /** The sequence to give way: what is on its way to a cache keeps its place. */
  private Sequence newestComputing() {
    return running.descendingSet().stream()
        .filter(other -> !other.request().receiving())
        .findFirst()
        .orElseThrow();
  }

  /**
   * Frees the blocks of a running sequence; it waits for another turn and is computed again then.
   */
  private void pause(StepPlan plan, Sequence victim) {
    plan.pause(victim);
    running.remove(victim);
    kv.release(victim.detach());
    waiting.add(victim);
    pauses++;
    pausedNow = true;
    admissionBlocked = false;
  }

  private void admit(StepPlan plan) {
    while (!waiting.isEmpty() && !admissionBlocked && plan.tokens() < options.maxBatchTokens()) {
      Sequence sequence = waiting.first();
      if (!placeInBatch(sequence) || !attach(plan, sequence)) {
        return;
      }
      waiting.remove(sequence);
      running.add(sequence);
      if (sequence.request().needsTransfer()) {
        receive(plan, sequence);
      } else {
        extend(plan, sequence);
      }
    }
  }

  /** Sets blocks aside for a prompt that comes from another engine. */
  private void receive(StepPlan plan, Sequence sequence) {
    if (!kv.grow(sequence.table(), sequence.promptLength())) {
      throw new IllegalStateException("blocks that were there for a prompt are gone");
    }
    sequence.request().markReceiving();
    plan.receive(sequence);
  }

  /** The prompt's keys and values are in the cache now. */
  void received(Sequence sequence) {
    sequence.request().markReceived();
    sequence.advance(sequence.promptLength() - sequence.computed());
    kv.commit(sequence.table(), sequence, sequence.computed());
  }

  /** Blocks came back that no sequence held: whoever waits for some may fit now. */
  void blocksFreed() {
    admissionBlocked = false;
  }

  private boolean placeInBatch(Sequence sequence) {
    int taken = 0;
    for (Sequence other : running) {
      taken += places(other);
    }
    return taken + places(sequence) <= options.maxBatchSize();
  }

  private static int places(Sequence sequence) {
    return sequence.request().forked() ? 1 : sequence.request().samples();
  }

  /**
   * Attaches reused blocks if the capacity policy lets the sequence in; changes nothing otherwise.
   */
  private boolean attach(StepPlan plan, Sequence sequence) {
    BlockTable table =
        kv.open(
            sequence,
            sequence.size(),
            sequence.request().spec().cacheSalt(),
            sequence.request().readsCache());
    sequence.attach(table, table.reusedTokens());
    boolean fits = capacityFor(sequence);
    boolean whole =
        options.chunkedPrefill()
            || sequence.request().needsTransfer()
            || sequence.remaining() <= options.maxBatchTokens() - plan.tokens()
            || sequence.size() > options.maxBatchTokens();
    if (fits && whole) {
      return true;
    }
    // Blocked by blocks, nothing changes until a sequence ends; blocked by the token budget, the
    // next
    // step may do.
    admissionBlocked = !fits;
    kv.release(sequence.detach());
    return false;
  }

  private boolean capacityFor(Sequence sequence) {
    int available = kv.availableBlocks();
    if (options.capacityPolicy() == CapacityPolicy.MAX_UTILIZATION) {
      int spare = running.isEmpty() ? 0 : 1;
      return kv.blocksFor(sequence.size()) - sequence.table().size() + spare <= available;
    }
    long promised = budget.outstanding(sequence);
    for (Sequence other : running) {
      promised += budget.outstanding(other);
    }
    return promised <= available;
  }
}
