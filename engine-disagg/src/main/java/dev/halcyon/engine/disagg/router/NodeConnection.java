package dev.halcyon.engine.disagg.router;

import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpContent;
import io.netty.handler.codec.http.HttpObject;
import io.netty.handler.codec.http.HttpResponse;
import io.netty.handler.codec.http.HttpStatusClass;
import io.netty.handler.codec.http.HttpUtil;
import io.netty.handler.codec.http.LastHttpContent;
import io.netty.util.ReferenceCountUtil;
import io.netty.util.concurrent.ScheduledFuture;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * A connection to an endpoint: carries one exchange at a time, reads no faster than the answer's
 * taker wants, and is kept for the next one when all went well. All on its event loop.
 */
final class NodeConnection extends ChannelInboundHandlerAdapter {

  /** Less than what servers grant, so that hardly ever a request meets a closing connection. */
  private static final Duration KEPT = Duration.ofSeconds(15);

  private final ConnectionPool pool;
  private ChannelHandlerContext channel;
  private Exchange exchange;
  private boolean interim;
  private boolean written;
  private boolean keepAlive;
  private boolean used;
  private boolean reused;
  private ScheduledFuture<?> expiry;

  NodeConnection(ConnectionPool pool) {
    this.pool = pool;
  }

  @Override
  public void handlerAdded(ChannelHandlerContext context) {
    channel = context;
  }

  boolean isOpen() {
    return channel.channel().isActive();
  }

  /** Sends a request, whose answer goes to the exchange. */
  void carry(Exchange next, FullHttpRequest request) {
    if (expiry != null) {
      expiry.cancel(false);
    }
    exchange = next;
    reused = used;
    used = true;
    written = false;
    keepAlive = true;
    next.carriedBy(this);
    channel
        .writeAndFlush(request)
        .addListener(
            done -> {
              written = done.isSuccess();
              if (!done.isSuccess()) {
                broken("sending failed: " + done.cause().getMessage());
              }
            });
    read();
  }

  void read() {
    channel.read();
  }

  void close() {
    channel.close();
  }

  /** Waits for its next exchange. */
  void rest() {
    expiry = channel.executor().schedule(this::close, KEPT.toMillis(), TimeUnit.MILLISECONDS);
    read(); // to hear of the other side's closing
  }

  @Override
  public void channelRead(ChannelHandlerContext context, Object message) {
    HttpObject part = (HttpObject) message;
    try {
      if (exchange == null || exchange.isOver()) {
        close();
      } else if (part.decoderResult().isFailure()) {
        broken("its answer is not valid HTTP");
      } else {
        take(part);
      }
    } finally {
      ReferenceCountUtil.release(part);
    }
  }

  private void take(HttpObject part) {
    if (part instanceof HttpResponse head) {
      interim = head.status().codeClass() == HttpStatusClass.INFORMATIONAL;
      if (!interim) {
        keepAlive = HttpUtil.isKeepAlive(head);
        exchange.answerBegan();
        exchange.answer().head(head.status().code(), head.headers());
      }
    }
    if (part instanceof HttpContent content && !interim) {
      ByteBuf bytes = content.content();
      if (bytes.isReadable() && !exchange.isOver()) {
        exchange.answer().content(bytes.retain());
      }
      if (part instanceof LastHttpContent && !exchange.isOver()) {
        endExchange();
      }
    }
  }

  private void endExchange() {
    Exchange ended = exchange;
    exchange = null;
    if (keepAlive && written) {
      pool.keep(this);
    } else {
      close();
    }
    ended.ended();
  }

  @Override
  public void channelReadComplete(ChannelHandlerContext context) {
    if (exchange != null && !exchange.isOver()) {
      if (!exchange.isAnswering() || exchange.answer().wantsMore()) {
        read();
      }
    }
  }

  @Override
  public void channelInactive(ChannelHandlerContext context) {
    if (expiry != null) {
      expiry.cancel(false);
    }
    pool.closed(this);
    broken("it closed the connection");
  }

  @Override
  public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
    broken("the connection broke: " + cause.getMessage());
    close();
  }

  private void broken(String reason) {
    if (exchange != null) {
      Exchange failed = exchange;
      exchange = null;
      boolean stale = reused && !failed.isAnswering();
      if (stale) {
        pool.clear();
      }
      failed.failed(
          new ExchangeFailure(
              stale ? ExchangeFailure.Kind.STALE : ExchangeFailure.Kind.BROKEN, reason));
    }
  }
}
