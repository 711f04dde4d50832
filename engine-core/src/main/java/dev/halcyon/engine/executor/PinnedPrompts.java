package dev.halcyon.engine.executor;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.kvcache.BlockTable;
import dev.halcyon.engine.kvcache.KvCacheManager;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvSource;
import dev.halcyon.engine.transfer.KvView;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Computed prompts that wait to be fetched by other engines. A pin is a table of its own that
 * shares the prompt's blocks, so that they are neither evicted nor written until it ends.
 */
final class PinnedPrompts {

  private static final Logger LOG = LoggerFactory.getLogger(PinnedPrompts.class);

  private final TransferParts parts;
  private final KvCacheManager kv;
  private final TransferMailbox mailbox;
  private final Runnable onFreed;
  private final Map<RequestHandle, Pin> pins = new LinkedHashMap<>();

  /**
   * @param onFreed called when blocks came back
   */
  PinnedPrompts(TransferParts parts, KvCacheManager kv, TransferMailbox mailbox, Runnable onFreed) {
    this.parts = parts;
    this.kv = kv;
    this.mailbox = mailbox;
    this.onFreed = onFreed;
  }

  int count() {
    return pins.size();
  }

  List<BlockTable> tables() {
    return pins.values().stream().map(pin -> pin.table).toList();
  }

  /**
   * Offers a prompt whose keys and values are all in the cache. Nothing is held if that fails.
   *
   * @param table the blocks, which stay the caller's
   * @throws KvTransferException if the transport does not take it
   */
  KvDescriptor pin(RequestHandle handle, BlockTable table, int[] prompt, long now) {
    KvManifest manifest = KvManifest.of(parts.layout(), prompt);
    Pin pin =
        new Pin(
            handle, kv.fork(table, prompt.length), manifest, new CacheView(parts.storage()), now);
    try {
      parts.storage().awaitWrites();
      pin.offer = parts.transport().offer(pin);
    } catch (KvTransferException | Error e) {
      kv.release(pin.table);
      throw e;
    } catch (RuntimeException e) {
      kv.release(pin.table);
      throw new KvTransferException(
          Reason.PEER_LOST, "The transport failed to offer the prompt: " + e.getMessage(), e);
    }
    pins.put(handle, pin);
    return pin.offer.descriptor();
  }

  /**
   * Keeps a prompt that was offered while it was computed, and is whole now.
   *
   * @param sequence whose blocks are shared
   * @param view complete from now on
   * @return what serves it from now on
   */
  KvSource take(
      RequestHandle handle,
      Sequence sequence,
      KvManifest manifest,
      KvOffer offer,
      CacheView view,
      long now) {
    parts.storage().awaitWrites();
    Pin pin = new Pin(handle, kv.fork(sequence.table(), manifest.tokens()), manifest, view, now);
    pin.offer = offer;
    pins.put(handle, pin);
    return pin;
  }

  /** Gives up what a request pinned, if anything. */
  void cancel(RequestHandle handle) {
    Pin pin = pins.get(handle);
    if (pin != null) {
      pin.withdraw(
          new KvTransferException(
              Reason.CANCELLED, "The request was cancelled where its prompt was computed"));
    }
  }

  /** Gives up pins that made no progress for too long; returns the nanoseconds until the next. */
  long reap(long now) {
    long soonest = Long.MAX_VALUE;
    for (Pin pin : List.copyOf(pins.values())) {
      long left = parts.timeoutNanos() - (now - pin.view.lastUse());
      if (left <= 0) {
        LOG.warn(
            "The prompt of request {} was not fetched in time; its KV blocks are free again",
            pin.handle.requestId());
        pin.withdraw(
            new KvTransferException(
                Reason.TIMEOUT, "The prompt's keys and values were not fetched in time"));
      } else {
        soonest = Math.min(soonest, left);
      }
    }
    return soonest;
  }

  void endAll(KvTransferException why) {
    List.copyOf(pins.values()).forEach(pin -> pin.withdraw(why));
  }

  /** One prompt on offer. What it shares is touched by the executor's thread alone. */
  private final class Pin implements KvSource {

    private final RequestHandle handle;
    private final BlockTable table;
    private final KvManifest manifest;
    private final CacheView view;
    private KvOffer offer;

    /** Null as long as it is on offer. */
    private KvTransferException ended;

    Pin(RequestHandle handle, BlockTable table, KvManifest manifest, CacheView view, long now) {
      this.handle = handle;
      this.table = table;
      this.manifest = manifest;
      this.view = view;
      view.open(Arrays.copyOf(table.blocks(), table.size()), now);
    }

    @Override
    public KvManifest manifest() {
      return manifest;
    }

    @Override
    public String order() {
      return parts.storage().storedOrder();
    }

    @Override
    public void read(KvPiece piece, ByteBuffer to, Consumer<KvTransferException> done) {
      piece.requireReadable(manifest, to);
      if (parts.storage().exportsOnAnyThread()) {
        done.accept(view.export(piece, to));
      } else {
        mailbox.post(() -> done.accept(view.export(piece, to)));
      }
    }

    @Override
    public KvView view() {
      return view;
    }

    @Override
    public void end(KvTransferException error) {
      mailbox.post(
          () -> {
            if (error != null && error.reason() != Reason.CANCELLED && ended == null) {
              LOG.warn(
                  "The prompt of request {} was not handed over: {}",
                  handle.requestId(),
                  error.getMessage());
            }
            free(error);
          });
    }

    void withdraw(KvTransferException why) {
      free(why);
      offer.withdraw(why);
    }

    private void free(KvTransferException error) {
      if (ended == null) {
        ended =
            error != null
                ? error
                : new KvTransferException(Reason.UNKNOWN, "The prompt was fetched before");
        pins.remove(handle);
        view.end(ended);
        kv.release(table);
        onFreed.run();
      }
    }
  }
}
