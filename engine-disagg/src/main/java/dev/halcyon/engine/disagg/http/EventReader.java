package dev.halcyon.engine.disagg.http;

import dev.halcyon.engine.disagg.server.EventStream;
import java.io.ByteArrayOutputStream;
import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow.Subscription;
import java.util.function.Consumer;

/**
 * Reads a body of server-sent events, of one line and a bounded size each, as they come. Comments
 * and other fields than their data are passed over. Its body is empty, and there at the end.
 */
final class EventReader implements BodySubscriber<byte[]> {

  private static final byte[] DATA = EventStream.FIELD.getBytes(StandardCharsets.UTF_8);

  private final int maxBytes;
  private final Consumer<byte[]> onEvent;
  private final CompletableFuture<byte[]> end = new CompletableFuture<>();
  private final ByteArrayOutputStream line = new ByteArrayOutputStream();
  private Subscription subscription;

  /**
   * @param maxBytes of an event; a larger one is an error
   * @param onEvent gets the data of each; must not throw
   */
  EventReader(int maxBytes, Consumer<byte[]> onEvent) {
    this.maxBytes = maxBytes;
    this.onEvent = onEvent;
  }

  @Override
  public CompletionStage<byte[]> getBody() {
    return end;
  }

  @Override
  public void onSubscribe(Subscription newSubscription) {
    subscription = newSubscription;
    newSubscription.request(Long.MAX_VALUE);
  }

  @Override
  public void onNext(List<ByteBuffer> buffers) {
    for (ByteBuffer buffer : buffers) {
      byte[] bytes = new byte[buffer.remaining()];
      buffer.get(bytes);
      take(bytes);
    }
  }

  @Override
  public void onError(Throwable failure) {
    end.completeExceptionally(failure);
  }

  @Override
  public void onComplete() {
    end.complete(new byte[0]);
  }

  private void take(byte[] bytes) {
    int from = 0;
    for (int i = 0; i < bytes.length && !end.isDone(); i++) {
      if (bytes[i] == '\n') {
        append(bytes, from, i);
        endLine();
        from = i + 1;
      }
    }
    append(bytes, from, bytes.length);
  }

  private void append(byte[] bytes, int from, int to) {
    if (end.isDone()) {
      return;
    }
    if ((long) line.size() + to - from > (long) maxBytes + DATA.length) {
      end.completeExceptionally(
          PrefillClient.unusable("an event of more than " + maxBytes + " bytes"));
      subscription.cancel();
    } else {
      line.write(bytes, from, to - from);
    }
  }

  private void endLine() {
    byte[] text = line.toByteArray();
    line.reset();
    if (!end.isDone() && text.length >= DATA.length && startsWithData(text)) {
      onEvent.accept(Arrays.copyOfRange(text, DATA.length, text.length));
    }
  }

  private static boolean startsWithData(byte[] text) {
    return Arrays.equals(text, 0, DATA.length, DATA, 0, DATA.length);
  }
}
