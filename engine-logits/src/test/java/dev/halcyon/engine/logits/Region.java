package dev.halcyon.engine.logits;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.function.Consumer;

/**
 * One allocation: bytes that hold NaN in every element type until they are written and once they
 * are freed, and that notice when they are used after that, or freed twice or while in use.
 */
final class Region {

  /** Bytes of which any two, and any four, are a NaN. */
  private static final byte POISON = (byte) 0xFF;

  private final Account account;
  private final byte[] bytes;
  private int users;
  private boolean closed;

  Region(Account account, long size) {
    this.account = account;
    this.bytes = new byte[Math.toIntExact(size)];
    Arrays.fill(bytes, POISON);
  }

  int size() {
    return bytes.length;
  }

  /** Lets an action see the bytes, which stay until it returns. */
  void use(Consumer<ByteBuffer> action) {
    synchronized (this) {
      if (closed) {
        account.violation("used after it was freed");
        throw new IllegalStateException("used after it was freed");
      }
      users++;
    }
    try {
      action.accept(ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN));
    } finally {
      synchronized (this) {
        users--;
      }
    }
  }

  synchronized void close() {
    if (closed) {
      account.closedAgain();
      return;
    }
    if (users > 0) {
      account.violation("freed while in use");
    }
    closed = true;
    Arrays.fill(bytes, POISON);
    account.release(bytes.length);
  }
}
