package dev.halcyon.engine.executor;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.backend.KvStorage;
import dev.halcyon.engine.kvcache.BlockTable;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvProgress;
import dev.halcyon.engine.transfer.KvSource;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A prompt on offer while it is computed. Pieces are read from the blocks of its sequence as far as
 * that has come, and wait while it has not, or is paused. Where the cache allows it, any thread
 * reads those that a step under way has written already; whoever takes the blocks away waits for
 * the pieces that are being read, which is short. Once the prompt is whole a pin takes over.
 */
final class GrowingPrompt implements KvSource {

  private static final Logger LOG = LoggerFactory.getLogger(GrowingPrompt.class);

  private final KvManifest manifest;
  private final KvStorage storage;
  private final TransferMailbox mailbox;
  private final Consumer<KvTransferException> onLost;
  private final List<Runnable> waiting = new ArrayList<>();

  /** Held for reading while a piece is read, for writing while blocks are taken away. */
  private final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();

  private final CacheView view;
  private KvOffer offer;

  /** The sequence's, whatever it has written; set before {@link #readable}. */
  private volatile int[] blocks = new int[0];

  /** What can be read now. */
  private volatile KvProgress readable = KvProgress.of(0);

  /** What could be read once, which a pause does not take back. */
  private volatile KvProgress reached = KvProgress.of(0);

  /** Serves it from then on. */
  private volatile KvSource pin;

  private volatile KvTransferException ended;

  /**
   * @param onLost told by the mailbox when its taker gives it up, or is lost
   */
  GrowingPrompt(
      KvManifest manifest,
      KvStorage storage,
      TransferMailbox mailbox,
      Consumer<KvTransferException> onLost) {
    this.manifest = manifest;
    this.storage = storage;
    this.view = new CacheView(storage);
    this.mailbox = mailbox;
    this.onLost = onLost;
  }

  /** What stands between this and its taker; to be set before anything else. */
  void offeredAs(KvOffer newOffer) {
    offer = newOffer;
  }

  KvOffer offer() {
    return offer;
  }

  /** Its blocks are about to be given back, or to be exchanged for others. */
  void suspend() {
    exclusively(
        () -> {
          readable = KvProgress.of(0);
          blocks = new int[0];
        });
  }

  /** Some more is written, as {@link #reach} is told, and whoever waits for that hears of it. */
  void advance(BlockTable table, KvProgress progress) {
    reach(table, progress);
    tell();
  }

  /**
   * Some more is written, and there to be read. One call at a time, and none while blocks are taken
   * away; {@link #tell} is to follow.
   *
   * @param table the sequence's blocks
   * @param progress what is in them, all of it
   */
  void reach(BlockTable table, KvProgress progress) {
    if (blocks.length != table.size()) {
      blocks = Arrays.copyOf(table.blocks(), table.size());
    }
    readable = progress;
    int whole = Math.max(reached.tokens(), progress.tokens());
    reached =
        new KvProgress(whole, progress.layers(), Math.max(whole, progress.ahead())).later(reached);
  }

  /** Has those who wait look again how far this has come. */
  void tell() {
    retry();
    try {
      offer.advanced();
    } catch (RuntimeException e) {
      LOG.error("A KV transport failed to say that a prompt is being computed", e);
    }
  }

  /** Has a pin of the same blocks serve it, for which its view was opened. */
  void settle(KvSource whole) {
    exclusively(() -> pin = whole);
    tell();
  }

  /** Ends it from the engine's side. */
  void withdraw(KvTransferException why) {
    stop(why);
    offer.withdraw(why);
  }

  private void stop(KvTransferException why) {
    exclusively(() -> ended = why);
    retry();
  }

  private void exclusively(Runnable change) {
    lock.writeLock().lock();
    try {
      change.run();
    } finally {
      lock.writeLock().unlock();
    }
  }

  @Override
  public KvManifest manifest() {
    return manifest;
  }

  @Override
  public KvProgress progress() {
    return pin != null ? KvProgress.of(manifest.tokens()) : reached;
  }

  @Override
  public String order() {
    return storage.storedOrder();
  }

  @Override
  public CacheView view() {
    return view;
  }

  @Override
  public void read(KvPiece piece, ByteBuffer to, Consumer<KvTransferException> done) {
    piece.requireReadable(manifest, to);
    if (storage.exportsOnAnyThread()) {
      readOrWait(piece, to, done);
    } else {
      mailbox.post(() -> readOrWait(piece, to, done));
    }
  }

  private void readOrWait(KvPiece piece, ByteBuffer to, Consumer<KvTransferException> done) {
    KvSource whole;
    KvTransferException error = null;
    lock.readLock().lock();
    try {
      whole = pin;
      if (whole == null) {
        error = ended;
        if (error == null) {
          if (waits(piece, () -> readOrWait(piece, to, done))) {
            return;
          }
          error = CacheView.export(storage, blocks, piece, to);
        }
      }
    } finally {
      lock.readLock().unlock();
    }
    if (whole != null) {
      whole.read(piece, to, done);
    } else {
      done.accept(error);
    }
  }

  /** Whether a piece can't be read yet; then something is done when it may be. */
  private boolean waits(KvPiece piece, Runnable again) {
    synchronized (waiting) {
      boolean early = !readable.contains(piece);
      if (early) {
        waiting.add(again);
      }
      return early;
    }
  }

  /** Looks at what waits again, between other things that there are to do. */
  private void retry() {
    List<Runnable> again;
    synchronized (waiting) {
      again = List.copyOf(waiting);
      waiting.clear();
    }
    again.forEach(mailbox::post);
  }

  @Override
  public void end(KvTransferException error) {
    mailbox.post(
        () -> {
          if (pin != null) {
            pin.end(error);
          } else if (ended == null) {
            KvTransferException why =
                error != null
                    ? error
                    : new KvTransferException(
                        Reason.CORRUPT, "The prompt was taken before it was computed");
            stop(why);
            onLost.accept(why);
          }
        });
  }
}
