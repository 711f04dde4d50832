package dev.halcyon.engine.disagg.router;

import dev.halcyon.engine.disagg.server.Call;
import dev.halcyon.engine.disagg.server.EventStream;
import io.netty.buffer.ByteBuf;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpHeaders;
import io.netty.util.concurrent.ScheduledFuture;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;

/**
 * Passes a decode endpoint's answer on to the client as it comes, byte for byte. Nothing goes out
 * before the answer's first byte is there, so that until then another endpoint may give it. Reads
 * on when the client has taken what was read: a slow client costs the router one piece, not the
 * answer.
 */
final class Relay implements Answer {

  /** What a good stream of events ends with. */
  private static final byte[] DONE =
      EventStream.event(EventStream.DONE.getBytes(StandardCharsets.UTF_8));

  /** Errors are short. */
  private static final int MOST_OF_ERROR = 64 << 10;

  /** Hears what comes of it. */
  interface Outcome {

    /** The endpoint answers with an error; nothing has gone to the client. */
    void refused(WholeAnswer.Result result);

    /** The first byte is on its way to the client. */
    void began();

    /**
     * The answer is complete.
     *
     * @param well whether it was a good one; a stream may have ended with an error
     */
    void ended(boolean well);

    /**
     * @param begun whether some of the answer has gone to the client
     */
    void failed(ExchangeFailure failure, boolean begun);
  }

  private final Call call;
  private final Duration silence;
  private final Outcome outcome;
  private Exchange exchange;
  private WholeAnswer error;
  private HttpHeaders headers;
  private final byte[] tail = new byte[DONE.length];
  private boolean begun;
  private int writing;
  private long lastHeard;
  private ScheduledFuture<?> silenceCheck;

  /**
   * @param silence how long the endpoint may be silent within its answer
   */
  Relay(Call call, Duration silence, Outcome outcome) {
    this.call = call;
    this.silence = silence;
    this.outcome = outcome;
  }

  @Override
  public void begins(Exchange begun) {
    exchange = begun;
  }

  @Override
  public void head(int answered, HttpHeaders answeredHeaders) {
    headers = answeredHeaders;
    if (answered != 200) {
      error = new WholeAnswer(MOST_OF_ERROR, outcome::refused, this::failed);
      error.begins(exchange);
      error.head(answered, answeredHeaders);
    }
    heard();
    checkSilenceIn(silence.toNanos());
  }

  @Override
  public void content(ByteBuf piece) {
    if (error != null) {
      error.content(piece);
      return;
    }
    heard();
    begin();
    noteTail(piece);
    writing++;
    call.add(
        piece,
        () -> {
          writing--;
          if (writing == 0) {
            heard();
            exchange.readMore();
          }
        });
  }

  @Override
  public boolean wantsMore() {
    return writing == 0;
  }

  @Override
  public void end() {
    stopChecks();
    if (error != null) {
      error.end();
      return;
    }
    begin();
    call.end();
    outcome.ended(!isEvents() || Arrays.equals(tail, DONE));
  }

  @Override
  public void failed(ExchangeFailure failure) {
    stopChecks();
    outcome.failed(failure, begun);
  }

  private void begin() {
    if (!begun) {
      begun = true;
      exchange.isPassedOn();
      outcome.began();
      call.begin(
          200,
          WholeAnswer.contentType(headers),
          Long.parseLong(headers.get(HttpHeaderNames.CONTENT_LENGTH, "-1")),
          WholeAnswer.passedOn(headers));
    }
  }

  private boolean isEvents() {
    return WholeAnswer.contentType(headers).startsWith("text/event-stream");
  }

  /** Keeps the last bytes of all. */
  private void noteTail(ByteBuf piece) {
    int taken = Math.min(piece.readableBytes(), tail.length);
    System.arraycopy(tail, taken, tail, 0, tail.length - taken);
    piece.getBytes(piece.writerIndex() - taken, tail, tail.length - taken, taken);
  }

  private void heard() {
    lastHeard = System.nanoTime();
  }

  private void checkSilenceIn(long nanos) {
    silenceCheck =
        call.loop()
            .schedule(
                () -> {
                  long left = silence.toNanos() - (System.nanoTime() - lastHeard);
                  if (exchange.isOver() || call.isOver()) {
                    return;
                  } else if (writing > 0) {
                    checkSilenceIn(silence.toNanos()); // it is the client that is slow
                  } else if (left <= 0) {
                    exchange.fail("it was silent for " + silence);
                  } else {
                    checkSilenceIn(left);
                  }
                },
                nanos,
                TimeUnit.NANOSECONDS);
  }

  private void stopChecks() {
    if (silenceCheck != null) {
      silenceCheck.cancel(false);
    }
  }
}
