package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvLayout;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvProgress;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import java.util.zip.CRC32C;

/**
 * The frames of {@link TcpTransport} and {@link UcxTransport}, version 4. A frame is its type (one
 * byte) and its content; integers are big-endian, strings UTF-8 behind a 16-bit length.
 *
 * <pre>
 * HELLO      client  magic "HKVT", version (int16), client nonce [32]
 * CHALLENGE  server  version (int16), server nonce [32], proof (string of bytes, empty without token)
 * PROOF      client  proof
 * WELCOME    server  the transport [16], chosen at random
 * REFUSE     server  reason, message; then it closes
 * OPEN       client  transfer [16], first token (int32), order (string, empty for none), manifest
 * READ       client  transfer [16], number, layer, first token, count (int32 each)
 * DATA       server  transfer [16], number (int32), stored (byte, 0 or 1), CRC-32C of the data
 *                    (int32), data
 * DONE       client  transfer [16]
 * END        both    transfer [16], reason, message
 * COMPUTED   server  transfer [16], tokens that can be read in every layer, the number of first
 *                    layers that have more, and how many those have (int32 each); after OPEN, and as
 *                    more can
 * </pre>
 *
 * READ may come over any connection with the same transport, once COMPUTED came for the transfer;
 * its DATA goes over the same. All else about a transfer goes over the one that OPEN came over.
 *
 * <p>Pieces are stored where both sides have an order of the same name, and lie as [keys or values,
 * token, head, headDim] otherwise. A frame that can't be read throws {@link
 * IllegalArgumentException} or {@link IndexOutOfBoundsException}, and the connection ends.
 */
final class KvFrames {

  static final byte HELLO = 1;
  static final byte CHALLENGE = 2;
  static final byte PROOF = 3;
  static final byte WELCOME = 4;
  static final byte REFUSE = 5;
  static final byte OPEN = 6;
  static final byte READ = 7;
  static final byte DATA = 8;
  static final byte DONE = 9;
  static final byte END = 10;
  static final byte COMPUTED = 11;

  static final short VERSION = 4;
  static final int NONCE_BYTES = 32;

  /** The largest frame that is not DATA. */
  static final int MAX_CONTROL_BYTES = 8192;

  /** Before the data of a DATA frame: its type, transfer, number, order and checksum. */
  static final int DATA_HEADER_BYTES = 1 + 16 + 4 + 1 + 4;

  private static final int MAGIC = 'H' << 24 | 'K' << 16 | 'V' << 8 | 'T';
  private static final int MAX_TEXT = 1024;

  private KvFrames() {}

  static ByteBuf hello(byte[] nonce) {
    return begin(HELLO).writeInt(MAGIC).writeShort(VERSION).writeBytes(nonce);
  }

  /** Requires the magic, and returns the version. */
  static short readHello(ByteBuf frame) {
    if (frame.readInt() != MAGIC) {
      throw new IllegalArgumentException("not a KV transport");
    }
    return frame.readShort();
  }

  static ByteBuf challenge(byte[] nonce, byte[] proof) {
    ByteBuf out = begin(CHALLENGE).writeShort(VERSION).writeBytes(nonce);
    return out.writeShort(proof.length).writeBytes(proof);
  }

  static ByteBuf proof(byte[] proof) {
    return begin(PROOF).writeShort(proof.length).writeBytes(proof);
  }

  static byte[] readNonce(ByteBuf frame) {
    byte[] nonce = new byte[NONCE_BYTES];
    frame.readBytes(nonce);
    return nonce;
  }

  static byte[] readProof(ByteBuf frame) {
    byte[] proof = new byte[readLength(frame)];
    frame.readBytes(proof);
    return proof;
  }

  static ByteBuf welcome(UUID transport) {
    return writeId(begin(WELCOME), transport);
  }

  static ByteBuf refuse(KvTransferException why) {
    return writeError(begin(REFUSE), why);
  }

  /**
   * Begins a transfer.
   *
   * @param order in which stored pieces are understood, or null
   */
  static ByteBuf open(UUID id, int firstToken, String order, KvManifest manifest) {
    KvLayout layout = manifest.layout();
    ByteBuf out = writeId(begin(OPEN), id).writeInt(firstToken);
    writeText(out, order == null ? "" : order);
    writeText(out, layout.model());
    writeText(out, layout.dtype());
    out.writeInt(layout.elementBytes()).writeInt(layout.layers()).writeInt(layout.heads());
    out.writeInt(layout.headDim()).writeInt(layout.ranks()).writeInt(manifest.tokens());
    return writeText(out, manifest.promptDigest());
  }

