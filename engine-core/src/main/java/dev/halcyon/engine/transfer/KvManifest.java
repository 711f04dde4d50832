package dev.halcyon.engine.transfer;

import dev.halcyon.engine.KvTransferException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/**
 * Which prompt's keys and values, of what kind.
 *
 * @param layout of what kind
 * @param tokens how many tokens the prompt has
 * @param promptDigest SHA-256 of its ids as little-endian int32, in hexadecimal: who fetches a
 *     prompt has to know it, and can't put another's keys under its own tokens
 */
public record KvManifest(KvLayout layout, int tokens, String promptDigest) {

  public KvManifest {
    if (tokens < 1) {
      throw new IllegalArgumentException("a prompt has at least one token, got " + tokens);
    }
  }

  /** The manifest of a prompt. */
  public static KvManifest of(KvLayout layout, int[] prompt) {
    ByteBuffer bytes =
        ByteBuffer.allocate(Math.multiplyExact(4, prompt.length)).order(ByteOrder.LITTLE_ENDIAN);
    bytes.asIntBuffer().put(prompt);
    try {
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes.array());
      return new KvManifest(layout, prompt.length, HexFormat.of().formatHex(digest));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }

  /**
   * Requires that the generation side means the same.
   *
   * @throws KvTransferException with reason REFUSED, naming the first thing that differs
   */
  public void requireSame(KvManifest generation) {
    layout.requireSame(generation.layout);
    KvLayout.requireSame("prompt length", tokens, generation.tokens);
    KvLayout.requireSame("prompt", promptDigest, generation.promptDigest);
  }
}
