package dev.halcyon.engine.disagg.transfer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.logits.DeviceBuffer;
import dev.halcyon.engine.transfer.KvFetch;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvSink;
import dev.halcyon.engine.transfer.KvSource;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Pieces between two engines on one device go through its memory, which is given back. */
class StagedTransferTest {

  private final InProcessTransport transport = new InProcessTransport();
  private final List<Stage> stages = new ArrayList<>();

  @AfterEach
  void everythingIsGivenBack() {
    assertThat(transport.openTransfers()).isZero();
    transport.close();
    assertThat(stages).allSatisfy(stage -> assertThat(stage.closed).isTrue());
  }

  /** Memory of a device, of which the host knows nothing. */
  private static final class Stage implements DeviceBuffer {

    private final ByteBuffer memory;
    private final Stage whole;
    private boolean closed;

    Stage(ByteBuffer memory, Stage whole) {
      this.memory = memory;
      this.whole = whole == null ? this : whole;
    }

    ByteBuffer memory() {
      assertThat(whole.closed).as("closed").isFalse();
      return memory.duplicate();
    }

    @Override
    public long bytes() {
      return memory.capacity();
    }

    @Override
    public Stage slice(long from, long count) {
      Objects.checkFromIndexSize(from, count, bytes());
      return new Stage(memory().slice((int) from, (int) count), whole);
    }

    @Override
    public void close() {
      closed |= whole == this;
    }
  }

  /** One whose pieces are on a device. */
  private final class StagedSource implements KvSource {

    private final FakeSource inner;

    StagedSource(FakeSource inner) {
      this.inner = inner;
    }

    @Override
    public KvManifest manifest() {
      return inner.manifest();
    }

    @Override
    public void read(KvPiece piece, ByteBuffer to, Consumer<KvTransferException> done) {
      inner.read(piece, to, done);
    }

    @Override
    public DeviceBuffer stage(long bytes) {
      stages.add(new Stage(ByteBuffer.allocate((int) bytes), null));
      return stages.get(stages.size() - 1);
    }

    @Override
    public void read(KvPiece piece, DeviceBuffer to, Consumer<KvTransferException> done) {
      inner.read(piece, ((Stage) to).memory(), done);
    }

    @Override
    public void end(KvTransferException error) {
      inner.end(error);
    }
  }

  /** One that takes pieces from a device, or from the host alone. */
  private static final class StagedSink implements KvSink {

    private final FakeSink inner;
    private final boolean accepts;
    private int staged;

    StagedSink(FakeSink inner, boolean accepts) {
      this.inner = inner;
      this.accepts = accepts;
    }

    @Override
    public KvManifest manifest() {
      return inner.manifest();
    }

    @Override
    public int firstToken() {
      return inner.firstToken();
    }

    @Override
    public void write(KvPiece piece, ByteBuffer from, Consumer<KvTransferException> done) {
      inner.write(piece, from, done);
    }

    @Override
    public boolean accepts(DeviceBuffer stage) {
      return accepts;
    }

    @Override
    public void write(KvPiece piece, DeviceBuffer from, Consumer<KvTransferException> done) {
      staged++;
      int bytes = (int) piece.bytes(inner.manifest().layout());
      inner.write(piece, ((Stage) from).memory().limit(bytes), done);
    }

    @Override
    public void end(KvTransferException error) {
      inner.end(error);
    }
  }

  /** 6.4 MB a layer: two pieces on a device. */
  private static final int TOKENS = 200_000;

  @Test
  void piecesGoThroughTheDevice() throws Exception {
    FakeSink fake = new FakeSink(TOKENS, 7);
    StagedSink sink = new StagedSink(fake, true);
    transport.fetch(offer(new FakeSource(TOKENS)), sink);
    assertThat(fake.ended().get()).isNull();
    fake.requireComplete();
    assertThat(sink.staged).isEqualTo(6);
  }

  @Test
  void anotherDeviceTakesThemFromTheHost() throws Exception {
    FakeSink fake = new FakeSink(TOKENS, 0);
    StagedSink sink = new StagedSink(fake, false);
    transport.fetch(offer(new FakeSource(TOKENS)), sink);
    assertThat(fake.ended().get()).isNull();
    fake.requireComplete();
    assertThat(sink.staged).isZero();
  }

  @Test
  void aStageThatIsInUseOutlivesItsTransfer() {
    FakeSource source = new FakeSource(TOKENS).holding();
    FakeSink fake = new FakeSink(TOKENS, 0);
    KvFetch fetch = transport.fetch(offer(source), new StagedSink(fake, true));
    fetch.cancel(new KvTransferException(Reason.CANCELLED, "test"));
    assertThat(source.ended()).isCompletedWithValue("CANCELLED");
    assertThat(stages.get(0).closed).isFalse();
    // The source writes to the stage after all, and must find it there.
    source.answer();
    assertThat(stages.get(0).closed).isTrue();
    assertThat(fake.writes()).isZero();
  }

  private KvDescriptor offer(FakeSource source) {
    return transport.offer(new StagedSource(source)).descriptor();
  }
}