  /** Null where there is none. */
  static String readOrder(ByteBuf frame) {
    String order = readText(frame);
    return order.isEmpty() ? null : order;
  }

  static KvManifest readManifest(ByteBuf frame) {
    String model = readText(frame);
    String dtype = readText(frame);
    KvLayout layout =
        new KvLayout(
            model,
            dtype,
            frame.readInt(),
            frame.readInt(),
            frame.readInt(),
            frame.readInt(),
            frame.readInt());
    int tokens = frame.readInt();
    return new KvManifest(layout, tokens, readText(frame));
  }

  static ByteBuf read(UUID id, int number, KvPiece piece) {
    ByteBuf out = writeId(begin(READ), id).writeInt(number).writeInt(piece.layer());
    return out.writeInt(piece.firstToken()).writeInt(piece.count());
  }

  static KvPiece readPiece(ByteBuf frame) {
    return new KvPiece(frame.readInt(), frame.readInt(), frame.readInt());
  }

  /** Writes what stands before the data of a DATA frame, its type included. */
  static ByteBuf writePieceHeader(ByteBuf out, PieceHeader header) {
    writeId(out.writeByte(DATA), header.transfer());
    out.writeInt(header.number()).writeBoolean(header.stored());
    return out.writeInt(header.checksum());
  }

  /** Reads what stands before the data, behind the type. */
  static PieceHeader readPieceHeader(ByteBuf frame) {
    return new PieceHeader(readId(frame), frame.readInt(), readFlag(frame), frame.readInt());
  }

  static int checksum(ByteBuffer data) {
    CRC32C crc = new CRC32C();
    crc.update(data);
    return (int) crc.getValue();
  }

  static ByteBuf done(UUID id) {
    return writeId(begin(DONE), id);
  }

  static ByteBuf computed(UUID id, KvProgress progress) {
    ByteBuf out = writeId(begin(COMPUTED), id).writeInt(progress.tokens());
    return out.writeInt(progress.layers()).writeInt(progress.ahead());
  }

  static KvProgress readProgress(ByteBuf frame) {
    return new KvProgress(frame.readInt(), frame.readInt(), frame.readInt());
  }

  static ByteBuf end(UUID id, KvTransferException why) {
    return writeError(writeId(begin(END), id), why);
  }

  static UUID readId(ByteBuf frame) {
    return new UUID(frame.readLong(), frame.readLong());
  }

  static KvTransferException readError(ByteBuf frame) {
    String name = readText(frame);
    String message = readText(frame);
    for (Reason reason : Reason.values()) {
      if (reason.name().equals(name)) {
        return new KvTransferException(reason, message);
      }
    }
    return new KvTransferException(Reason.PEER_LOST, name + ": " + message);
  }

  /** A frame in memory that native code may read from. */
  private static ByteBuf begin(byte type) {
    return ByteBufAllocator.DEFAULT.directBuffer(256).writeByte(type);
  }

  private static ByteBuf writeId(ByteBuf out, UUID id) {
    return out.writeLong(id.getMostSignificantBits()).writeLong(id.getLeastSignificantBits());
  }

  private static ByteBuf writeError(ByteBuf out, KvTransferException why) {
    String message = why.getMessage() == null ? "" : why.getMessage();
    writeText(out, why.reason().name());
    // Four bytes a character at most.
    return writeText(out, message.substring(0, Math.min(message.length(), MAX_TEXT / 4)));
  }

  private static ByteBuf writeText(ByteBuf out, String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    return out.writeShort(bytes.length).writeBytes(bytes);
  }

  private static String readText(ByteBuf frame) {
    byte[] bytes = new byte[readLength(frame)];
    frame.readBytes(bytes);
    return new String(bytes, StandardCharsets.UTF_8);
  }

  private static boolean readFlag(ByteBuf frame) {
    byte flag = frame.readByte();
    if (flag != 0 && flag != 1) {
      throw new IllegalArgumentException("a flag of " + flag);
    }
    return flag == 1;
  }

  private static int readLength(ByteBuf frame) {
    int length = frame.readUnsignedShort();
    if (length > MAX_TEXT) {
      throw new IllegalArgumentException("a text of " + length + " bytes");
    }
    return length;
  }
}
