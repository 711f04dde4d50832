package dev.halcyon.engine.executor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.backend.KvShape;
import dev.halcyon.engine.backend.KvStorage;
import dev.halcyon.engine.kvcache.BlockTable;
import dev.halcyon.engine.kvcache.KvCacheManager;
import dev.halcyon.engine.kvcache.TokenSource;
import dev.halcyon.engine.transfer.KvLayout;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvProgress;
import dev.halcyon.engine.transfer.KvSource;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Pieces of a prompt are read as soon as they are written, and never from blocks of others. */
@Timeout(30)
class GrowingPromptTest {

  /** 8 tokens of 2 layers, a byte for keys and one for values each. */
  private static final KvManifest MANIFEST =
      KvManifest.of(new KvLayout("model", "I8", 1, 2, 1, 1, 1), new int[] {1, 2, 3, 4, 5, 6, 7, 8});

  private static final KvTransferException WHY =
      new KvTransferException(Reason.CANCELLED, "given up");

  /** A cache whose bytes are the number of the block that they lie in. */
  private static final class Blocks implements KvStorage {

    private final boolean anyThread;
    private final CountDownLatch reading = new CountDownLatch(1);
    private volatile CountDownLatch mayEnd = new CountDownLatch(0);

    Blocks(boolean anyThread) {
      this.anyThread = anyThread;
    }

    @Override
    public KvShape shape() {
      return new KvShape(2, 16, 2, 1, 1);
    }

    @Override
    public void copyBlock(int from, int to) {
      throw new UnsupportedOperationException();
    }

    @Override
    public boolean exportsOnAnyThread() {
      return anyThread;
    }

    @Override
    public void exportTokens(int layer, int[] blocks, int firstToken, int count, ByteBuffer to) {
      reading.countDown();
      try {
        mayEnd.await();
      } catch (InterruptedException e) {
        throw new AssertionError(e);
      }
      for (int token = firstToken; token < firstToken + count; token++) {
        to.put((byte) blocks[token / 2]).put((byte) blocks[token / 2]);
      }
    }

    @Override
    public void close() {}
  }

  /** Tokens that are there as far as a test says. */
  private static final class Tokens implements TokenSource {
    @Override
    public int size() {
      return 8;
    }

    @Override
    public int token(int index) {
      return index;
    }
  }

  private final KvCacheManager kv = new KvCacheManager(16, 2, false);
  private final TransferMailbox mailbox = new TransferMailbox(() -> {});
  private final List<KvTransferException> lost = new ArrayList<>();
  private final List<KvProgress> told = new CopyOnWriteArrayList<>();
  private Blocks storage;
  private GrowingPrompt prompt;
  private BlockTable table;

  @BeforeEach
  void open() {
    open(new Blocks(true));
  }

  private void open(Blocks blocks) {
    storage = blocks;
    prompt = new GrowingPrompt(MANIFEST, storage, mailbox, lost::add);
    prompt.offeredAs(
        new KvOffer() {
          @Override
          public KvDescriptor descriptor() {
            throw new UnsupportedOperationException();
          }

          @Override
          public void advanced() {
            told.add(prompt.progress());
          }

          @Override
          public void withdraw(KvTransferException why) {}
        });
    table = kv.open(new Tokens(), 8, null, false);
    kv.grow(table, 4);
  }

  /** What came of a piece: its bytes, or why there are none. */
  private CompletableFuture<List<Integer>> read(KvPiece piece) {
    CompletableFuture<List<Integer>> result = new CompletableFuture<>();
    ByteBuffer to = ByteBuffer.allocate(16);
    prompt.read(
        piece,
        to,
        error -> {
          List<Integer> bytes = new ArrayList<>();
          for (to.flip(); to.hasRemaining(); ) {
            bytes.add((int) to.get());
          }
          if (error == null) {
            result.complete(bytes);
          } else {
            result.completeExceptionally(error);
          }
        });
    return result;
  }

  private void requireRefused(CompletableFuture<?> piece, KvTransferException why) {
    assertThatThrownBy(piece::join).hasCause(why);
  }

  @Test
  void aLayerCanBeReadWhileTheNextIsComputed() {
    KvPiece first = new KvPiece(0, 0, 4);
    CompletableFuture<List<Integer>> early = read(first);
    CompletableFuture<List<Integer>> second = read(new KvPiece(1, 0, 2));
    prompt.advance(table, new KvProgress(0, 1, 4));
    int[] blocks = table.blocks();
    assertThat(read(first).join())
        .containsExactly(
            blocks[0], blocks[0], blocks[0], blocks[0], blocks[1], blocks[1], blocks[1], blocks[1]);
    assertThat(early).as("between two steps").isNotDone();
    mailbox.run(10);
    assertThat(early.join()).hasSize(8);
    assertThat(second).isNotDone();
    prompt.advance(table, KvProgress.of(4));
    mailbox.run(10);
    assertThat(second.join()).containsOnly(blocks[0]).hasSize(4);
    assertThat(told).containsExactly(new KvProgress(0, 1, 4), KvProgress.of(4));
  }

