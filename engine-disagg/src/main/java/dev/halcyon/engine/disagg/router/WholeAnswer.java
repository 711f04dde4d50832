package dev.halcyon.engine.disagg.router;

import com.fasterxml.jackson.databind.JsonNode;
import dev.halcyon.engine.disagg.server.ApiException;
import dev.halcyon.engine.disagg.server.Json;
import io.netty.buffer.ByteBuf;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpHeaders;
import java.io.ByteArrayOutputStream;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;

/** Collects an answer, up to a size. */
final class WholeAnswer implements Answer {

  /**
   * An endpoint's answer.
   *
   * @param headers those that are passed on
   */
  record Result(int status, String contentType, Map<String, String> headers, byte[] body) {

    /** Whether there was no room for the request. */
    boolean isBusy() {
      return status == 429 || status == 503;
    }

    /** Whether nothing is wrong with the request, which may go well if it is tried again. */
    boolean isRefusal() {
      return isBusy() || status == 502 || ((status == 409 || status == 504) && isTransfers());
    }

    /** Whether a decode endpoint did not get what a prefill endpoint had computed. */
    boolean isTransfers() {
      return code().startsWith("kv_transfer_");
    }

    private String code() {
      return json().path("code").asText("");
    }

    /** An error in the form that a call can pass on when its answer has begun. */
    ApiException error() {
      JsonNode error = json();
      return new ApiException(
          status,
          error.path("type").asText("server_error"),
          error.path("code").textValue(),
          error.path("param").textValue(),
          error.path("message").asText("An endpoint answered with status " + status));
    }

    private JsonNode json() {
      try {
        return Json.parseObject(body).path("error");
      } catch (ApiException e) {
        return Json.object();
      }
    }
  }

  private final int most;
  private final Consumer<Result> whenWhole;
  private final Consumer<ExchangeFailure> whenFailed;
  private ByteArrayOutputStream bytes;
  private Exchange exchange;
  private int status;
  private HttpHeaders headers;

  WholeAnswer(int most, Consumer<Result> whenWhole, Consumer<ExchangeFailure> whenFailed) {
    this.most = most;
    this.whenWhole = whenWhole;
    this.whenFailed = whenFailed;
  }

  /** An answer's content type; JSON if it says none. */
  static String contentType(HttpHeaders headers) {
    return headers.get(HttpHeaderNames.CONTENT_TYPE, "application/json");
  }

  /** What of an answer's headers is for the client, beside type and length. */
  static Map<String, String> passedOn(HttpHeaders headers) {
    Map<String, String> kept = new HashMap<>();
    for (String name : new String[] {"retry-after", "cache-control", "x-accel-buffering"}) {
      String value = headers.get(name);
      if (value != null) {
        kept.put(name, value);
      }
    }
    return kept;
  }

  @Override
  public void begins(Exchange begun) {
    exchange = begun;
  }

  @Override
  public void head(int answered, HttpHeaders answeredHeaders) {
    status = answered;
    headers = answeredHeaders;
    int length = headers.getInt(HttpHeaderNames.CONTENT_LENGTH, 1024);
    bytes = new ByteArrayOutputStream(Math.max(0, Math.min(length, most)));
  }

  @Override
  public void content(ByteBuf piece) {
    try {
      if (bytes.size() + piece.readableBytes() > most) {
        exchange.fail(
            ExchangeFailure.Kind.TOO_LARGE, "its answer has more than " + most + " bytes");
        return;
      }
      byte[] copy = new byte[piece.readableBytes()];
      piece.readBytes(copy);
      bytes.writeBytes(copy);
    } finally {
      piece.release();
    }
  }

  @Override
  public boolean wantsMore() {
    return true;
  }

  @Override
  public void end() {
    whenWhole.accept(
        new Result(status, contentType(headers), passedOn(headers), bytes.toByteArray()));
  }

  @Override
  public void failed(ExchangeFailure failure) {
    whenFailed.accept(failure);
  }
}
