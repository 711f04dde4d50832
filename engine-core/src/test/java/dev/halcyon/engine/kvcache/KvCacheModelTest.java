package dev.halcyon.engine.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.EdgeCasesMode;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tuple;

/**
 * Random operations against {@link NaiveCache}, and against a storage of blocks that is written and
 * copied as a runner would: whatever the tables say must be where a sequence's content lies.
 */
class KvCacheModelTest {

  private static final int BLOCK_SIZE = 4;

  enum Kind {
    OPEN,
    ADVANCE,
    FORK,
    REWRITE,
    RELEASE,
    CLEAR
  }

  /** An operation; what a and b mean depends on its kind, and every value means something. */
  record Operation(Kind kind, int a, int b) {}

  @Provide
  Arbitrary<List<Operation>> operations() {
    Arbitrary<Kind> kinds =
        Arbitraries.frequency(
            Tuple.of(6, Kind.OPEN),
            Tuple.of(12, Kind.ADVANCE),
            Tuple.of(4, Kind.FORK),
            Tuple.of(2, Kind.REWRITE),
            Tuple.of(5, Kind.RELEASE),
            Tuple.of(1, Kind.CLEAR));
    Arbitrary<Integer> operand = Arbitraries.integers().between(0, 63);
    return Combinators.combine(kinds, operand, operand).as(Operation::new).list().ofSize(120);
  }

  /** 100 tries of 120 operations each. */
  @Property(tries = 100, edgeCases = EdgeCasesMode.NONE)
  void behavesAsTheNaiveCache(@ForAll("operations") List<Operation> operations) {
    run(operations, 12);
  }

  @Property(tries = 100, edgeCases = EdgeCasesMode.NONE)
  void behavesAsTheNaiveCacheWhereRoomIsShort(@ForAll("operations") List<Operation> operations) {
    run(operations, 4);
  }

  private static void run(List<Operation> operations, int blocks) {
    Run run = new Run(blocks);
    for (Operation operation : operations) {
      run.apply(operation);
      run.check();
    }
    List.copyOf(run.live).forEach(run::release);
    run.check();
    assertThat(run.cache.usedBlocks()).isZero();
  }

  /** A sequence in both caches; prefixes.get(i) is the salt and all tokens up to position i. */
  private static final class Sequence implements TokenSource {
    final List<Integer> tokens = new ArrayList<>();
    final List<String> prefixes = new ArrayList<>();
    final String salt;
    BlockTable table;
    NaiveCache.Table naive;
    int computed;

    Sequence(String salt) {
      this.salt = salt;
    }

    void add(int token) {
      String before = prefixes.isEmpty() ? salt + ":" : prefixes.get(prefixes.size() - 1);
      tokens.add(token);
      prefixes.add(before + token + ",");
    }

    void truncate(int length) {
      tokens.subList(length, tokens.size()).clear();
      prefixes.subList(length, prefixes.size()).clear();
    }

    @Override
    public int size() {
      return tokens.size();
    }

    @Override
    public int token(int index) {
      return tokens.get(index);
    }
  }

  private static final class Run {
    final KvCacheManager cache;
    final NaiveCache naive;
    final List<Sequence> live = new ArrayList<>();
    final String[][] storage;
    long reused;

    Run(int blocks) {
      cache = new KvCacheManager(blocks, BLOCK_SIZE, true);
      naive = new NaiveCache(blocks, BLOCK_SIZE);
      storage = new String[blocks][BLOCK_SIZE];
    }

    void apply(Operation operation) {
      if (operation.kind() == Kind.OPEN) {
        open(operation.a(), operation.b());
      } else if (operation.kind() == Kind.CLEAR) {
        cache.clear();
        naive.clear();
      } else if (!live.isEmpty()) {
        Sequence sequence = live.get(operation.a() % live.size());
        switch (operation.kind()) {
          case ADVANCE -> advance(sequence, 1 + operation.b() % 11, operation.b() % 3);
          case FORK -> fork(sequence, operation.b());
          case REWRITE -> rewrite(sequence, operation.b());
          default -> release(sequence);
        }
      }
    }

