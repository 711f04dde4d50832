package dev.halcyon.engine.disagg.router;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Remembers which endpoint has last seen a prompt's beginnings, for it may have them in its prefix
 * cache. Keeps a bounded number, and forgets first what was not asked for longest. Safe for use by
 * several threads.
 */
final class PrefixAffinity {

  private final int entries;
  private final Map<Long, Node> seen = new LinkedHashMap<>(16, 0.75f, true);

  PrefixAffinity(int entries) {
    this.entries = entries;
  }

  /** The endpoint that has seen the longest of the beginnings; null if there is none. */
  synchronized Node find(long[] keys) {
    for (int i = keys.length - 1; i >= 0; i--) {
      Node node = seen.get(keys[i]);
      if (node != null) {
        return node;
      }
    }
    return null;
  }

  synchronized void remember(long[] keys, Node node) {
    for (long key : keys) {
      seen.put(key, node);
    }
    Iterator<Long> eldest = seen.keySet().iterator();
    while (seen.size() > entries) {
      eldest.next();
      eldest.remove();
    }
  }

  synchronized int size() {
    return seen.size();
  }
}
