package dev.halcyon.engine.kvcache;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** The check must see every kind of corruption: each case breaks one thing in a sound cache. */
class IntegrityCheckTest {

  private final KvCacheManager cache = new KvCacheManager(8, 4, true);
  private BlockTable live;
  private BlockTable second;

  /** Blocks 0, 1 owned twice and registered, 2 owned; 3, 4 cached; 5 to 7 free. */
  @BeforeEach
  void fill() {
    live = computed(Tokens.from(0, 9));
    BlockTable other = computed(Tokens.from(100, 8));
    second = cache.fork(live, 8);
    cache.release(other);
    cache.checkIntegrity(List.of(live, second));
    assertThat(cache.stats()).isEqualTo(new KvCacheStats(8, 3, 2, 3, 2, 0, 17, 0, 0, 0));
  }

  static Stream<Arguments> corruptions() {
    return Stream.of(
        corruption("references too high", "counts 3 references", p -> p.references[0]++),
        corruption("references too low", "counts 0 references", p -> p.references[2]--),
        corruption("a cached block referenced", "Block 3 counts 1", p -> p.references[3]++),
        corruption("a lost free block", "blocks are free", p -> p.freeTop = p.next[p.freeTop]),
        corruption("a free count", "blocks are free", p -> p.freeCount++),
        corruption("a ring of free blocks", "free list twice", p -> p.next[7] = 5),
        corruption("a free block that isn't there", "does not exist", p -> p.next[7] = 8),
        corruption("an owned block freed", "must be one of", BlockPoolCorruption::freeOwned),
        corruption("a cached block freed", "must be one of", BlockPoolCorruption::freeCached),
        corruption("a cached count", "blocks are cached", p -> p.cachedCount--),
        corruption("a ring of cached blocks", "cached list twice", p -> p.next[3] = 3),
        corruption("a back link", "links back", p -> p.previous[3] = BlockPool.NONE),
        corruption("the newest cached block", "its end", p -> p.newestCached = 4),
        corruption("a cached block unregistered", "not registered", p -> p.index.remove(4)),
        corruption(
            "a free block registered",
            "Free block 6",
            p -> p.index.add(new BlockHash(1, 2, 3, 4), 6)),
        corruption(
            "two blocks of one hash", "leads to block", p -> p.index.add(p.index.hashes[0], 2)),
        corruption(
            "a changed hash",
            "leads to block -1",
            p -> p.index.hashes[1] = new BlockHash(0, 0, 0, ~p.index.hashes[1].d())),
        corruption("a hash gone", "without a hash", p -> p.index.hashes[1] = null),
        corruption(
            "a hash that nothing leads to",
            "Registered block 2",
            p -> p.index.hashes[2] = new BlockHash(1, 2, 3, 4)),
        corruption("a ring in the index", "index twice", p -> p.index.chainNext[0] = 0));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("corruptions")
  void detects(String name, String message, Consumer<BlockPool> corrupt) {
    corrupt.accept(cache.pool());
    assertThatIllegalStateException()
        .isThrownBy(() -> cache.checkIntegrity(List.of(live, second)))
        .withMessageContaining(message);
  }

  @Test
  void detectsATableThatIsMissingOrReleased() {
    assertThatIllegalStateException()
        .isThrownBy(() -> cache.checkIntegrity(List.of(live)))
        .withMessageContaining("Block 0 counts 2 references and occurs 1 times");
    assertThatIllegalStateException()
        .isThrownBy(() -> cache.checkIntegrity(List.of(live, second, second)));
    cache.release(second);
    assertThatIllegalStateException()
        .isThrownBy(() -> cache.checkIntegrity(List.of(live, second)))
        .withMessageContaining("released");
    assertThatCode(() -> cache.checkIntegrity(List.of(live))).doesNotThrowAnyException();
  }

  @Test
  void detectsATableWithAForeignBlock() {
    live.replace(2, 6);
    assertThatIllegalStateException()
        .isThrownBy(() -> cache.checkIntegrity(List.of(live, second)))
        .withMessageContaining("Block 2 counts 1 references and occurs 0 times");
    live.replace(2, 8);
    assertThatIllegalStateException()
        .isThrownBy(() -> cache.checkIntegrity(List.of(live, second)))
        .withMessageContaining("Block 8 in a live table does not exist");
  }

  private BlockTable computed(Tokens tokens) {
    BlockTable table = cache.open(tokens, tokens.size(), null, true);
    cache.grow(table, tokens.size());
    cache.commit(table, tokens, tokens.size());
    return table;
  }

  private static Arguments corruption(String name, String message, Consumer<BlockPool> corrupt) {
    return Arguments.of(name, message, corrupt);
  }

  /** Corruptions of more than one field. */
  private static final class BlockPoolCorruption {

    static void freeOwned(BlockPool pool) {
      pool.next[2] = pool.freeTop;
      pool.freeTop = 2;
      pool.freeCount++;
    }

    /** Lets the free list run into the cached one, all else being right. */
    static void freeCached(BlockPool pool) {
      pool.next[7] = pool.oldestCached;
      pool.freeCount += pool.cachedCount;
    }
  }
}
