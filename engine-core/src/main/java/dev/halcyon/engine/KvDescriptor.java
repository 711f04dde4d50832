package dev.halcyon.engine;

import java.util.Arrays;

/**
 * Where and under what name the keys and values of a computed prompt wait to be fetched. Only the
 * transport that made it can read it; to all others it is opaque bytes. Immutable.
 */
public final class KvDescriptor {

  /** Most bytes. */
  public static final int MAX_BYTES = 4096;

  private final byte[] bytes;

  /**
   * @param bytes 1 to {@link #MAX_BYTES}; copied
   * @throws IllegalArgumentException if there are none, or too many
   */
  public KvDescriptor(byte[] bytes) {
    if (bytes.length == 0 || bytes.length > MAX_BYTES) {
      throw new IllegalArgumentException(
          "kvDescriptor must have 1 to " + MAX_BYTES + " bytes, has " + bytes.length);
    }
    this.bytes = bytes.clone();
  }

  /** The bytes, a copy. */
  public byte[] bytes() {
    return bytes.clone();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof KvDescriptor descriptor && Arrays.equals(descriptor.bytes, bytes);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(bytes);
  }

  /** Says nothing of the content, which lets whoever has it fetch a prompt. */
  @Override
  public String toString() {
    return "KvDescriptor[" + bytes.length + " bytes]";
  }
}
