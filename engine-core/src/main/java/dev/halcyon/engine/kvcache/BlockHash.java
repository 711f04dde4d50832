package dev.halcyon.engine.kvcache;

import java.nio.ByteBuffer;

/** A SHA-256 value as four big-endian longs. */
record BlockHash(long a, long b, long c, long d) {

  static final int BYTES = 32;

  static BlockHash of(byte[] digest) {
    ByteBuffer bytes = ByteBuffer.wrap(digest);
    return new BlockHash(bytes.getLong(), bytes.getLong(), bytes.getLong(), bytes.getLong());
  }

  /** Writes the 32 bytes in the digest's order, big-endian whatever the order of the buffer. */
  void writeTo(byte[] target) {
    ByteBuffer.wrap(target).putLong(a).putLong(b).putLong(c).putLong(d);
  }

  /** Digest bits are uniform: the low ones of any word do for a table of a power of two. */
  int bucket(int mask) {
    return (int) d & mask;
  }
}
