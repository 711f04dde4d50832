package dev.halcyon.engine.disagg.router;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;

/**
 * Hashes of a prompt's beginnings: of its first 64 characters, 128, 256 and so on (or 16 token ids,
 * 32, 64 ...), so that two prompts have as many in common as their common beginning is long.
 * Beginnings shorter than that are not worth remembering: a prefix cache keeps whole blocks.
 */
final class PrefixKeys {

  private static final int CHARACTERS = 64;
  private static final int TOKENS = 16;
  private static final int MOST = 26;

  private final long[] keys = new long[MOST];
  private final int unit;
  private int count;
  private long hash;
  private int length;

  private PrefixKeys(long seed, int unit) {
    this.hash = seed;
    this.unit = unit;
  }

  /**
   * @param body a request for completions or chat completions; of several prompts the first counts
   * @param seed kept secret, so that nobody can make prompts that collide
   * @return from the shortest to the longest
   */
  static long[] of(JsonNode body, long seed) {
    JsonNode prompt = body.path("prompt");
    JsonNode first = prompt.isArray() && prompt.path(0).isContainerNode() ? prompt.get(0) : prompt;
    boolean ids = first.isArray() && first.path(0).isNumber();
    PrefixKeys keys = new PrefixKeys(seed, ids ? TOKENS : CHARACTERS);
    // Caches are apart for each salt, so that nothing is gained by bringing them together.
    keys.mix(body.path("cache_salt").asText("").hashCode());
    if (ids) {
      first.forEach(id -> keys.add(id.intValue()));
    } else if (first.isArray()) {
      keys.addText(first.path(0).asText(""));
    } else {
      keys.addText(first.asText(""));
    }
    body.path("messages").forEach(keys::addMessage);
    return Arrays.copyOf(keys.keys, keys.count);
  }

  private void addMessage(JsonNode message) {
    addText(message.path("role").asText(""));
    JsonNode content = message.path("content");
    addText(content.asText(""));
    content.forEach(part -> addText(part.path("text").asText("")));
  }

  private void addText(String text) {
    for (int i = 0; i < text.length(); i++) {
      add(text.charAt(i));
    }
  }

  private void add(int value) {
    mix(value);
    length++;
    if (count < MOST && length == (long) unit << count) {
      keys[count++] = hash;
    }
  }

  /** The step of a 64-bit mixer (the finaliser of MurmurHash3). */
  private void mix(int value) {
    long h = hash ^ value;
    h = (h ^ (h >>> 33)) * 0xff51afd7ed558ccdL;
    h = (h ^ (h >>> 33)) * 0xc4ceb9fe1a85ec53L;
    hash = h ^ (h >>> 33);
  }
}
