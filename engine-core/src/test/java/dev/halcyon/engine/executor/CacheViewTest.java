package dev.halcyon.engine.executor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.backend.KvRange;
import dev.halcyon.engine.backend.KvShape;
import dev.halcyon.engine.backend.KvStorage;
import dev.halcyon.engine.transfer.KvPiece;
import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Nothing is copied once a view has ended, and it ends only when nobody copies. */
class CacheViewTest {

  private static final KvRange ALL = new KvRange(0, 1, 0, 1);
  private static final KvTransferException WHY =
      new KvTransferException(Reason.CANCELLED, "given up");

  /** A cache to which copies take until they may end. */
  private static final class SlowStorage implements KvStorage {

    private final CountDownLatch copying = new CountDownLatch(1);
    private final CountDownLatch mayEnd = new CountDownLatch(1);
    private volatile boolean fails;
    private volatile int copies;

    @Override
    public KvShape shape() {
      return new KvShape(1, 1, 1, 1, 1);
    }

    @Override
    public void copyBlock(int from, int to) {
      throw new UnsupportedOperationException();
    }

    @Override
    public void copyTokens(KvStorage from, int[] fromBlocks, int[] blocks, KvRange range) {
      copying.countDown();
      try {
        mayEnd.await();
      } catch (InterruptedException e) {
        throw new AssertionError(e);
      }
      if (fails) {
        throw new IllegalStateException("broken");
      }
      copies++;
    }

    @Override
    public void close() {}
  }

  private final SlowStorage target = new SlowStorage();
  private final CacheView view = new CacheView(new SlowStorage());

  @BeforeEach
  void open() {
    assertThat(view.complete()).isFalse();
    view.open(new int[] {0}, 0);
    assertThat(view.complete()).isTrue();
  }

  @Test
  void endingWaitsForACopyThatIsUnderWay() throws Exception {
    CompletableFuture<Void> copy = CompletableFuture.runAsync(this::copy);
    target.copying.await();
    CompletableFuture<Void> end = CompletableFuture.runAsync(() -> view.end(WHY));
    assertThatThrownBy(() -> end.get(100, TimeUnit.MILLISECONDS))
        .isInstanceOf(TimeoutException.class);
    target.mayEnd.countDown();
    end.get(10, TimeUnit.SECONDS);
    assertThat(target.copies).isEqualTo(1);
    copy.get(10, TimeUnit.SECONDS);
  }

  @Test
  void nothingIsCopiedAfterTheEnd() {
    target.mayEnd.countDown();
    view.end(WHY);
    view.end(new KvTransferException(Reason.TIMEOUT, "again"));
    KvTransferException refused = catchThrowableOfType(KvTransferException.class, this::copy);
    assertThat(refused.reason()).isEqualTo(Reason.CANCELLED);
    assertThat(refused).hasMessage("given up");
    assertThat(target.copies).isZero();
  }

  @Test
  void aCopyThatFailsHoldsNothingUp() {
    target.mayEnd.countDown();
    target.fails = true;
    assertThatThrownBy(this::copy).hasMessage("broken");
    view.end(WHY);
  }

  @Test
  void copiesAreProgress() {
    target.mayEnd.countDown();
    long before = System.nanoTime();
    assertThat(view.lastUse()).isZero();
    copy();
    assertThat(view.lastUse() - before).isNotNegative();
  }

  @Test
  void piecesAreNotReadAfterTheEndEither() {
    view.end(WHY);
    assertThat(view.export(new KvPiece(0, 0, 1), ByteBuffer.allocate(8))).isSameAs(WHY);
  }

  private void copy() {
    view.copyTo(target, new int[] {0}, ALL);
  }
}
