package dev.halcyon.engine.disagg.server;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.EventLoop;
import io.netty.handler.codec.http.DefaultHttpContent;
import io.netty.handler.codec.http.DefaultHttpResponse;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpHeaderValues;
import io.netty.handler.codec.http.HttpHeaders;
import io.netty.handler.codec.http.HttpResponse;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.LastHttpContent;
import java.util.Map;

/**
 * One request of a client, and its answer: a whole one, a stream of events, or one that comes in
 * pieces from elsewhere. Methods may be called from any thread unless they say otherwise; what
 * comes after the answer's end, or after the client went away, is ignored.
 */
public final class Call {

  public static final String JSON = "application/json";
  private static final int PIECE = 64 << 10;

  private final Connection connection;
  private final EventLoop loop;
  private final String path;
  private final boolean http10;
  private final String origin;
  private final long startNanos = System.nanoTime();
  private volatile byte[] body = new byte[0];

  // Of the event loop's thread alone.
  private String routePath = "none";
  private boolean started;
  private boolean ended;
  private boolean gone;
  private int status;
  private boolean over;
  private Runnable whenGone = () -> {};
  private Runnable whenOver = () -> {};
  private EventStream events;
  private boolean inEvents;
  private boolean betweenEvents = true;
  private byte lastByte;

  /**
   * @param origin the web page's that called, if it may read the answer, or null
   */
  Call(Connection connection, EventLoop loop, String path, boolean http10, String origin) {
    this.connection = connection;
    this.loop = loop;
    this.path = path;
    this.http10 = http10;
    this.origin = origin;
  }

  public String path() {
    return path;
  }

  public byte[] body() {
    return body;
  }

  /** The body, which is not kept any longer. */
  public byte[] takeBody() {
    byte[] taken = body;
    body = new byte[0];
    return taken;
  }

  public EventLoop loop() {
    return loop;
  }

  /** Answers with a whole body. */
  public void respond(int code, String contentType, byte[] content) {
    respond(code, contentType, content, Map.of());
  }

  /**
   * @param headers more of the answer's headers
   */
  public void respond(int code, String contentType, byte[] content, Map<String, String> headers) {
    onLoop(() -> respondOnLoop(code, contentType, content, headers));
  }

  /** Lets a browser's page send its request. */
  void respondToPreflight() {
    Map<String, String> leave =
        Map.of(
            "access-control-allow-methods", "GET, POST",
            "access-control-allow-headers", "authorization, content-type",
            "access-control-max-age", "600");
    onLoop(() -> respondOnLoop(204, JSON, new byte[0], leave));
  }

  /**
   * Answers with an error: within a stream by an event that ends it, and within another answer by
   * breaking off the connection.
   */
  public void fail(ApiException error) {
    onLoop(() -> failOnLoop(error));
  }

  /** Runs {@code action} if the client goes away, or is cut off, before the answer's end. */
  public void onGone(Runnable action) {
    onLoop(
        () -> {
          whenGone = action;
          if (gone) {
            action.run();
          }
        });
  }

  /** Runs {@code action} once the client has the whole answer, or will have no more of it. */
  public void onOver(Runnable action) {
    onLoop(
        () -> {
          whenOver = action;
          if (over) {
            action.run();
          }
        });
  }

  /** The answer as events; nothing is sent before the first of them, or a heartbeat. */
  public EventStream events() {
    return new EventStream(this, connection.heartbeat());
  }

  public void onLoop(Runnable action) {
    if (loop.inEventLoop()) {
      action.run();
    } else {
      loop.execute(action);
    }
  }

  // What follows runs on the event loop.

  /** Whether nothing more can be answered. */
  public boolean isOver() {
    return ended || gone;
  }

  /** Whether some of the answer has gone to the client. */
  public boolean hasBegun() {
    return started;
  }

  /**
   * Begins an answer that comes in pieces, unless heartbeats of its events have begun it. Runs on
   * the event loop.
   *
   * @param length how many bytes there will be, or -1 if that is not known
   * @param headers more of the answer's headers
   */
  public void begin(int code, String contentType, long length, Map<String, String> headers) {
    if (started || isOver()) {
      return;
    }
    started = true;
    status = code;
    inEvents = contentType.startsWith("text/event-stream");
    HttpResponse head = head(code, contentType);
    headers.forEach(head.headers()::set);
    if (length >= 0) {
      head.headers().set(HttpHeaderNames.CONTENT_LENGTH, length);
    } else if (!http10) {
      head.headers().set(HttpHeaderNames.TRANSFER_ENCODING, HttpHeaderValues.CHUNKED);
    }
    connection.write(head);
  }

