package dev.halcyon.engine.disagg.transfer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvSink;
import dev.halcyon.engine.transfer.KvSource;
import dev.halcyon.engine.transfer.KvView;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** A sink that can copies all from the source's cache; each side hears of the end once. */
class DirectTransferTest {

  private static final int TOKENS = 5;

  private final InProcessTransport transport = new InProcessTransport();
  private final ViewedSource source = new ViewedSource();
  private final CopyingSink sink = new CopyingSink(true);

  @AfterEach
  void nothingIsLeft() {
    assertThat(transport.openTransfers()).isZero();
    transport.close();
  }

  private static final class View implements KvView {

    private boolean complete = true;

    @Override
    public boolean complete() {
      return complete;
    }
  }

  /** One that others can copy from. */
  private static final class ViewedSource implements KvSource {

    private final View view = new View();
    private final FakeSource inner = new FakeSource(TOKENS);
    private final List<String> ends = new ArrayList<>();

    @Override
    public KvManifest manifest() {
      return inner.manifest();
    }

    @Override
    public void read(KvPiece piece, ByteBuffer to, Consumer<KvTransferException> done) {
      inner.read(piece, to, done);
    }

    @Override
    public KvView view() {
      return view;
    }

    @Override
    public void end(KvTransferException error) {
      ends.add(reason(error));
    }
  }

  /** One that copies when it is told to. */
  private static final class CopyingSink implements KvSink {

    private final FakeSink inner = new FakeSink(TOKENS, 0);
    private final boolean accepts;
    private final List<String> ends = new ArrayList<>();
    private KvView from;
    private Consumer<KvTransferException> done;
    private int copies;
    private int progress;

    CopyingSink(boolean accepts) {
      this.accepts = accepts;
    }

    @Override
    public KvManifest manifest() {
      return inner.manifest();
    }

    @Override
    public int firstToken() {
      return 0;
    }

    @Override
    public void write(KvPiece piece, ByteBuffer bytes, Consumer<KvTransferException> done) {
      inner.write(piece, bytes, done);
    }

    @Override
    public boolean accepts(KvView view) {
      return accepts;
    }

    @Override
    public void copy(KvView view, Consumer<KvTransferException> copied) {
      copies++;
      from = view;
      done = copied;
    }

    @Override
    public void progress() {
      progress++;
    }

    @Override
    public void end(KvTransferException error) {
      ends.add(reason(error));
    }
  }

  private static String reason(KvTransferException error) {
    return error == null ? "done" : error.reason().name();
  }

  private static KvTransferException why(Reason reason) {
    return new KvTransferException(reason, "test");
  }

  private KvOffer offer() {
    return transport.offer(source);
  }

  @Test
  void aPromptThatIsBeingComputedIsCopiedOnceItIsComplete() {
    source.view.complete = false;
    KvOffer offer = offer();
    transport.fetch(offer.descriptor(), sink);
    offer.advanced();
    assertThat(sink.copies).isZero();
    assertThat(sink.progress).as("when it asked, and since").isEqualTo(2);
    source.view.complete = true;
    offer.advanced();
    offer.advanced();
    assertThat(sink.copies).isEqualTo(1);
    sink.done.accept(null);
    assertThat(source.ends).containsExactly("done");
    assertThat(sink.ends).containsExactly("done");
    offer.advanced();
    assertThat(sink.copies).isEqualTo(1);
  }

  @Test
  void eitherSideEndsWhatIsNotCompleteYet() {
    source.view.complete = false;
    KvOffer withdrawn = offer();
    transport.fetch(withdrawn.descriptor(), sink);
    withdrawn.withdraw(why(Reason.TIMEOUT));
    assertThat(sink.ends).containsExactly("TIMEOUT");
    KvOffer cancelled = offer();
    transport.fetch(cancelled.descriptor(), sink).cancel(why(Reason.CANCELLED));
    assertThat(source.ends).containsExactly("CANCELLED");
    source.view.complete = true;
    withdrawn.advanced();
    cancelled.advanced();
    assertThat(sink.copies).as("nobody wants it any more").isZero();
  }

  @Test
  void theSinkCopiesFromTheSourcesView() {
    transport.fetch(offer().descriptor(), sink);
    assertThat(sink.from).isSameAs(source.view);
    assertThat(source.ends).isEmpty();
    sink.done.accept(null);
    assertThat(source.ends).containsExactly("done");
    assertThat(sink.ends).containsExactly("done");
    assertThat(sink.inner.writes()).isZero();
  }

  @Test
  void oneThatDoesNotAcceptTheViewTakesPieces() {
    CopyingSink other = new CopyingSink(false);
    transport.fetch(offer().descriptor(), other);
    assertThat(other.from).isNull();
    assertThat(other.ends).containsExactly("done");
    other.inner.requireComplete();
  }

  @Test
  void aCopyThatFailsEndsBothSides() {
    transport.fetch(offer().descriptor(), sink);
    sink.done.accept(why(Reason.PEER_LOST));
    assertThat(source.ends).containsExactly("PEER_LOST");
    assertThat(sink.ends).containsExactly("PEER_LOST");
  }

  @Test
  void withdrawingReachesTheSink() {
    KvOffer offer = offer();
    transport.fetch(offer.descriptor(), sink);
    offer.withdraw(why(Reason.TIMEOUT));
    assertThat(sink.ends).containsExactly("TIMEOUT");
    // The copy ends late, well or not.
    sink.done.accept(null);
    assertThat(sink.ends).containsExactly("TIMEOUT");
    assertThat(source.ends).as("who withdraws is not told").isEmpty();
  }

  @Test
  void cancellingReachesTheSource() {
    KvFetch fetch = transport.fetch(offer().descriptor(), sink);
    fetch.cancel(why(Reason.CANCELLED));
    fetch.cancel(why(Reason.TIMEOUT));
    sink.done.accept(why(Reason.CANCELLED));
    assertThat(source.ends).containsExactly("CANCELLED");
    assertThat(sink.ends).as("who cancels is not told").isEmpty();
  }

  @Test
  void closingTheTransportEndsBothSides() {
    transport.fetch(offer().descriptor(), sink);
    transport.close();
    assertThat(source.ends).containsExactly("CLOSED");
    assertThat(sink.ends).containsExactly("CLOSED");
    sink.done.accept(null);
    assertThat(sink.ends).hasSize(1);
  }

  @Test
  void aSecondFetchDoesNotDisturbTheCopy() {
    KvOffer offer = offer();
    transport.fetch(offer.descriptor(), sink);
    KvTransferException refused =
        catchThrowableOfType(
            KvTransferException.class,
            () -> transport.fetch(offer.descriptor(), new CopyingSink(true)));
    assertThat(refused.reason()).isEqualTo(Reason.UNKNOWN);
    sink.done.accept(null);
    assertThat(sink.ends).containsExactly("done");
  }
}
