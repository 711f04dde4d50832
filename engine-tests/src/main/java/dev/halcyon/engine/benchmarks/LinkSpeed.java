package dev.halcyon.engine.benchmarks;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.concurrent.CompletableFuture;

/** What bytes between two places of this machine can reach at best; the best of several passes. */
final class LinkSpeed {

  private static final int BUFFER_BYTES = 1 << 20;
  private static final long PASS_BYTES = 256L << 20;
  private static final int PASSES = 8;

  private LinkSpeed() {}

  /** Bytes a second that one thread copies within memory, from and to areas beyond any cache. */
  static double memoryCopy() {
    ByteBuffer from = ByteBuffer.allocateDirect((int) PASS_BYTES);
    ByteBuffer to = ByteBuffer.allocateDirect((int) PASS_BYTES);
    double best = 0;
    for (int pass = 0; pass <= PASSES; pass++) {
      long start = System.nanoTime();
      to.clear().put(from.clear());
      // The first pass touches the pages.
      best = pass == 0 ? 0 : Math.max(best, rate(start));
    }
    return best;
  }

  /**
   * Bytes a second through one connection over loopback: a thread writes from one buffer, another
   * reads into one, and neither looks at what it is.
   */
  static double loopback() {
    try (ServerSocketChannel server = ServerSocketChannel.open()) {
      server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
      try (SocketChannel client = SocketChannel.open(server.getLocalAddress());
          SocketChannel accepted = server.accept()) {
        client.setOption(StandardSocketOptions.TCP_NODELAY, true);
        double best = 0;
        for (int pass = 0; pass <= PASSES; pass++) {
          long start = System.nanoTime();
          // Not in the common pool, whose threads may be busy: then nothing would be read.
          CompletableFuture<Void> reader =
              CompletableFuture.runAsync(
                  () -> drain(accepted), task -> new Thread(task, "loopback-reader").start());
          ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER_BYTES);
          for (long sent = 0; sent < PASS_BYTES; ) {
            buffer.clear().limit((int) Math.min(BUFFER_BYTES, PASS_BYTES - sent));
            while (buffer.hasRemaining()) {
              sent += client.write(buffer);
            }
          }
          reader.join();
          best = Math.max(best, rate(start));
        }
        return best;
      }
    } catch (IOException e) {
      throw new UncheckedIOException("the loopback can't be measured", e);
    }
  }

  private static void drain(ReadableByteChannel channel) {
    ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER_BYTES);
    try {
      for (long read = 0; read < PASS_BYTES; ) {
        int run = channel.read(buffer.clear());
        if (run < 0) {
          throw new IOException("the connection ended after " + read + " bytes");
        }
        read += run;
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static double rate(long start) {
    return PASS_BYTES / ((System.nanoTime() - start) / 1e9);
  }
}