  /**
   * Adds to such an answer. Runs on the event loop.
   *
   * @param piece released when it is written, or if nothing more can be answered
   * @param whenWritten runs when the system has taken it
   */
  public void add(ByteBuf piece, Runnable whenWritten) {
    if (isOver()) {
      piece.release();
      return;
    }
    noteBorder(piece);
    connection.write(new DefaultHttpContent(piece), whenWritten);
  }

  /** Ends an answer that came in pieces. Runs on the event loop. */
  public void end() {
    if (!isOver()) {
      ended = true;
      stopEvents();
      connection.writeLast(LastHttpContent.EMPTY_LAST_CONTENT, this);
    }
  }

  void setBody(byte[] bytes) {
    body = bytes;
  }

  void setRoute(String pathOfRoute) {
    routePath = pathOfRoute;
  }

  String routePath() {
    return routePath;
  }

  int status() {
    return status;
  }

  long nanos() {
    return System.nanoTime() - startNanos;
  }

  /** The client is there no more. */
  void markGone() {
    if (!isOver()) {
      gone = true;
      stopEvents();
      whenGone.run();
      markOver();
    }
  }

  /** Nothing of the answer is left to be written. */
  void markOver() {
    if (!over) {
      over = true;
      whenOver.run();
    }
  }

  /** Ends the call with an error, and what runs for it. */
  void abort(ApiException error) {
    if (!isOver()) {
      Runnable stop = whenGone;
      failOnLoop(error);
      stop.run();
    }
  }

  /** Begins the answer with a stream of events. */
  void startEvents(EventStream stream) {
    if (started || isOver()) {
      return;
    }
    started = true;
    status = 200;
    inEvents = true;
    events = stream;
    HttpResponse head = head(200, "text/event-stream; charset=utf-8");
    head.headers().set(HttpHeaderNames.CACHE_CONTROL, HttpHeaderValues.NO_CACHE);
    head.headers().set("x-accel-buffering", "no");
    if (!http10) {
      head.headers().set(HttpHeaderNames.TRANSFER_ENCODING, HttpHeaderValues.CHUNKED);
    }
    connection.write(head);
  }

  /** Adds to the answer; {@code whenWritten} runs when the system has taken it. */
  void write(byte[] content, Runnable whenWritten) {
    if (isOver()) {
      return;
    }
    for (int from = 0; from < content.length; from += PIECE) {
      int length = Math.min(PIECE, content.length - from);
      boolean last = from + length == content.length;
      connection.write(
          new DefaultHttpContent(Unpooled.wrappedBuffer(content, from, length)),
          last ? whenWritten : null);
    }
  }

  private void respondOnLoop(
      int code, String contentType, byte[] content, Map<String, String> more) {
    if (started || isOver()) {
      return;
    }
    started = true;
    status = code;
    HttpResponse head = head(code, contentType);
    HttpHeaders headers = head.headers();
    headers.set(HttpHeaderNames.CONTENT_LENGTH, content.length);
    more.forEach(headers::set);
    connection.write(head);
    write(content, null);
    end();
  }

  private void failOnLoop(ApiException error) {
    if (!started) {
      respondOnLoop(error.status(), JSON, Json.bytes(error.json()), error.headers());
    } else if (!isOver()) {
      if (inEvents && betweenEvents) {
        write(EventStream.event(Json.bytes(error.eventJson())), null);
        end();
      } else {
        connection.breakOff(this);
      }
    }
  }

  /** An error can be told between two events, but not within one. */
  private void noteBorder(ByteBuf piece) {
    int length = piece.readableBytes();
    if (length > 0) {
      int end = piece.writerIndex();
      byte before = length > 1 ? piece.getByte(end - 2) : lastByte;
      lastByte = piece.getByte(end - 1);
      betweenEvents = lastByte == '\n' && before == '\n';
    }
  }

  private HttpResponse head(int code, String contentType) {
    HttpResponse head =
        new DefaultHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.valueOf(code));
    head.headers().set(HttpHeaderNames.CONTENT_TYPE, contentType);
    head.headers().set("x-content-type-options", "nosniff");
    if (origin != null) {
      head.headers().set(HttpHeaderNames.ACCESS_CONTROL_ALLOW_ORIGIN, origin);
      head.headers().set(HttpHeaderNames.VARY, HttpHeaderNames.ORIGIN);
    }
    if (connection.closesAfter()) {
      head.headers().set(HttpHeaderNames.CONNECTION, HttpHeaderValues.CLOSE);
    }
    return head;
  }

  private void stopEvents() {
    if (events != null) {
      events.stop();
    }
  }
}
