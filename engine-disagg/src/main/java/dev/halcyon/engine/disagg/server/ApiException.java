package dev.halcyon.engine.disagg.server;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;

/** An error as a client is told it, in OpenAI's form. */
public final class ApiException extends RuntimeException {

  private static final long serialVersionUID = 1;
  private static final String INVALID_REQUEST = "invalid_request_error";
  private static final String SERVER_ERROR = "server_error";

  /** The same request may go well a little later. */
  private static final Map<String, String> RETRY = Map.of("retry-after", "1");

  private final int status;
  private final String type;
  private final String code;
  private final String param;
  private final transient Map<String, String> headers;

  /**
   * @param status the HTTP status
   * @param type the kind of error
   * @param code a name for the error, or null
   * @param param the field that is wrong, or null
   */
  public ApiException(int status, String type, String code, String param, String message) {
    this(status, type, code, param, message, status == 429 || status == 503 ? RETRY : Map.of());
  }

  private ApiException(
      int status,
      String type,
      String code,
      String param,
      String message,
      Map<String, String> headers) {
    super(message, null, false, false);
    this.headers = headers;
    this.status = status;
    this.type = type;
    this.code = code;
    this.param = param;
  }

  /** 400: a field is wrong. */
  public static ApiException invalid(String param, String message) {
    return new ApiException(400, INVALID_REQUEST, null, param, message);
  }

  /** Some 4xx: the request can't be answered as it is. */
  public static ApiException refused(int status, String code, String message) {
    return new ApiException(status, INVALID_REQUEST, code, null, message);
  }

  /** Some 5xx. */
  public static ApiException failed(int status, String code, String message) {
    return new ApiException(status, SERVER_ERROR, code, null, message);
  }

  public static ApiException queueFull(String message) {
    return new ApiException(429, "rate_limit_error", "queue_full", null, message);
  }

  public static ApiException shuttingDown() {
    return failed(503, "shutting_down", "The server is shutting down");
  }

  public int status() {
    return status;
  }

  public String param() {
    return param;
  }

  public String code() {
    return code;
  }

  /** The same with a header of the answer that explains it. */
  public ApiException withHeader(String name, String value) {
    return new ApiException(status, type, code, param, getMessage(), Map.of(name, value));
  }

  /** The answer's headers that go with the error. */
  public Map<String, String> headers() {
    return headers;
  }

  public ObjectNode json() {
    ObjectNode body = Json.object();
    body.set("error", fields());
    return body;
  }

  /** The same for an event: what the answer's status would have been is in it. */
  public ObjectNode eventJson() {
    ObjectNode body = Json.object();
    body.set("error", fields().put("status", status));
    return body;
  }

  private ObjectNode fields() {
    return Json.object()
        .put("message", getMessage())
        .put("type", type)
        .put("param", param)
        .put("code", code);
  }
}
