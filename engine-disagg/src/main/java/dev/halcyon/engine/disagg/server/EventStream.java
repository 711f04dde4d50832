package dev.halcyon.engine.disagg.server;

import io.netty.util.concurrent.ScheduledFuture;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * A call's answer as server-sent events. The first event opens it, so that an error before has its
 * own status; so does a heartbeat, for a client must not wonder for long whether anyone is there.
 */
public final class EventStream {

  /** What stands before an event's data. */
  public static final String FIELD = "data: ";

  /** The data of the event that is the sign of a good end. */
  public static final String DONE = "[DONE]";

  private static final byte[] COMMENT = ": still here\n\n".getBytes(StandardCharsets.UTF_8);

  private final Call call;
  private final Duration heartbeat;

  // Of the event loop's thread alone.
  private ScheduledFuture<?> beat;
  private boolean stopped;
  private boolean spoke;
  private boolean writing;

  EventStream(Call call, Duration heartbeat) {
    this.call = call;
    this.heartbeat = heartbeat;
    call.onLoop(this::nextBeat);
  }

  /** Sends events; {@code whenWritten} runs when the system has taken them. */
  public void send(List<byte[]> data, Runnable whenWritten) {
    ByteArrayOutputStream joined = new ByteArrayOutputStream();
    data.forEach(each -> joined.writeBytes(event(each)));
    byte[] bytes = joined.toByteArray();
    call.onLoop(
        () -> {
          call.startEvents(this);
          write(bytes, whenWritten);
        });
  }

  /** Sends the sign of a good end, and ends. */
  public void done() {
    call.onLoop(
        () -> {
          call.startEvents(this);
          call.write(event(DONE.getBytes(StandardCharsets.UTF_8)), null);
          call.end();
        });
  }

  /** Stops the heartbeat. Runs on the event loop. */
  public void stop() {
    stopped = true;
    if (beat != null) {
      beat.cancel(false);
    }
  }

  /** An event's form on the wire. The data has no line breaks. */
  public static byte[] event(byte[] data) {
    byte[] field = FIELD.getBytes(StandardCharsets.UTF_8);
    byte[] event = Arrays.copyOf(field, field.length + data.length + 2);
    System.arraycopy(data, 0, event, field.length, data.length);
    event[event.length - 2] = '\n';
    event[event.length - 1] = '\n';
    return event;
  }

  private void write(byte[] bytes, Runnable whenWritten) {
    spoke = true;
    writing = true;
    call.write(
        bytes,
        () -> {
          writing = false;
          whenWritten.run();
        });
  }

  private void nextBeat() {
    if (!stopped && !call.isOver()) {
      beat = call.loop().schedule(this::onBeat, heartbeat.toMillis(), TimeUnit.MILLISECONDS);
    }
  }

  private void onBeat() {
    if (!stopped && !call.isOver()) {
      if (!spoke && !writing) {
        call.startEvents(this);
        write(COMMENT, () -> {});
      }
      spoke = false;
      nextBeat();
    }
  }
}