    /** One of four prompts that part at positions 3, 6 and 9, under one of three salts. */
    void open(int a, int b) {
      Sequence sequence = new Sequence(new String[] {null, null, "", "x"}[b % 4]);
      int length = 1 + b % 20;
      for (int i = 0; i < length; i++) {
        sequence.add(i >= 3 * (1 + a % 4) ? a % 4 : 9);
      }
      boolean read = a % 8 != 7;
      List<NaiveCache.Block> match = naive.match(sequence.prefixes);
      int unreferenced = (int) match.stream().filter(block -> block.references == 0).count();
      assertThat(cache.peekReuse(sequence, length, sequence.salt))
          .isEqualTo(new PrefixMatch(match.size() * BLOCK_SIZE, unreferenced));
      sequence.table = cache.open(sequence, length, sequence.salt, read);
      sequence.naive = naive.open(read ? match : List.of());
      sequence.computed = sequence.table.reusedTokens();
      assertThat(sequence.computed).isEqualTo(read ? match.size() * BLOCK_SIZE : 0);
      reused += sequence.computed;
      live.add(sequence);
    }

    void advance(Sequence sequence, int count, int token) {
      int end = sequence.computed + count;
      while (sequence.size() < end) {
        sequence.add(token);
      }
      boolean grown = cache.grow(sequence.table, end);
      assertThat(grown).isEqualTo(naive.grow(sequence.naive, end));
      if (!grown) {
        return;
      }
      while (sequence.computed < end && write(sequence, sequence.computed)) {
        sequence.computed++;
      }
      cache.commit(sequence.table, sequence, sequence.computed);
      naive.commit(sequence.naive, sequence.prefixes, sequence.computed);
    }

    boolean write(Sequence sequence, int position) {
      PreparedWrite prepared = cache.prepareWrite(sequence.table, position);
      assertThat(prepared.outcome()).isEqualTo(naive.prepareWrite(sequence.naive, position));
      if (prepared.outcome() == PreparedWrite.Outcome.OUT_OF_BLOCKS) {
        return false;
      }
      if (prepared.outcome() == PreparedWrite.Outcome.COPY) {
        storage[prepared.copy().to()] = storage[prepared.copy().from()].clone();
      }
      int block = sequence.table.blocks()[position / BLOCK_SIZE];
      storage[block][position % BLOCK_SIZE] = sequence.prefixes.get(position);
      return true;
    }

    void fork(Sequence sequence, int at) {
      int tokens = at % (sequence.computed + 1);
      Sequence fork = new Sequence(sequence.salt);
      sequence.tokens.subList(0, tokens).forEach(fork::add);
      fork.table = cache.fork(sequence.table, tokens);
      fork.naive = naive.fork(sequence.naive, tokens);
      fork.computed = tokens;
      live.add(fork);
    }

    /** Goes back to an earlier position, to go on differently from there. */
    void rewrite(Sequence sequence, int at) {
      sequence.computed = at % (sequence.computed + 1);
      sequence.truncate(sequence.computed);
      sequence.add(7);
    }

    void release(Sequence sequence) {
      cache.release(sequence.table);
      naive.release(sequence.naive);
      live.remove(sequence);
    }

    void check() {
      cache.checkIntegrity(live.stream().map(sequence -> sequence.table).toList());
      KvCacheStats stats = cache.stats();
      assertThat(stats.usedBlocks()).isEqualTo(naive.used());
      assertThat(stats.cachedBlocks()).isEqualTo(naive.cached());
      assertThat(cache.availableBlocks()).isEqualTo(naive.available());
      assertThat(stats.evictedBlocks()).isEqualTo(naive.evicted);
      assertThat(stats.copiedBlocks()).isEqualTo(naive.copied);
      assertThat(stats.reusedTokens()).isEqualTo(reused);
      for (Sequence sequence : live) {
        assertThat(sequence.table.size()).isEqualTo(sequence.naive.blocks.size());
        for (int p = 0; p < sequence.computed; p++) {
          int block = sequence.table.blocks()[p / BLOCK_SIZE];
          assertThat(storage[block][p % BLOCK_SIZE]).isEqualTo(sequence.prefixes.get(p));
        }
      }
    }
  }
}