  @Test
  void whereOnlyTheOwnerMayReadItDoesSoBetweenSteps() {
    open(new Blocks(false));
    prompt.advance(table, KvProgress.of(4));
    CompletableFuture<List<Integer>> piece = read(new KvPiece(0, 0, 1));
    assertThat(piece).isNotDone();
    mailbox.run(10);
    assertThat(piece.join()).hasSize(2);
  }

  @Test
  void aPauseTakesTheBlocksAwayButNotWhatWasSaid() {
    prompt.advance(table, KvProgress.of(4));
    prompt.suspend();
    kv.release(table);
    BlockTable others = kv.open(new Tokens(), 8, null, false);
    kv.grow(others, 4);
    CompletableFuture<List<Integer>> piece = read(new KvPiece(0, 2, 2));
    BlockTable again = kv.open(new Tokens(), 8, null, false);
    kv.grow(again, 4);
    prompt.advance(again, new KvProgress(0, 1, 2));
    mailbox.run(10);
    assertThat(piece).as("not written again yet").isNotDone();
    assertThat(prompt.progress().tokens()).isEqualTo(4);
    prompt.advance(again, new KvProgress(2, 1, 4));
    mailbox.run(10);
    assertThat(piece.join()).containsOnly(again.blocks()[1]).hasSize(4);
    prompt.advance(again, KvProgress.of(4));
    assertThat(prompt.progress()).isEqualTo(KvProgress.of(4));
  }

  @Test
  void takingBlocksAwayWaitsForWhoeverReadsThem() throws Exception {
    requireWaits(GrowingPrompt::suspend);
    open(new Blocks(true));
    requireWaits(growing -> growing.withdraw(WHY));
    open(new Blocks(true));
    requireWaits(growing -> growing.settle(null));
  }

  private void requireWaits(Consumer<GrowingPrompt> end) throws Exception {
    prompt.advance(table, KvProgress.of(4));
    storage.mayEnd = new CountDownLatch(1);
    CompletableFuture<List<Integer>> piece =
        CompletableFuture.supplyAsync(() -> read(new KvPiece(0, 0, 4)).join());
    storage.reading.await();
    CompletableFuture<Void> ending = CompletableFuture.runAsync(() -> end.accept(prompt));
    assertThatThrownBy(() -> ending.get(100, TimeUnit.MILLISECONDS))
        .isInstanceOf(TimeoutException.class);
    storage.mayEnd.countDown();
    ending.get(10, TimeUnit.SECONDS);
    assertThat(piece.get(10, TimeUnit.SECONDS)).hasSize(8);
  }

  @Test
  void thoseWhoWaitHearOfTheEnd() {
    CompletableFuture<List<Integer>> piece = read(new KvPiece(0, 0, 1));
    prompt.withdraw(WHY);
    mailbox.run(10);
    requireRefused(piece, WHY);
    requireRefused(read(new KvPiece(0, 0, 1)), WHY);
    assertThat(lost).as("it is the engine's own wish").isEmpty();
  }

  @Test
  void aTakerThatGivesUpIsLostOnce() {
    prompt.end(WHY);
    prompt.end(new KvTransferException(Reason.TIMEOUT, "again"));
    assertThat(lost).as("told by the mailbox").isEmpty();
    mailbox.run(10);
    assertThat(lost).containsExactly(WHY);
    requireRefused(read(new KvPiece(0, 0, 1)), WHY);
  }

  @Test
  void onceItIsWholeAPinServesIt() {
    CompletableFuture<List<Integer>> piece = read(new KvPiece(1, 7, 1));
    prompt.advance(table, KvProgress.of(4));
    List<KvTransferException> ends = new ArrayList<>();
    prompt.settle(
        new KvSource() {
          @Override
          public KvManifest manifest() {
            return MANIFEST;
          }

          @Override
          public void read(KvPiece wanted, ByteBuffer to, Consumer<KvTransferException> done) {
            to.put((byte) 42);
            done.accept(null);
          }

          @Override
          public void end(KvTransferException error) {
            ends.add(error);
          }
        });
    mailbox.run(10);
    assertThat(piece.join()).containsExactly(42);
    assertThat(read(new KvPiece(0, 0, 1)).join()).containsExactly(42);
    assertThat(prompt.progress()).isEqualTo(KvProgress.of(8));
    prompt.end(null);
    mailbox.run(10);
    assertThat(ends).containsExactly((KvTransferException) null);
    assertThat(lost).isEmpty();
  }
}
