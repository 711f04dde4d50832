package dev.halcyon.engine.disagg.server;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.HttpContent;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpObject;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpUtil;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.LastHttpContent;
import io.netty.handler.codec.http.TooLongHttpHeaderException;
import io.netty.handler.codec.http.TooLongHttpLineException;
import io.netty.util.ReferenceCountUtil;
import io.netty.util.concurrent.ScheduledFuture;
import java.io.ByteArrayOutputStream;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;

/**
 * One client's connection: reads a request, hands it out, and reads the next once it is answered.
 * It goes on reading all the while, so that a client that goes away is noticed at once.
 *
 * <p>A client that is slow to ask, to send or to read costs a connection and what was written to
 * it, for a bounded time; nothing of the engine waits for it. All runs on the connection's event
 * loop.
 */
final class Connection extends ChannelInboundHandlerAdapter {

  /** How long the rest of a refused body is read away, so that the client can read why. */
  private static final Duration LINGER = Duration.ofSeconds(2);

  /** Parts of requests behind the one that is being answered that are read ahead. */
  private static final int READ_AHEAD = 16;

  private enum Phase {
    /** Between requests. */
    WAITING,
    /** A request's body is coming. */
    READING,
    /** The request is being answered. */
    ANSWERING,
    /** Nothing more is answered. */
    CLOSING
  }

  private final ServiceContext service;
  private final Deque<HttpObject> ahead = new ArrayDeque<>();
  private final ByteArrayOutputStream body = new ByteArrayOutputStream();
  private ChannelHandlerContext channel;
  private Phase phase = Phase.WAITING;
  private boolean counted;
  private Call call;
  private Route route;
  private ApiException refusal;
  private boolean bodyEnded;
  private boolean takingAhead;
  private boolean keepAlive;
  private ScheduledFuture<?> deadline;
  private ScheduledFuture<?> stallCheck;
  private int writing;
  private long lastProgress;

  Connection(ServiceContext service) {
    this.service = service;
  }

  Duration heartbeat() {
    return service.options().heartbeat();
  }

  @Override
  public void channelActive(ChannelHandlerContext context) {
    channel = context;
    counted = service.connectionOpened(this);
    if (counted) {
      await();
    } else {
      refuseConnection();
    }
  }

  @Override
  public void channelInactive(ChannelHandlerContext context) {
    phase = Phase.CLOSING;
    cancel(deadline);
    cancel(stallCheck);
    ahead.forEach(ReferenceCountUtil::release);
    ahead.clear();
    if (counted) {
      service.connectionClosed(this);
    }
    if (call != null && !call.isOver()) {
      call.markGone();
      service.callEnded(call, true);
    }
  }

