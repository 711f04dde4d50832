package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.transfer.KvLayout;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvSource;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;

/**
 * A prompt without an engine. Its bytes are a function of where they stand, so that a sink can tell
 * whether each arrived at its place.
 */
final class FakeSource implements KvSource {

  /** 3 layers of 2 heads of 4 elements of 2 bytes: a token's keys and values have 32 bytes. */
  static final KvLayout LAYOUT = new KvLayout("model-a", "BF16", 2, 3, 2, 4, 1);

  private final KvManifest manifest;
  private final Queue<Runnable> held = new ArrayDeque<>();
  private boolean holds;
  private String order;
  private Runnable onRead = () -> {};
  private final CompletableFuture<String> ended = new CompletableFuture<>();
  private final CountDownLatch reading = new CountDownLatch(1);

  FakeSource(int tokens) {
    this(LAYOUT, tokens);
  }

  FakeSource(KvLayout layout, int tokens) {
    this.manifest = KvManifest.of(layout, new int[tokens]);
  }

  /** Its stored pieces have every bit turned. */
  FakeSource ordered(String name) {
    order = name;
    return this;
  }

  @Override
  public String order() {
    return order;
  }

  /** Does something first whenever it is asked for a piece, on the thread that asks. */
  FakeSource onRead(Runnable first) {
    onRead = first;
    return this;
  }

  /** Answers nothing until {@link #answer}. */
  synchronized FakeSource holding() {
    holds = true;
    return this;
  }

  void answer() {
    while (true) {
      Runnable next;
      synchronized (this) {
        holds = false;
        next = held.poll();
      }
      if (next == null) {
        return;
      }
      next.run();
    }
  }

  void awaitReading() throws InterruptedException {
    reading.await();
  }

  /** "done", or the reason of the error that ended it. */
  CompletableFuture<String> ended() {
    return ended;
  }

  /** What stands at a place: keys are kind 0, values kind 1. */
  static byte expected(int layer, int kind, int token, int index) {
    return (byte) (layer * 71 + kind * 37 + token * 13 + index * 3 + 1);
  }

  @Override
  public KvManifest manifest() {
    return manifest;
  }

  @Override
  public void read(KvPiece piece, ByteBuffer to, Consumer<KvTransferException> done) {
    piece.requireWithin(manifest);
    onRead.run();
    Runnable answer =
        () -> {
          int half = manifest.layout().tokenBytes() / 2;
          for (int kind = 0; kind < 2; kind++) {
            for (int i = 0; i < piece.count(); i++) {
              for (int b = 0; b < half; b++) {
                byte plain = expected(piece.layer(), kind, piece.firstToken() + i, b);
                to.put(piece.stored() ? (byte) ~plain : plain);
              }
            }
          }
          done.accept(null);
        };
    synchronized (this) {
      if (holds) {
        held.add(answer);
        reading.countDown();
        return;
      }
    }
    answer.run();
  }

  @Override
  public void end(KvTransferException error) {
    ended.complete(error == null ? "done" : error.reason().name());
  }
}
