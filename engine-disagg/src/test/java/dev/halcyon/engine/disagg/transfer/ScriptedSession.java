package dev.halcyon.engine.disagg.transfer;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;
import java.nio.ByteBuffer;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;

/** A peer that says what a test wants, and keeps what it hears. */
final class ScriptedSession implements KvSession {

  final CompletableFuture<KvConnection> opened = new CompletableFuture<>();
  final CompletableFuture<String> lost = new CompletableFuture<>();
  final BlockingQueue<byte[]> frames = new LinkedBlockingQueue<>();
  private final KvConnection connection;

  ScriptedSession(KvConnection connection) {
    this.connection = connection;
  }

  void say(byte[] bytes) {
    connection.send(ByteBufAllocator.DEFAULT.directBuffer().writeBytes(bytes));
  }

  @Override
  public void opened() {
    opened.complete(connection);
  }

  @Override
  public void received(ByteBuf frame) {
    byte[] bytes = new byte[frame.readableBytes()];
    frame.readBytes(bytes);
    frames.add(bytes);
  }

  @Override
  public boolean expects(PieceHeader header, int bytes) {
    return true;
  }

  @Override
  public void data(PieceHeader header, ByteBuffer data, Runnable release) {
    release.run();
  }

  @Override
  public void handshakeDue() {}

  @Override
  public void idle() {}

  @Override
  public void lost(Throwable cause) {
    lost.complete(String.valueOf(cause));
  }
}