  @Override
  public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
    context.close();
  }

  @Override
  public void channelRead(ChannelHandlerContext context, Object message) {
    HttpObject part = (HttpObject) message;
    if (!ahead.isEmpty() || (phase == Phase.ANSWERING && bodyEnded)) {
      ahead.add(part);
      if (ahead.size() >= READ_AHEAD) {
        context.channel().config().setAutoRead(false);
      }
    } else {
      take(part);
    }
  }

  /** Closes the connection if it has nothing to do, and after the running answer otherwise. */
  void drain() {
    channel
        .executor()
        .execute(
            () -> {
              if (phase == Phase.WAITING) {
                close();
              }
            });
  }

  /** Ends what runs with an error. */
  void abort(ApiException error) {
    channel
        .executor()
        .execute(
            () -> {
              if (call != null && !call.isOver()) {
                call.abort(error);
              } else if (phase != Phase.ANSWERING) {
                close();
              }
            });
  }

  void closeNow() {
    channel.executor().execute(this::close);
  }

  private void take(HttpObject part) {
    try {
      if (part instanceof HttpRequest request && phase != Phase.CLOSING) {
        begin(request);
      }
      if (part instanceof HttpContent content) {
        takeContent(content);
      }
    } finally {
      ReferenceCountUtil.release(part);
    }
  }

  private void begin(HttpRequest request) {
    phase = Phase.READING;
    body.reset();
    bodyEnded = false;
    refusal = null;
    route = null;
    boolean http10 = request.protocolVersion().equals(HttpVersion.HTTP_1_0);
    keepAlive = HttpUtil.isKeepAlive(request) && !http10;
    within(service.options().bodyTimeout(), this::bodyTooSlow);
    Gate.Pass pass = service.gate().passOf(request);
    call = new Call(this, channel.channel().eventLoop(), pass.path(), http10, pass.origin());
    service.callBegan();
    if (request.decoderResult().isFailure()) {
      refuseNow(malformed(request.decoderResult().cause()));
      return;
    }
    try {
      route = service.gate().admit(request, pass);
      call.setRoute(route.path());
      if (service.draining()) {
        throw ApiException.shuttingDown();
      }
    } catch (ApiException e) {
      refusal = e;
    }
    boolean waits = HttpUtil.is100ContinueExpected(request);
    if (refusal != null && (waits || refusal.status() == 413)) {
      refuseNow(refusal);
    } else if (waits) {
      write(new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.CONTINUE));
    }
  }

  private void takeContent(HttpContent content) {
    if (phase == Phase.READING) {
      if (content.decoderResult().isFailure()) {
        refuseNow(malformed(content.decoderResult().cause()));
      } else if (refusal == null) {
        collect(content.content());
      }
    }
    if (content instanceof LastHttpContent) {
      bodyEnded = true;
      if (phase == Phase.READING) {
        answer();
      } else if (phase == Phase.CLOSING) {
        close();
      }
    }
  }

  private void collect(ByteBuf part) {
    int most = service.options().maxBodyBytes();
    if (body.size() + part.readableBytes() > most) {
      refuseNow(Gate.tooLarge(most));
      return;
    }
    byte[] bytes = new byte[part.readableBytes()];
    part.readBytes(bytes);
    body.writeBytes(bytes);
  }

  private void answer() {
    phase = Phase.ANSWERING;
    cancel(deadline);
    if (refusal != null) {
      call.fail(refusal);
      return;
    }
    call.setBody(body.toByteArray());
    body.reset();
    Call answered = call;
    Endpoint endpoint = route.endpoint();
    try {
      service.workers().execute(() -> run(endpoint, answered));
    } catch (RejectedExecutionException e) {
      answered.fail(ApiException.shuttingDown());
    }
  }

  private void run(Endpoint endpoint, Call call) {
    try {
      endpoint.handle(call);
    } catch (RuntimeException | StackOverflowError | OutOfMemoryError e) {
      call.fail(service.failure(e));
    }
  }

  private void bodyTooSlow() {
    refuseNow(ApiException.refused(408, "timeout", "The request's body took too long to arrive"));
  }

  /** Answers before the body is there; the connection can't go on after that. */
  private void refuseNow(ApiException error) {
    phase = Phase.ANSWERING;
    keepAlive = false;
    body.reset();
    cancel(deadline);
    call.fail(error);
  }

  private static ApiException malformed(Throwable cause) {
    if (cause instanceof TooLongHttpLineException) {
      return ApiException.refused(414, "uri_too_long", "The request line is too long");
    } else if (cause instanceof TooLongHttpHeaderException) {
      return ApiException.refused(431, "headers_too_large", "The request's headers are too large");
    }
    return ApiException.refused(400, "malformed_http", "The request is not valid HTTP");
  }

  /** Whether the connection ends with the answer to the call. */
  boolean closesAfter() {
    return !keepAlive || service.draining() || !bodyEnded;
  }

  /** Writes a part of an answer. */
  void write(HttpObject part) {
    write(part, null);
  }

  void write(HttpObject part, Runnable whenWritten) {
    track(channel.writeAndFlush(part), whenWritten);
  }

  /** Writes the last part of an answer. */
  void writeLast(LastHttpContent part, Call ended) {
    boolean closes = closesAfter();
    service.callEnded(ended, false);
    ChannelFuture written = channel.writeAndFlush(part);
    written.addListener(done -> ended.markOver()); // written, or given up with the connection
    track(written, () -> answered(closes));
  }

  /** Lets the client see that an answer is not whole. */
  void breakOff(Call broken) {
    broken.markGone();
    service.callEnded(broken, true);
    close();
  }

  private void answered(boolean closes) {
    if (phase == Phase.CLOSING) {
      return;
    }
    if (!closes && !service.draining()) {
      await();
      takeAhead();
    } else if (bodyEnded) {
      close();
    } else {
      // Closed with unread input, the system would throw away what the client has not read yet.
      phase = Phase.CLOSING;
      within(LINGER, this::close);
    }
  }

  /** Takes what was read ahead; an answer that is there at once only goes on with the loop. */
  private void takeAhead() {
    if (takingAhead) {
      return;
    }
    takingAhead = true;
    while (!ahead.isEmpty() && !(phase == Phase.ANSWERING && bodyEnded)) {
      take(ahead.poll());
    }
    takingAhead = false;
    channel.channel().config().setAutoRead(ahead.size() < READ_AHEAD);
  }

  private void await() {
    phase = Phase.WAITING;
    call = null;
    within(service.options().idleTimeout(), this::close);
  }

  private void refuseConnection() {
    phase = Phase.CLOSING;
    byte[] text =
        Json.bytes(ApiException.failed(503, "too_many_connections", "Too many connections").json());
    DefaultFullHttpResponse response =
        new DefaultFullHttpResponse(
            HttpVersion.HTTP_1_1,
            HttpResponseStatus.SERVICE_UNAVAILABLE,
            Unpooled.wrappedBuffer(text));
    response
        .headers()
        .set(HttpHeaderNames.CONTENT_TYPE, Call.JSON)
        .set(HttpHeaderNames.CONTENT_LENGTH, text.length)
        .set(HttpHeaderNames.RETRY_AFTER, "1")
        .set(HttpHeaderNames.CONNECTION, "close");
    write(response, () -> within(LINGER, this::close));
  }

  /** Watches that what was written is also taken. */
  private void track(ChannelFuture written, Runnable whenWritten) {
    if (writing++ == 0) {
      lastProgress = System.nanoTime();
    }
    written.addListener(
        done -> {
          writing--;
          lastProgress = System.nanoTime();
          if (done.isSuccess() && whenWritten != null) {
            whenWritten.run();
          }
        });
    if (writing > 0 && stallCheck == null) {
      checkStallIn(service.options().stallTimeout().toNanos());
    }
  }

  private void checkStallIn(long nanos) {
    stallCheck =
        channel
            .executor()
            .schedule(
                () -> {
                  stallCheck = null;
                  long left =
                      service.options().stallTimeout().toNanos()
                          - (System.nanoTime() - lastProgress);
                  if (writing > 0 && left <= 0) {
                    service.cutOff();
                    close();
                  } else if (writing > 0) {
                    checkStallIn(left);
                  }
                },
                nanos,
                TimeUnit.NANOSECONDS);
  }

  private void within(Duration time, Runnable otherwise) {
    cancel(deadline);
    deadline = channel.executor().schedule(otherwise, time.toNanos(), TimeUnit.NANOSECONDS);
  }

  private static void cancel(ScheduledFuture<?> timer) {
    if (timer != null) {
      timer.cancel(false);
    }
  }

  private void close() {
    phase = Phase.CLOSING;
    channel.close();
  }
}
