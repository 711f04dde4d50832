package dev.halcyon.engine.kvcache;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class KvCacheManagerTest {

  private static final int BLOCK = 4;

  private final KvCacheManager cache = new KvCacheManager(8, BLOCK, true);

  @ParameterizedTest
  @CsvSource({
    // Tokens and the whole blocks that leave at least one of them to compute, for blocks of 4.
    "1, 0",
    "3, 0",
    "4, 0",
    "5, 4",
    "8, 4",
    "9, 8",
    "12, 8",
  })
  void reusesWholeBlocksAndLeavesATokenToCompute(int length, int reused) {
    BlockTable first = computed(Tokens.from(0, 12), null);
    PrefixMatch match = cache.peekReuse(Tokens.from(0, length), length, null);
    assertThat(match).isEqualTo(new PrefixMatch(reused, 0));

    BlockTable second = cache.open(Tokens.from(0, length), length, null, true);
    assertThat(second.reusedTokens()).isEqualTo(reused);
    assertThat(ids(second)).isEqualTo(ids(first).subList(0, reused / BLOCK));
    assertThat(cache.usedBlocks()).isEqualTo(3);
    cache.checkIntegrity(List.of(first, second));
  }

  @Test
  void reusesNothingThatIsNotCommitted() {
    BlockTable first = opened(Tokens.from(0, 12), null);
    cache.commit(first, Tokens.from(0, 12), 7); // one whole block of 4
    assertThat(cache.peekReuse(Tokens.from(0, 12), 12, null).tokens()).isEqualTo(4);
    cache.commit(first, Tokens.from(0, 12), 8);
    assertThat(cache.peekReuse(Tokens.from(0, 12), 12, null).tokens()).isEqualTo(8);
  }

  @Test
  void reusesUpToTheFirstDifferentToken() {
    computed(Tokens.from(0, 12), null);
    int[] other = Tokens.from(0, 12).ids();
    other[5] = 99;
    assertThat(cache.peekReuse(Tokens.of(other), 12, null).tokens()).isEqualTo(4);
    // The same tokens in the second block after another first one are another prefix.
    int[] shifted = Tokens.from(0, 12).ids();
    shifted[0] = 99;
    assertThat(cache.peekReuse(Tokens.of(shifted), 12, null).tokens()).isZero();
  }

  @Test
  void saltsIsolate() {
    computed(Tokens.from(0, 9), "a");
    assertThat(cache.peekReuse(Tokens.from(0, 9), 9, "a").tokens()).isEqualTo(8);
    for (String other : Arrays.asList(null, "", "b", "aa")) {
      assertThat(cache.peekReuse(Tokens.from(0, 9), 9, other).tokens()).isZero();
    }
    computed(Tokens.from(0, 9), null);
    assertThat(cache.peekReuse(Tokens.from(0, 9), 9, null).tokens()).isEqualTo(8);
    assertThat(cache.peekReuse(Tokens.from(0, 9), 9, "").tokens()).isZero();
  }

  @Test
  void withoutReadingTheCacheEverythingIsLeftToCompute() {
    BlockTable first = computed(Tokens.from(0, 9), null);
    BlockTable second = cache.open(Tokens.from(0, 9), 9, null, false);
    assertThat(second.size()).isZero();
    assertThat(cache.grow(second, 9)).isTrue();
    cache.commit(second, Tokens.from(0, 9), 9);
    assertThat(cache.stats().lookups()).isEqualTo(1); // the first one's only
    cache.checkIntegrity(List.of(first, second));
  }

  @Test
  void withoutPrefixReuseNothingIsCached() {
    KvCacheManager plain = new KvCacheManager(8, BLOCK, false);
    BlockTable table = plain.open(Tokens.from(0, 9), 9, null, true);
    plain.grow(table, 9);
    plain.commit(table, Tokens.from(0, 9), 9);
    assertThat(plain.peekReuse(Tokens.from(0, 9), 9, null)).isEqualTo(new PrefixMatch(0, 0));
    plain.release(table);
    assertThat(plain.stats()).isEqualTo(new KvCacheStats(8, 8, 0, 0, 0, 0, 0, 0, 0, 0));
  }

  @Test
  void releasedBlocksAreCachedIfWholeAndFreeOtherwise() {
    BlockTable table = computed(Tokens.from(0, 9), null); // 2 whole blocks, 1 begun
    assertThat(cache.availableBlocks()).isEqualTo(5);
    cache.release(table);
    cache.release(table);
    assertThat(table.released()).isTrue();
    assertThat(cache.stats().cachedBlocks()).isEqualTo(2);
    assertThat(cache.stats().freeBlocks()).isEqualTo(6);
    assertThat(cache.availableBlocks()).isEqualTo(8);
    assertThat(cache.peekReuse(Tokens.from(0, 9), 9, null)).isEqualTo(new PrefixMatch(8, 2));
    cache.clear();
    assertThat(cache.stats().freeBlocks()).isEqualTo(8);
    assertThat(cache.peekReuse(Tokens.from(0, 9), 9, null)).isEqualTo(new PrefixMatch(0, 0));
    cache.checkIntegrity(List.of());
  }

  @Test
  void growIsAllOrNothing() {
    BlockTable table = opened(Tokens.from(0, 1), null);
    assertThat(table.size()).isEqualTo(1);
    assertThat(cache.grow(table, 33)).isFalse(); // 9 blocks of 4, there are 8
    assertThat(cache.grow(table, Integer.MAX_VALUE)).isFalse();
    assertThat(table.size()).isEqualTo(1);
    assertThat(cache.grow(table, 32)).isTrue();
    assertThat(ids(table)).containsExactlyInAnyOrder(0, 1, 2, 3, 4, 5, 6, 7);
    assertThat(cache.grow(table, 3)).isTrue();
    assertThat(table.size()).isEqualTo(8);
    assertThat(cache.availableBlocks()).isZero();
  }

  @Test
  void evictsTheLeastRecentlyUsedAndAChainFromItsTail() {
    BlockTable a = computed(Tokens.from(0, 12), null);
    BlockTable b = computed(Tokens.from(100, 12), null);
    cache.release(a);
    cache.release(b);
    // 2 free and 6 cached: a0 a1 a2 b0 b1 b2. A use of a's first block renews that one.
    cache.release(cache.open(Tokens.from(0, 5), 5, null, true));

    BlockTable c = cache.open(Tokens.from(200, 1), 1, null, true);
    int[] reusedAfter = new int[6];
    for (int evicted = 1; evicted <= 6; evicted++) {
      assertThat(cache.grow(c, (2 + evicted) * BLOCK)).isTrue();
      assertThat(cache.stats().evictedBlocks()).isEqualTo(evicted);
      cache.checkIntegrity(List.of(c));
      reusedAfter[evicted - 1] =
          100 * cache.peekReuse(Tokens.from(0, 13), 13, null).tokens()
              + cache.peekReuse(Tokens.from(100, 13), 13, null).tokens();
    }
    // Of a and b: a loses its third block, its second, b its third to first, a its first.
    assertThat(reusedAfter).containsExactly(812, 412, 408, 404, 400, 0);
  }

  @Test
  void aSharedBlockIsCopiedOnceAndTheLastOwnerWritesInPlace() {
    BlockTable a = computed(Tokens.from(0, 6), null); // block 1 holds 2 of 4 tokens
    BlockTable b = cache.fork(a, 6);
    BlockTable c = cache.fork(a, 6);
    assertThat(ids(b)).isEqualTo(ids(a));
    assertThat(cache.usedBlocks()).isEqualTo(2);
    int shared = a.blocks()[1];

    PreparedWrite first = cache.prepareWrite(a, 6);
    assertThat(first.outcome()).isEqualTo(PreparedWrite.Outcome.COPY);
    assertThat(first.copy()).isEqualTo(new BlockCopy(shared, a.blocks()[1]));
    assertThat(a.blocks()[1]).isNotEqualTo(shared);
    assertThat(cache.prepareWrite(a, 6).outcome()).isEqualTo(PreparedWrite.Outcome.IN_PLACE);
    assertThat(cache.prepareWrite(b, 6).outcome()).isEqualTo(PreparedWrite.Outcome.COPY);
    assertThat(cache.prepareWrite(c, 6)).isEqualTo(PreparedWrite.IN_PLACE);
    assertThat(c.blocks()[1]).isEqualTo(shared);
    assertThat(List.of(a.blocks()[0], b.blocks()[0])).containsOnly(c.blocks()[0]);
    assertThat(cache.stats().copiedBlocks()).isEqualTo(2);
    cache.checkIntegrity(List.of(a, b, c));
  }

  @Test
  void aCopyWithoutABlockChangesNothing() {
    BlockTable a = computed(Tokens.from(0, 30), null);
    BlockTable b = cache.fork(a, 30);
    List<Integer> before = ids(b);
    assertThat(cache.prepareWrite(b, 30)).isEqualTo(PreparedWrite.OUT_OF_BLOCKS);
    assertThat(ids(b)).isEqualTo(before);
    cache.checkIntegrity(List.of(a, b));
    cache.release(a);
    assertThat(cache.prepareWrite(b, 30)).isEqualTo(PreparedWrite.IN_PLACE);
  }

  @Test
  void writingOverARegisteredBlockTakesItOutOfTheIndex() {
    BlockTable a = computed(Tokens.from(0, 6), null);
    BlockTable b = cache.fork(a, 6);
    // a completes the block they share (as one that doesn't write elsewhere may), registers it and
    // ends.
    cache.commit(a, Tokens.from(0, 8), 8);
    cache.release(a);
    assertThat(cache.peekReuse(Tokens.from(0, 9), 9, null).tokens()).isEqualTo(8);

    assertThat(cache.prepareWrite(b, 6)).isEqualTo(PreparedWrite.IN_PLACE);
    assertThat(cache.peekReuse(Tokens.from(0, 9), 9, null).tokens()).isEqualTo(4);
    Tokens other = Tokens.of(0, 1, 2, 3, 4, 5, 60, 70, 80);
    cache.commit(b, other, 8);
    assertThat(cache.peekReuse(other, 9, null).tokens()).isEqualTo(8);
    assertThat(cache.peekReuse(Tokens.from(0, 9), 9, null).tokens()).isEqualTo(4);
    cache.checkIntegrity(List.of(b));
  }

  @Test
  void commitRefusesABlockWrittenAgainUnprepared() {
    BlockTable a = computed(Tokens.from(0, 8), null);
    cache.prepareWrite(a, 2);
    Tokens other = Tokens.of(0, 1, 9, 3, 4, 5, 6, 7);
    assertThatIllegalStateException()
        .isThrownBy(() -> cache.commit(a, other, 8))
        .withMessageContaining("without prepareWrite");
  }

  @Test
  void equalBlocksComputedTwiceAreRegisteredOnce() {
    Tokens tokens = Tokens.from(0, 8);
    BlockTable a = opened(tokens, null);
    BlockTable b = opened(tokens, null);
    cache.commit(a, tokens, 8);
    cache.commit(b, tokens, 8);
    cache.checkIntegrity(List.of(a, b));
    cache.release(b);
    assertThat(cache.stats().cachedBlocks()).isZero();
    cache.release(a);
    assertThat(cache.stats().cachedBlocks()).isEqualTo(2);
  }

  @Test
  void aForkKeepsTheChainForItsOwnBlocks() {
    BlockTable a = computed(Tokens.from(0, 6), "salt");
    BlockTable b = cache.fork(a, 6);
    cache.release(a);
    Tokens longer = Tokens.of(0, 1, 2, 3, 4, 5, 60, 70, 80);
    cache.prepareWrite(b, 6);
    cache.grow(b, 9);
    cache.commit(b, longer, 9);
    assertThat(cache.peekReuse(longer, 9, "salt").tokens()).isEqualTo(8);
    assertThat(cache.peekReuse(longer, 9, null).tokens()).isZero();
  }

  @ParameterizedTest
  @ValueSource(strings = {"abc", "acb", "bac", "bca", "cab", "cba"})
  void forksAreReleasedInAnyOrder(String order) {
    BlockTable a = computed(Tokens.from(0, 9), null);
    List<BlockTable> live = new ArrayList<>(List.of(a, cache.fork(a, 9), cache.fork(a, 5)));
    List<BlockTable> tables = List.copyOf(live);
    for (char name : order.toCharArray()) {
      BlockTable table = tables.get(name - 'a');
      cache.release(table);
      live.remove(table);
      cache.checkIntegrity(live);
    }
    assertThat(cache.stats().cachedBlocks()).isEqualTo(2);
    assertThat(cache.peekReuse(Tokens.from(0, 9), 9, null).tokens()).isEqualTo(8);
  }

  @Test
  void countsLookupsAndReuse() {
    computed(Tokens.from(0, 9), null);
    cache.open(Tokens.from(0, 7), 7, null, true);
    cache.open(Tokens.from(50, 3), 3, null, true);
    // 9 + 7 + 3 tokens looked up; the second reused a block of 4.
    KvCacheStats stats = cache.stats();
    assertThat(stats.lookups()).isEqualTo(3);
    assertThat(stats.hits()).isEqualTo(1);
    assertThat(stats.lookupTokens()).isEqualTo(19);
    assertThat(stats.reusedTokens()).isEqualTo(4);
  }

  @Test
  void refusesWhatCanNeverBeRight() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> new KvCacheManager(0, 4, true))
        .withMessageContaining("blocks");
    for (int size : new int[] {0, 3, -4, Integer.MIN_VALUE}) {
      assertThatIllegalArgumentException()
          .isThrownBy(() -> new KvCacheManager(8, size, true))
          .withMessageContaining("blockSize");
    }
    BlockTable table = opened(Tokens.from(0, 4), null);
    assertThatIllegalArgumentException()
        .isThrownBy(() -> cache.open(Tokens.from(0, 4), 5, null, true))
        .withMessageContaining("length");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> cache.grow(table, -1))
        .withMessageContaining("tokens");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> cache.prepareWrite(table, 4))
        .withMessageContaining("position");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> cache.fork(table, 5))
        .withMessageContaining("tokens");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> cache.commit(table, Tokens.from(0, 8), 8))
        .withMessageContaining("computed");
    assertThatIllegalArgumentException()
        .isThrownBy(() -> new KvCacheManager(8, 4, true).release(table))
        .withMessageContaining("table");
    cache.release(table);
    assertThatIllegalStateException().isThrownBy(() -> cache.grow(table, 1));
  }

  private BlockTable opened(Tokens tokens, String salt) {
    BlockTable table = cache.open(tokens, tokens.size(), salt, true);
    assertThat(cache.grow(table, tokens.size())).isTrue();
    return table;
  }

  private BlockTable computed(Tokens tokens, String salt) {
    BlockTable table = opened(tokens, salt);
    cache.commit(table, tokens, tokens.size());
    return table;
  }

  private static List<Integer> ids(BlockTable table) {
    return Arrays.stream(table.blocks(), 0, table.size()).boxed().toList();
  }
}
