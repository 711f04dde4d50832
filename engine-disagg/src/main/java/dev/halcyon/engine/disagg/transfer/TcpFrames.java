package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;
import dev.halcyon.engine.transfer.KvLayout;
import dev.halcyon.engine.transfer.KvManifest;
import dev.halcyon.engine.transfer.KvPiece;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import java.util.zip.CRC32C;

/**
 * The frames of {@link TcpTransport}, version 1. A frame is its length (int32, of what follows),
 * its type (one byte) and its content; integers are big-endian, strings UTF-8 behind a 16-bit
 * length.
 *
 * <pre>
 * HELLO      client  magic "HKVT", version (int16), client nonce [32]
 * CHALLENGE  server  version (int16), server nonce [32], proof (string of bytes, empty without token)
 * PROOF      client  proof
 * WELCOME    server
 * REFUSE     server  reason, message; then it closes
 * OPEN       client  transfer [16], first token (int32), manifest
 * READ       client  transfer [16], number, layer, first token, count (int32 each)
 * DATA       server  transfer [16], number (int32), CRC-32C of the data (int32), data
 * DONE       client  transfer [16]
 * END        both    transfer [16], reason, message
 * </pre>
 *
 * A frame that can't be read throws {@link IllegalArgumentException} or {@link
 * IndexOutOfBoundsException}, and the connection ends.
 */
final class TcpFrames {

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

  static final short VERSION = 1;
  static final int NONCE_BYTES = 32;

  /** The largest frame that is not DATA. */
  static final int MAX_CONTROL_BYTES = 8192;

  /** Before the data of a DATA frame: length, type, transfer, number, checksum. */
  static final int DATA_HEADER_BYTES = 4 + 1 + 16 + 4 + 4;

  private static final int MAGIC = 'H' << 24 | 'K' << 16 | 'V' << 8 | 'T';
  private static final int MAX_TEXT = 1024;

  private TcpFrames() {}

  static ByteBuf hello(ByteBufAllocator alloc, byte[] nonce) {
    return finish(begin(alloc, HELLO).writeInt(MAGIC).writeShort(VERSION).writeBytes(nonce));
  }

  /** Requires the magic, and returns the version. */
  static short readHello(ByteBuf frame) {
    if (frame.readInt() != MAGIC) {
      throw new IllegalArgumentException("not a KV transport");
    }
    return frame.readShort();
  }

  static ByteBuf challenge(ByteBufAllocator alloc, byte[] nonce, byte[] proof) {
    ByteBuf out = begin(alloc, CHALLENGE).writeShort(VERSION).writeBytes(nonce);
    return finish(out.writeShort(proof.length).writeBytes(proof));
  }

  static ByteBuf proof(ByteBufAllocator alloc, byte[] proof) {
    return finish(begin(alloc, PROOF).writeShort(proof.length).writeBytes(proof));
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

  static ByteBuf welcome(ByteBufAllocator alloc) {
    return finish(begin(alloc, WELCOME));
  }

  static ByteBuf refuse(ByteBufAllocator alloc, KvTransferException why) {
    return finish(writeError(begin(alloc, REFUSE), why));
  }

  static ByteBuf open(ByteBufAllocator alloc, UUID id, int firstToken, KvManifest manifest) {
    KvLayout layout = manifest.layout();
    ByteBuf out = writeId(begin(alloc, OPEN), id).writeInt(firstToken);
    writeText(out, layout.model());
    writeText(out, layout.dtype());
    out.writeInt(layout.elementBytes()).writeInt(layout.layers()).writeInt(layout.heads());
    out.writeInt(layout.headDim()).writeInt(layout.ranks()).writeInt(manifest.tokens());
    return finish(writeText(out, manifest.promptDigest()));
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

  static ByteBuf read(ByteBufAllocator alloc, UUID id, int number, KvPiece piece) {
    ByteBuf out = writeId(begin(alloc, READ), id).writeInt(number).writeInt(piece.layer());
    return finish(out.writeInt(piece.firstToken()).writeInt(piece.count()));
  }

  static KvPiece readPiece(ByteBuf frame) {
    return new KvPiece(frame.readInt(), frame.readInt(), frame.readInt());
  }

  /**
   * Room for a DATA frame; its data goes to {@link #dataOf}, then {@link #sealData} completes it.
   */
  static ByteBuf data(ByteBufAllocator alloc, UUID id, int number, int bytes) {
    ByteBuf out = alloc.directBuffer(DATA_HEADER_BYTES + bytes, DATA_HEADER_BYTES + bytes);
    out.writeInt(DATA_HEADER_BYTES - 4 + bytes).writeByte(DATA);
    writeId(out, id).writeInt(number).writeInt(0);
    return out.writerIndex(DATA_HEADER_BYTES + bytes);
  }

  static ByteBuffer dataOf(ByteBuf frame) {
    return frame.nioBuffer(DATA_HEADER_BYTES, frame.writerIndex() - DATA_HEADER_BYTES);
  }

  static ByteBuf sealData(ByteBuf frame) {
    return frame.setInt(DATA_HEADER_BYTES - 4, checksum(dataOf(frame)));
  }

  static int checksum(ByteBuffer data) {
    CRC32C crc = new CRC32C();
    crc.update(data);
    return (int) crc.getValue();
  }

  static ByteBuf done(ByteBufAllocator alloc, UUID id) {
    return finish(writeId(begin(alloc, DONE), id));
  }

  static ByteBuf end(ByteBufAllocator alloc, UUID id, KvTransferException why) {
    return finish(writeError(writeId(begin(alloc, END), id), why));
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

  private static ByteBuf begin(ByteBufAllocator alloc, byte type) {
    return alloc.buffer(256).writeInt(0).writeByte(type);
  }

  private static ByteBuf finish(ByteBuf frame) {
    return frame.setInt(0, frame.readableBytes() - 4);
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

  private static int readLength(ByteBuf frame) {
    int length = frame.readUnsignedShort();
    if (length > MAX_TEXT) {
      throw new IllegalArgumentException("a text of " + length + " bytes");
    }
    return length;
  }
}
