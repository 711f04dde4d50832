package dev.halcyon.engine.kvcache;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The cache's rules written down as plainly as can be, with whole prefixes in place of hashes: what
 * the real one is compared with.
 */
final class NaiveCache {

  /** A block is known by identity; the registered prefix is null where there is none. */
  static final class Block {
    int references = 1;
    String prefix;
  }

  /** A sequence's blocks, of which the first {@code known} were committed. */
  static final class Table {
    final List<Block> blocks = new ArrayList<>();
    int known;
  }

  private final int total;
  private final int blockSize;
  private final Map<String, Block> registered = new HashMap<>();
  private final Set<Block> cachedOldestFirst = new LinkedHashSet<>();
  private final Set<Block> owned = new LinkedHashSet<>();
  int evicted;
  int copied;

  NaiveCache(int total, int blockSize) {
    this.total = total;
    this.blockSize = blockSize;
  }

  int used() {
    return owned.size();
  }

  int cached() {
    return cachedOldestFirst.size();
  }

  int available() {
    return total - owned.size();
  }

  /**
   * The blocks that hold the beginning of a sequence, given the prefix up to each of its positions.
   */
  List<Block> match(List<String> prefixes) {
    List<Block> found = new ArrayList<>();
    for (int end = blockSize; end < prefixes.size(); end += blockSize) {
      Block block = registered.get(prefixes.get(end - 1));
      if (block == null) {
        break;
      }
      found.add(block);
    }
    return found;
  }

  Table open(List<Block> reused) {
    Table table = new Table();
    for (Block block : reused) {
      share(block, table);
    }
    table.known = reused.size();
    return table;
  }

  boolean grow(Table table, int tokens) {
    int missing = (tokens + blockSize - 1) / blockSize - table.blocks.size();
    if (missing > available()) {
      return false;
    }
    for (int i = 0; i < missing; i++) {
      table.blocks.add(allocate());
    }
    return true;
  }

  PreparedWrite.Outcome prepareWrite(Table table, int position) {
    int index = position / blockSize;
    Block block = table.blocks.get(index);
    if (block.references > 1 && available() == 0) {
      return PreparedWrite.Outcome.OUT_OF_BLOCKS;
    }
    table.known = Math.min(table.known, index);
    if (block.references == 1) {
      forget(block);
      return PreparedWrite.Outcome.IN_PLACE;
    }
    table.blocks.set(index, allocate());
    block.references--;
    copied++;
    return PreparedWrite.Outcome.COPY;
  }

  Table fork(Table table, int tokens) {
    Table fork = new Table();
    for (int i = 0; i * blockSize < tokens; i++) {
      share(table.blocks.get(i), fork);
    }
    fork.known = Math.min(table.known, tokens / blockSize);
    return fork;
  }

  void commit(Table table, List<String> prefixes, int computed) {
    for (; (table.known + 1) * blockSize <= computed; table.known++) {
      Block block = table.blocks.get(table.known);
      String prefix = prefixes.get((table.known + 1) * blockSize - 1);
      if (block.prefix == null && registered.putIfAbsent(prefix, block) == null) {
        block.prefix = prefix;
      }
    }
  }

  void release(Table table) {
    for (int i = table.blocks.size() - 1; i >= 0; i--) {
      Block block = table.blocks.get(i);
      if (--block.references == 0) {
        owned.remove(block);
        if (block.prefix != null) {
          cachedOldestFirst.add(block);
        }
      }
    }
    table.blocks.clear();
  }

  void clear() {
    cachedOldestFirst.forEach(this::forget);
    cachedOldestFirst.clear();
  }

  private void share(Block block, Table table) {
    block.references++;
    cachedOldestFirst.remove(block);
    owned.add(block);
    table.blocks.add(block);
  }

  private Block allocate() {
    if (owned.size() + cachedOldestFirst.size() == total) {
      Block oldest = cachedOldestFirst.iterator().next();
      cachedOldestFirst.remove(oldest);
      forget(oldest);
      evicted++;
    }
    Block block = new Block();
    owned.add(block);
    return block;
  }

  private void forget(Block block) {
    if (block.prefix != null) {
      registered.remove(block.prefix);
      block.prefix = null;
    }
  }
}
