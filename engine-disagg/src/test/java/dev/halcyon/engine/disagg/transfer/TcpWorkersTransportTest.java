package dev.halcyon.engine.disagg.transfer;

import static dev.halcyon.engine.disagg.Waiting.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.disagg.Leaks;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvLayout;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvTransport;
import java.util.Collections;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** What holds over TCP, with workers, and what becomes of the pieces that these hold. */
class TcpWorkersTransportTest extends TcpTransportTest {

  private static final int WORKERS = 2;

  /** A token's keys and values of a layer have 128 KiB here: 80 pieces for 160 tokens. */
  private static final KvLayout LARGE = new KvLayout("model-a", "F32", 4, 4, 16, 1024, 1);

  private static final int TOKENS = 160;
  private static final int WINDOW = 8;

  private final Leaks before = Leaks.since();

  /** Opened when workers may go on that stand at it. */
  private final CountDownLatch gate = new CountDownLatch(1);

  private final AtomicInteger standing = new AtomicInteger();

  @Override
  int workers() {
    return WORKERS;
  }

  @AfterEach
  void nothingIsLeft() {
    gate.countDown();
    generation.close();
    context.close();
    before.awaitNoThreads();
    before.awaitNoSockets();
    assertNoBufferInUse();
  }

  private void stand() {
    standing.incrementAndGet();
    try {
      gate.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** A prompt whose pieces hold all workers of the context side up. */
  private FakeSource standingSource() {
    return new FakeSource(LARGE, TOKENS).onRead(this::stand);
  }

  private FakeSink standingSink() {
    return new FakeSink(LARGE, TOKENS, 0).onWrite(this::stand);
  }

  private void awaitAllStanding() {
    await("all workers stand", () -> standing.get() >= WORKERS);
  }

  private static void awaitInUse(KvTransport transport, int buffers) {
    await(
        buffers + " buffers are in use",
        SOON,
        () -> ((TcpTransport) transport).buffersInUse() == buffers);
  }

  /** Those that wait are never read, and the closed transport has none of their memory left. */
  @Test
  void closingWhilePiecesAreReadAndWait() throws Exception {
    FakeSource source = standingSource();
    FakeSink sink = new FakeSink(LARGE, TOKENS, 0);
    generation.fetch(context.offer(source).descriptor(), sink);
    awaitAllStanding();
    awaitInUse(context, WINDOW);
    CompletableFuture<Void> closing = CompletableFuture.runAsync(context::close);
    assertThat(soon(source.ended())).isEqualTo("CLOSED");
    assertThat(soon(sink.ended()).reason()).isIn(Reason.CLOSED, Reason.PEER_LOST);
    gate.countDown();
    soon(closing);
    assertThat(standing).hasValue(WORKERS);
    assertThat(sink.writes()).isZero();
    assertNoBufferInUse();
  }

  @Test
  void closingWhilePiecesAreHandedOverAndWait() throws Exception {
    FakeSource source = new FakeSource(LARGE, TOKENS);
    FakeSink sink = standingSink();
    generation.fetch(context.offer(source).descriptor(), sink);
    awaitAllStanding();
    awaitInUse(generation, WINDOW);
    CompletableFuture<Void> closing = CompletableFuture.runAsync(generation::close);
    assertThat(soon(sink.ended()).reason()).isEqualTo(Reason.CLOSED);
    assertThat(soon(source.ended())).isIn("CLOSED", "CANCELLED", "PEER_LOST");
    gate.countDown();
    soon(closing);
    assertThat(standing).hasValue(WORKERS);
    assertNoBufferInUse();
  }

  /** A source may answer once the transport is gone; then nobody is left to send it. */
  @Test
  void aPieceThatIsReadWhenAllIsClosed() throws Exception {
    FakeSource source = new FakeSource(LARGE, TOKENS).holding();
    generation.fetch(context.offer(source).descriptor(), new FakeSink(LARGE, TOKENS, 0));
    awaitInUse(context, WINDOW);
    generation.close();
    context.close();
    source.answer();
    assertNoBufferInUse();
  }

  @Test
  void cancellingWhilePiecesWaitToBeRead() throws Exception {
    FakeSource first = standingSource();
    FakeSink firstSink = new FakeSink(LARGE, TOKENS, 0);
    generation.fetch(context.offer(first).descriptor(), firstSink);
    awaitAllStanding();
    AtomicInteger reads = new AtomicInteger();
    FakeSource source = new FakeSource(LARGE, TOKENS).onRead(reads::incrementAndGet);
    FakeSink sink = new FakeSink(LARGE, TOKENS, 0);
    KvFetch fetch = generation.fetch(context.offer(source).descriptor(), sink);
    awaitInUse(context, 2 * WINDOW);
    fetch.cancel(new KvTransferException(Reason.CANCELLED, "test"));
    assertThat(soon(source.ended())).isEqualTo("CANCELLED");
    gate.countDown();
    assertThat(soon(firstSink.ended())).isNull();
    firstSink.requireComplete();
    assertNothingOpen();
    assertNoBufferInUse();
    assertThat(reads).hasValue(0);
    assertThat(sink.writes()).isZero();
  }

  @Test
  void withdrawingWhilePiecesAreReadAndWait() throws Exception {
    FakeSource source = standingSource();
    FakeSink sink = new FakeSink(LARGE, TOKENS, 0);
    KvOffer offer = context.offer(source);
    generation.fetch(offer.descriptor(), sink);
    awaitAllStanding();
    offer.withdraw(new KvTransferException(Reason.CANCELLED, "given up here"));
    assertThat(soon(sink.ended()).reason()).isEqualTo(Reason.CANCELLED);
    gate.countDown();
    assertNothingOpen();
    assertNoBufferInUse();
    assertThat(standing).hasValue(WORKERS);
    assertThat(sink.writes()).isZero();
  }

  @Test
  void cancellingWhilePiecesWaitToBeChecked() throws Exception {
    FakeSink first = standingSink();
    generation.fetch(context.offer(new FakeSource(LARGE, TOKENS)).descriptor(), first);
    awaitAllStanding();
    FakeSource source = new FakeSource(LARGE, TOKENS);
    FakeSink sink = new FakeSink(LARGE, TOKENS, 0);
    KvFetch fetch = generation.fetch(context.offer(source).descriptor(), sink);
    awaitInUse(generation, 2 * WINDOW);
    fetch.cancel(new KvTransferException(Reason.CANCELLED, "test"));
    assertThat(soon(source.ended())).isEqualTo("CANCELLED");
    gate.countDown();
    assertThat(soon(first.ended())).isNull();
    first.requireComplete();
    assertNothingOpen();
    assertNoBufferInUse();
    assertThat(sink.writes()).isZero();
  }

  /** A piece is expected no more when it came, so that a peer can't have others take memory. */
  @Test
  void piecesThatComeAgainWhileTheFirstWaitTakeNoMemory() throws Exception {
    try (FrameProxy proxy = new FrameProxy();
        TcpTransport server = behind(proxy)) {
      proxy.transform(frame -> Collections.nCopies(frame[0] == KvFrames.DATA ? 5 : 1, frame));
      FakeSink sink = standingSink();
      generation.fetch(server.offer(new FakeSource(LARGE, TOKENS)).descriptor(), sink);
      awaitAllStanding();
      awaitInUse(generation, WINDOW);
      // A frame behind all of them has come through.
      FakeSink next = new FakeSink(5, 0);
      generation.fetch(server.offer(new FakeSource(6)).descriptor(), next);
      assertThat(soon(next.ended()).reason()).isEqualTo(Reason.REFUSED);
      assertThat(((TcpTransport) generation).buffersInUse()).isEqualTo(WINDOW);
      gate.countDown();
      assertThat(soon(sink.ended())).isNull();
      sink.requireComplete();
    }
  }
}
