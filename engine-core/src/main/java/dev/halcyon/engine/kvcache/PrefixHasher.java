package dev.halcyon.engine.kvcache;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/**
 * The chain of hashes that names a prefix of tokens, block by block: {@code hash(-1) =
 * SHA-256(domain, salt)} and {@code hash(i) = SHA-256(hash(i - 1), token ids of block i)}, ids as
 * little-endian 32-bit integers. A cryptographic hash, since a collision would hand one caller's
 * context to another.
 *
 * <p>The root hashes {@value #DOMAIN} in UTF-8, then a byte 0 where there is no salt, or a byte 1
 * and the salt's UTF-16 code units, each little-endian (not UTF-8, in which ill-formed strings
 * would fall together).
 */
final class PrefixHasher {

  static final String DOMAIN = "halcyon kv prefix 1";

  private final MessageDigest sha256 = sha256();
  private final int blockSize;
  private final byte[] link;
  private final ByteBuffer linkIds;

  PrefixHasher(int blockSize) {
    this.blockSize = blockSize;
    this.link = new byte[BlockHash.BYTES + Integer.BYTES * blockSize];
    this.linkIds = ByteBuffer.wrap(link).order(ByteOrder.LITTLE_ENDIAN);
  }

  /** The hash before the first block. */
  BlockHash root(String salt) {
    sha256.update(DOMAIN.getBytes(StandardCharsets.UTF_8));
    sha256.update((byte) (salt == null ? 0 : 1));
    if (salt != null) {
      ByteBuffer units =
          ByteBuffer.allocate(Character.BYTES * salt.length()).order(ByteOrder.LITTLE_ENDIAN);
      units.asCharBuffer().put(salt);
      sha256.update(units.array());
    }
    return BlockHash.of(sha256.digest());
  }

  /** The hash of the prefix that ends with block {@code index}. */
  BlockHash next(BlockHash previous, TokenSource tokens, int index) {
    previous.writeTo(link);
    linkIds.position(BlockHash.BYTES);
    int first = index * blockSize;
    for (int i = 0; i < blockSize; i++) {
      linkIds.putInt(tokens.token(first + i));
    }
    return BlockHash.of(sha256.digest(link));
  }

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("Every Java platform has SHA-256; this one hasn't", e);
    }
  }
}
