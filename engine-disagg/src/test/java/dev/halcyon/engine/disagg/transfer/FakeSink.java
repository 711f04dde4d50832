package dev.halcyon.engine.disagg.transfer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.transfer.KvLayout;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvSink;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/** Takes a prompt without an engine, and checks each byte and that each token comes once. */
final class FakeSink implements KvSink {

  private final KvManifest manifest;
  private final int firstToken;
  private final int[][] seen;
  private final Queue<Runnable> held = new ArrayDeque<>();
  private boolean holds;
  private int writes;
  private int storedWrites;
  private String order;
  private Runnable onWrite = () -> {};
  private AssertionError wrong;
  private final CompletableFuture<KvTransferException> ended = new CompletableFuture<>();

  FakeSink(int tokens, int firstToken) {
    this(FakeSource.LAYOUT, tokens, firstToken);
  }

  FakeSink(KvLayout layout, int tokens, int firstToken) {
    this.manifest = KvManifest.of(layout, new int[tokens]);
    this.firstToken = firstToken;
    this.seen = new int[layout.layers()][tokens];
  }

  /** Does something first whenever it is handed a piece, on the thread that hands it over. */
  FakeSink onWrite(Runnable first) {
    onWrite = first;
    return this;
  }

  /** Takes no piece until {@link #accept}. */
  synchronized FakeSink holding() {
    holds = true;
    return this;
  }

  void accept() {
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

  /** Understands stored pieces of such sources. */
  FakeSink ordered(String name) {
    order = name;
    return this;
  }

  @Override
  public String order() {
    return order;
  }

  synchronized int storedWrites() {
    return storedWrites;
  }

  synchronized int writes() {
    return writes;
  }

  /** Completed with null for a good end. */
  CompletableFuture<KvTransferException> ended() {
    return ended;
  }

  void requireComplete() {
    synchronized (this) {
      if (wrong != null) {
        throw wrong;
      }
    }
    for (int[] layer : seen) {
      for (int token = 0; token < layer.length; token++) {
        assertThat(layer[token]).as("token %d", token).isEqualTo(token < firstToken ? 0 : 1);
      }
    }
  }

  @Override
  public KvManifest manifest() {
    return manifest;
  }

  @Override
  public int firstToken() {
    return firstToken;
  }

  @Override
  public void write(KvPiece piece, ByteBuffer from, Consumer<KvTransferException> done) {
    synchronized (this) {
      writes++;
      storedWrites += piece.stored() ? 1 : 0;
    }
    onWrite.run();
    synchronized (this) {
      if (holds) {
        held.add(() -> take(piece, from, done));
        return;
      }
    }
    take(piece, from, done);
  }

  private void take(KvPiece piece, ByteBuffer from, Consumer<KvTransferException> done) {
    synchronized (this) {
      try {
        check(piece, from);
      } catch (AssertionError e) {
        wrong = e;
      }
    }
    done.accept(null);
  }

  private void check(KvPiece piece, ByteBuffer from) {
    int half = manifest.layout().tokenBytes() / 2;
    assertThat(from.remaining()).isEqualTo(piece.count() * 2 * half);
    for (int kind = 0; kind < 2; kind++) {
      for (int i = 0; i < piece.count(); i++) {
        for (int b = 0; b < half; b++) {
          byte expected = FakeSource.expected(piece.layer(), kind, piece.firstToken() + i, b);
          byte got = from.get();
          byte actual = piece.stored() ? (byte) ~got : got;
          // Millions of bytes: an assertion for each would take seconds.
          if (actual != expected) {
            assertThat(actual).as("byte %d of %s", b, piece).isEqualTo(expected);
          }
        }
      }
    }
    for (int i = 0; i < piece.count(); i++) {
      seen[piece.layer()][piece.firstToken() + i]++;
    }
  }

  @Override
  public void end(KvTransferException error) {
    ended.complete(error);
  }
}
