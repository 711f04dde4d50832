package dev.halcyon.engine.executor;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvSource;
import dev.halcyon.engine.transfer.KvView;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Prompts that are on offer while they are computed. They own no blocks: pieces are read from those
 * of the sequence, as far as it has come, and wait while it has not, or is paused. Once the prompt
 * is computed a pin takes over.
 */
final class ComputingPrompts {

  private static final Logger LOG = LoggerFactory.getLogger(ComputingPrompts.class);

  private final TransferParts parts;
  private final TransferMailbox mailbox;
  private final Map<RequestHandle, Growing> growing = new LinkedHashMap<>();
  private final List<Lost> lost = new ArrayList<>();

  /** A prompt that is computed for nobody any more. */
  record Lost(RequestHandle handle, KvTransferException error) {}

  ComputingPrompts(TransferParts parts, TransferMailbox mailbox) {
    this.parts = parts;
    this.mailbox = mailbox;
  }

  /**
   * Offers a prompt that is about to be computed. Nothing is held if that fails.
   *
   * @throws KvTransferException if the transport does not take it
   */
  KvDescriptor offer(Sequence sequence) {
    Growing prompt = new Growing(sequence);
    try {
      prompt.offer = parts.transport().offer(prompt);
    } catch (KvTransferException e) {
      throw e;
    } catch (RuntimeException e) {
      throw new KvTransferException(
          Reason.PEER_LOST, "The transport failed to offer the prompt: " + e.getMessage(), e);
    }
    growing.put(sequence.request().handle(), prompt);
    return prompt.offer.descriptor();
  }

  /** Some more of a sequence is computed. */
  void advanced(Sequence sequence) {
    Growing prompt = growing.get(sequence.request().handle());
    if (prompt != null) {
      prompt.reached = Math.max(prompt.reached, sequence.computed());
      prompt.retry();
      try {
        prompt.offer.advanced();
      } catch (RuntimeException e) {
        LOG.error("A KV transport failed to say that a prompt is being computed", e);
      }
    }
  }

  /** Has a pin serve a prompt that is wholly computed. */
  KvDescriptor settle(RequestHandle handle, PinnedPrompts pinned, Sequence sequence, long now) {
    Growing prompt = growing.get(handle);
    prompt.pin = pinned.take(handle, sequence, prompt.manifest, prompt.offer, now);
    growing.remove(handle);
    prompt.retry();
    return prompt.offer.descriptor();
  }

  /** Takes an offer back whose request ended before its prompt was computed, if there is one. */
  void withdraw(RequestHandle handle, KvTransferException why) {
    Growing prompt = growing.get(handle);
    if (prompt != null) {
      prompt.end(why, true);
    }
  }

  /** The prompts that their takers gave up, or lost, since the last call. */
  List<Lost> takeLost() {
    List<Lost> taken = List.copyOf(lost);
    lost.clear();
    return taken;
  }

  boolean hasLost() {
    return !lost.isEmpty();
  }

  void endAll(KvTransferException why) {
    List.copyOf(growing.values()).forEach(prompt -> prompt.end(why, true));
    lost.clear();
  }

  /** One prompt on offer. What is not volatile is touched by the executor's thread alone. */
  private final class Growing implements KvSource {

    private final Sequence sequence;
    private final RequestHandle handle;
    private final KvManifest manifest;
    private final List<Runnable> waiting = new ArrayList<>();
    private KvOffer offer;

    /** The most tokens that were ever computed, which a pause does not take back. */
    private volatile int reached;

    /** Serves it from then on. */
    private volatile KvSource pin;

    private volatile KvTransferException ended;

    Growing(Sequence sequence) {
      this.sequence = sequence;
      this.handle = sequence.request().handle();
      this.manifest = KvManifest.of(parts.layout(), sequence.request().prompt());
      this.reached = sequence.computed();
    }

    @Override
    public KvManifest manifest() {
      return manifest;
    }

    @Override
    public int computed() {
      return pin != null ? manifest.tokens() : reached;
    }

    @Override
    public String order() {
      KvSource whole = pin;
      return whole == null ? null : whole.order();
    }

    @Override
    public KvView view() {
      KvSource whole = pin;
      return whole == null ? null : whole.view();
    }

    @Override
    public void read(KvPiece piece, ByteBuffer to, Consumer<KvTransferException> done) {
      piece.requireReadable(manifest, to);
      KvSource whole = pin;
      if (whole != null) {
        whole.read(piece, to, done);
      } else {
        mailbox.post(() -> readOrWait(piece, to, done));
      }
    }

    private void readOrWait(KvPiece piece, ByteBuffer to, Consumer<KvTransferException> done) {
      if (pin != null) {
        pin.read(piece, to, done);
      } else if (ended != null) {
        done.accept(ended);
      } else if (sequence.table() == null
          || piece.firstToken() + piece.count() > sequence.computed()) {
        waiting.add(() -> readOrWait(piece, to, done));
      } else {
        done.accept(export(piece, to));
      }
    }

    private KvTransferException export(KvPiece piece, ByteBuffer to) {
      try {
        int[] blocks = sequence.table().blocks();
        parts.storage().exportTokens(piece.layer(), blocks, piece.firstToken(), piece.count(), to);
        return null;
      } catch (RuntimeException e) {
        return new KvTransferException(
            Reason.PEER_LOST, "Keys and values can't be read: " + e.getMessage(), e);
      }
    }

    /** Looks at what waits again, between other things that there are to do. */
    private void retry() {
      List<Runnable> again = List.copyOf(waiting);
      waiting.clear();
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
              end(why, false);
              lost.add(new Lost(handle, why));
            }
          });
    }

    private void end(KvTransferException why, boolean tell) {
      ended = why;
      growing.remove(handle);
      retry();
      if (tell) {
        offer.withdraw(why);
      }
    }
  }
}
