package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Call;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Keeps the memory in bounds that answers with logits take: what all calls together may ask for
 * until their clients have what they asked for, or are gone.
 */
final class LogitsRoom {

  private final long most;
  private final AtomicLong taken = new AtomicLong();

  /**
   * @param most bytes of logits, as float32
   */
  LogitsRoom(long most) {
    this.most = most;
  }

  /**
   * Sets room aside until the call is over.
   *
   * @throws ApiException if others have it now
   */
  void take(Call call, long bytes) {
    if (bytes == 0) {
      return;
    }
    if (taken.addAndGet(bytes) > most) {
      taken.addAndGet(-bytes);
      throw ApiException.failed(
          503,
          "out_of_memory",
          String.format(
              "There is no room for %d bytes of logits now: all requests together may have %d",
              bytes, most));
    }
    call.onOver(() -> taken.addAndGet(-bytes));
  }
}
