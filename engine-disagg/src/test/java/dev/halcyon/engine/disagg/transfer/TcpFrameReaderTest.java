package dev.halcyon.engine.disagg.transfer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Frames are found wherever the network cuts them, and unwanted pieces take no memory. */
class TcpFrameReaderTest {

  private static final UUID ID = new UUID(3, 4);
  private static final int MAX_BYTES = 10_000;

  private final TcpPieceMemory memory = new TcpPieceMemory();
  private final List<String> seen = new ArrayList<>();
  private final List<Runnable> held = new ArrayList<>();
  private final TcpFrameReader reader = new TcpFrameReader(new Session(), memory, MAX_BYTES);

  /** Notes what comes. Pieces with odd numbers are not expected. */
  private final class Session implements KvSession {

    @Override
    public void received(ByteBuf frame) {
      seen.add(frame.readByte() + " and " + frame.readableBytes());
    }

    @Override
    public boolean expects(PieceHeader header, int bytes) {
      return header.number() % 2 == 0;
    }

    @Override
    public void data(PieceHeader header, ByteBuffer data, Runnable release) {
      assertThat(header.transfer()).isEqualTo(ID);
      assertThat(header.stored()).isEqualTo(header.number() == 2);
      byte[] bytes = new byte[data.remaining()];
      data.get(bytes);
      for (int i = 0; i < bytes.length; i++) {
        assertThat(bytes[i]).isEqualTo((byte) (header.number() + i));
      }
      seen.add("piece " + header.number() + " of " + bytes.length + ", " + header.checksum());
      held.add(release);
    }

    @Override
    public void opened() {}

    @Override
    public void handshakeDue() {}

    @Override
    public void idle() {}

    @Override
    public void lost(Throwable cause) {}
  }

  private static ByteBuf framed(ByteBuf frame) {
    return Unpooled.buffer().writeInt(frame.readableBytes()).writeBytes(frame);
  }

  private static ByteBuf piece(int number, int bytes) {
    ByteBuf frame =
        KvFrames.writePieceHeader(
            Unpooled.buffer(), new PieceHeader(ID, number, number == 2, 7 * number));
    for (int i = 0; i < bytes; i++) {
      frame.writeByte(number + i);
    }
    return framed(frame);
  }

  private static ByteBuf all() {
    return Unpooled.wrappedBuffer(
        framed(Unpooled.buffer().writeByte(KvFrames.WELCOME)),
        piece(0, 1),
        piece(1, 500),
        piece(2, 3000),
        framed(KvFrames.done(ID)),
        // Longer than the header of a piece.
        framed(Unpooled.buffer().writeByte(KvFrames.END).writeZero(8000)),
        piece(3, 1),
        piece(4, 9974));
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 7, 29, 30, 64, 1000, 1 << 20})
  void framesAreFoundWhereverTheyAreCut(int run) {
    ByteBuf all = all();
    while (all.isReadable()) {
      reader.read(all.readSlice(Math.min(run, all.readableBytes())));
    }
    requireAllSeen();
  }

  /** As a connection reads: into the piece where there is one, and as much as it likes. */
  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 7, 29, 30, 64, 1000, 1 << 20})
  void piecesAreReadIntoTheirOwnMemory(int run) {
    ByteBuf all = all();
    int straight = 0;
    while (all.isReadable()) {
      ByteBuf place = reader.rest();
      straight += place == null ? 0 : 1;
      ByteBuf in = place == null ? Unpooled.buffer(40, 40) : place;
      int bytes = Math.min(run, Math.min(in.writableBytes(), all.readableBytes()));
      reader.read(in.writeBytes(all, bytes));
      in.release();
    }
    assertThat(straight).isPositive();
    requireAllSeen();
  }

  private void requireAllSeen() {
    assertThat(seen)
        .containsExactly(
            "4 and 0",
            "piece 0 of 1, 0",
            "piece 2 of 3000, 14",
            "9 and 16",
            "10 and 8000",
            "piece 4 of 9974, 28");
    // Those that were expected are the session's until it gives them back.
    assertThat(memory.inUse()).isEqualTo(3);
    held.forEach(Runnable::run);
    assertThat(memory.inUse()).isZero();
  }

  @Test
  void aPieceThatNeverComesWholeIsGivenBack() {
    ByteBuf cut = piece(0, 3000);
    reader.read(cut.readSlice(1000));
    assertThat(memory.inUse()).isEqualTo(1);
    reader.close();
    assertThat(memory.inUse()).isZero();
    assertThat(seen).isEmpty();
  }

  @Test
  void aPieceThatIsBeingReadIntoLastsUntilThatEnds() {
    reader.read(piece(0, 3000).readSlice(1000));
    ByteBuf place = reader.rest();
    reader.close();
    assertThat(memory.inUse()).isEqualTo(1);
    place.writeZero(10);
    place.release();
    assertThat(memory.inUse()).isZero();
    assertThat(reader.rest()).isNull();
  }

  @ParameterizedTest
  @ValueSource(ints = {0, -1, MAX_BYTES + 1, Integer.MIN_VALUE, Integer.MAX_VALUE})
  void lengthsThatCannotBeAreRefused(int length) {
    ByteBuf bytes = Unpooled.buffer().writeInt(length);
    assertThatThrownBy(() -> reader.read(bytes)).isInstanceOf(IllegalArgumentException.class);
  }

  @Test
  void onlyPiecesAreLong() {
    ByteBuf bytes =
        framed(Unpooled.buffer().writeByte(KvFrames.END).writeZero(KvFrames.MAX_CONTROL_BYTES));
    assertThatThrownBy(() -> reader.read(bytes)).isInstanceOf(IllegalArgumentException.class);
  }

  @Test
  void aPieceHasAHeader() {
    ByteBuf bytes = framed(Unpooled.buffer().writeByte(KvFrames.DATA).writeZero(10));
    assertThatThrownBy(() -> reader.read(bytes)).isInstanceOf(IllegalArgumentException.class);
  }
}
