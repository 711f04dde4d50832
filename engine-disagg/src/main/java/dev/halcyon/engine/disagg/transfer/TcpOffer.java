package dev.halcyon.engine.disagg.transfer;

import dev.halcyon.engine.KvDescriptor;
import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.transfer.KvOffer;
import dev.halcyon.engine.transfer.KvPiece;
import dev.halcyon.engine.transfer.KvSource;
import io.netty.buffer.ByteBuf;
import io.netty.channel.Channel;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

/** A prompt on offer to whoever connects, then on its way over one connection. */
final class TcpOffer implements KvOffer {

  private final UUID id;
  private final KvSource source;
  private final KvDescriptor descriptor;
  private final Map<UUID, TcpOffer> offers;
  private final AtomicReference<Channel> fetcher = new AtomicReference<>();
  private final AtomicInteger reading = new AtomicInteger();

  /**
   * @param offers where it is found until it ends
   */
  TcpOffer(TcpAddress address, KvSource source, Map<UUID, TcpOffer> offers) {
    this.id = address.transfer();
    this.descriptor = address.descriptor();
    this.source = source;
    this.offers = offers;
  }

  @Override
  public KvDescriptor descriptor() {
    return descriptor;
  }

  KvSource source() {
    return source;
  }

  /** Gives it to a connection, unless another has it. */
  boolean claim(Channel channel) {
    return fetcher.compareAndSet(null, channel);
  }

  boolean isFetchedBy(Channel channel) {
    return fetcher.get() == channel;
  }

  boolean isFetched() {
    return fetcher.get() != null;
  }

  @Override
  public void withdraw(KvTransferException why) {
    if (offers.remove(id, this)) {
      tellFetcher(why);
    }
  }

  /** Ends it for both sides, from this one. */
  void fail(KvTransferException why) {
    if (offers.remove(id, this)) {
      source.end(why);
      tellFetcher(why);
    }
  }

  /** The fetching side ended it, or is gone; {@code error} is null once it has all. */
  void endedByFetcher(KvTransferException error) {
    if (offers.remove(id, this)) {
      source.end(error);
    }
  }

  private void tellFetcher(KvTransferException why) {
    Channel channel = fetcher.get();
    if (channel != null) {
      channel.writeAndFlush(TcpFrames.end(channel.alloc(), id, why));
    }
  }

  /**
   * Reads a piece and sends it.
   *
   * @throws IllegalArgumentException if there is no such piece, or too much was asked for
   */
  void send(Channel channel, int number, KvPiece piece) {
    piece.requireWithin(source.manifest());
    long bytes = piece.bytes(source.manifest().layout());
    if (bytes > TcpOptions.MAX_PIECE_BYTES || reading.incrementAndGet() > TcpOptions.MAX_WINDOW) {
      throw new IllegalArgumentException("the peer asks for too much at once");
    }
    ByteBuf frame = TcpFrames.data(channel.alloc(), id, number, (int) bytes);
    source.read(
        piece,
        TcpFrames.dataOf(frame),
        error -> {
          reading.decrementAndGet();
          if (error != null) {
            frame.release();
            fail(error);
          } else {
            sendSealed(channel, frame);
          }
        });
  }

  /** The checksum is the connection's work, not the engine's, whose thread this may be. */
  private static void sendSealed(Channel channel, ByteBuf frame) {
    try {
      channel.eventLoop().execute(() -> channel.writeAndFlush(TcpFrames.sealData(frame)));
    } catch (RejectedExecutionException e) {
      // The transport is closed.
      frame.release();
    }
  }
}
