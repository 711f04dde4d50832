package dev.halcyon.engine.disagg.router;

import com.fasterxml.jackson.databind.JsonNode;
import dev.halcyon.engine.disagg.TestJson;
import dev.halcyon.engine.disagg.Waiting;
import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.net.ServerSocketFactory;

/** An endpoint that does what a test tells it, to the byte. */
public final class FakeEndpoint implements AutoCloseable {

  public record Request(String method, String path, Map<String, String> headers, String body) {

    JsonNode json() {
      return TestJson.json(body);
    }

    JsonNode params() {
      return json().path("disaggregated_params");
    }
  }

  /** What answers a request. */
  public interface Reply {
    void to(Request request, Out out) throws Exception;
  }

  /** The way back to the caller. */
  public static final class Out {

    private final Socket socket;
    private final OutputStream stream;
    private final CountDownLatch closing;

    private Out(Socket socket, CountDownLatch closing) throws IOException {
      this.socket = socket;
      this.stream = socket.getOutputStream();
      this.closing = closing;
    }

    void raw(String text) throws IOException {
      stream.write(text.getBytes(StandardCharsets.UTF_8));
      stream.flush();
    }

    void whole(int status, String body, String... headers) throws IOException {
      StringBuilder head = new StringBuilder("HTTP/1.1 " + status + " Whatever\r\n");
      head.append("Content-Type: application/json\r\n");
      for (String header : headers) {
        head.append(header).append("\r\n");
      }
      int length = body.getBytes(StandardCharsets.UTF_8).length;
      raw(head + "Content-Length: " + length + "\r\n\r\n" + body);
    }

    public void eventsHead() throws IOException {
      raw(
          "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
              + "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n");
    }

    public void chunk(String text) throws IOException {
      int length = text.getBytes(StandardCharsets.UTF_8).length;
      raw(Integer.toHexString(length) + "\r\n" + text + "\r\n");
    }

    public void endChunks() throws IOException {
      raw("0\r\n\r\n");
    }

    void breakOff() throws IOException {
      socket.close();
    }

    /** Says nothing until the caller is gone, or the endpoint closes. */
    void hang() throws IOException, InterruptedException {
      socket.setSoTimeout(20);
      while (closing.getCount() > 0) {
        try {
          if (socket.getInputStream().read() < 0) {
            return;
          }
        } catch (java.net.SocketTimeoutException e) {
          // still there
        }
      }
    }
  }

  private final String name;
  private final ServerSocketFactory sockets;
  private final Map<String, Deque<Reply>> replies = new ConcurrentHashMap<>();
  private final Set<Socket> open = ConcurrentHashMap.newKeySet();
  private final List<Request> requests = new CopyOnWriteArrayList<>();
  private final List<String> gone = new CopyOnWriteArrayList<>();
  private final List<String> answered = new CopyOnWriteArrayList<>();
  private final CountDownLatch closing = new CountDownLatch(1);
  private final String scheme;
  private volatile ServerSocket listener;
  private int port;

  public FakeEndpoint(String name) {
    this(name, "http", ServerSocketFactory.getDefault());
  }

  FakeEndpoint(String name, String scheme, ServerSocketFactory sockets) {
    this.name = name;
    this.scheme = scheme;
    this.sockets = sockets;
    on("/health", (request, out) -> out.whole(200, "{\"status\":\"ok\"}"));
    on("/prefill", (request, out) -> out.whole(200, handover(request)));
    on("/prefill/cancel", (request, out) -> out.whole(200, "{}"));
    on("/v1/completions", FakeEndpoint::complete);
    on("/v1/chat/completions", FakeEndpoint::complete);
    on("/v1/models", (request, out) -> out.whole(200, "{\"object\":\"list\",\"data\":[]}"));
    listen();
  }

  /** The handover of a good prefill, with what only decode endpoints understand. */
  String handover(Request request) {
    return "{\"disaggregated_params\": {\"from\": \""
        + name
        + "\", \"request_id\": "
        + request.params().path("request_id")
        + ", \"text\": \"}]\\\"{\", \"n\": [1.0, 1e3]}}";
  }

  static void complete(Request request, Out out) throws IOException {
    if (request.json().path("stream").asBoolean()) {
      out.eventsHead();
      out.chunk("data: {\"a\":1}\n\n");
      out.chunk("data: {\"b\":2}\n\ndata: [DONE]\n\n");
      out.endChunks();
    } else {
      out.whole(200, "{\"text\": \"whole \\u00e9 é\"}");
    }
  }

  /** Sets what answers the next requests to a path; the last of them answers all that follow. */
  public FakeEndpoint on(String path, Reply... next) {
    replies.put(path, new ArrayDeque<>(List.of(next)));
    return this;
  }

  public URI url() {
    return URI.create(scheme + "://127.0.0.1:" + port);
  }

  /** Requests to a path, in their order. */
  List<Request> requests(String path) {
    return requests.stream().filter(request -> request.path().equals(path)).toList();
  }

  /** The ids that were cancelled. */
  List<String> cancelled() {
    return requests("/prefill/cancel").stream()
        .map(request -> request.json().path("request_id").asText())
        .toList();
  }

  /** The ids that prompts were computed for. */
  List<String> prefilled() {
    return requests("/prefill").stream()
        .map(request -> request.params().path("request_id").asText())
        .toList();
  }

  /** Paths whose caller went away before the reply's end. */
  List<String> gone() {
    return gone;
  }

  /** Paths whose reply was given. */
  List<String> answered() {
    return answered;
  }

  int connections() {
    return open.size();
  }

  /** Takes no connections, and breaks off those that there are. */
  void down() {
    try {
      listener.close();
      for (Socket socket : open) {
        socket.close();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Is there again, at the same port, as soon as the system lets go of it. */
  void up() {
    Waiting.await(
        "the port is free",
        () -> {
          try {
            listen();
            return true;
          } catch (UncheckedIOException e) {
            return false;
          }
        });
  }

  @Override
  public void close() {
    closing.countDown();
    down();
  }

  private void listen() {
    try {
      ServerSocket fresh = sockets.createServerSocket();
      fresh.setReuseAddress(true);
      fresh.bind(new java.net.InetSocketAddress(InetAddress.getLoopbackAddress(), port), 200);
      port = fresh.getLocalPort();
      listener = fresh;
      daemon(() -> accept(fresh));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private void accept(ServerSocket from) {
    while (!from.isClosed()) {
      try {
        Socket socket = from.accept();
        open.add(socket);
        if (from.isClosed()) {
          socket.close(); // accept may still return what came after the close
        }
        daemon(() -> serve(socket));
      } catch (IOException e) {
        return;
      }
    }
  }

  private void serve(Socket socket) {
    try (socket) {
      socket.setTcpNoDelay(true);
      InputStream in = new BufferedInputStream(socket.getInputStream());
      Request request = read(in);
      while (request != null) {
        requests.add(request);
        answer(request, new Out(socket, closing));
        socket.setSoTimeout(0);
        request = read(in);
      }
    } catch (IOException e) {
      // the caller is gone, or the endpoint is down
    } finally {
      open.remove(socket);
    }
  }

  private void answer(Request request, Out out) throws IOException {
    try {
      next(request.path()).to(request, out);
      answered.add(request.path());
      if (out.socket.isClosed()) {
        throw new IOException("broken off");
      }
    } catch (IOException e) {
      gone.add(request.path());
      throw e;
    } catch (Exception e) {
      throw new IOException(e);
    }
  }

  private Reply next(String path) {
    Deque<Reply> left = replies.get(path);
    if (left == null) {
      return (request, out) -> out.whole(404, "{}");
    }
    synchronized (left) {
      return left.size() > 1 ? left.poll() : left.peek();
    }
  }

  private static Request read(InputStream in) throws IOException {
    String start = line(in);
    if (start == null) {
      return null;
    }
    Map<String, String> headers = new LinkedHashMap<>();
    for (String header = line(in); header != null && !header.isEmpty(); header = line(in)) {
      String[] parts = header.split(": ", 2);
      headers.put(parts[0].toLowerCase(Locale.ROOT), parts[1]);
    }
    int length = Integer.parseInt(headers.getOrDefault("content-length", "0"));
    String body = new String(in.readNBytes(length), StandardCharsets.UTF_8);
    String[] words = start.split(" ");
    return new Request(words[0], words[1], headers, body);
  }

  private static String line(InputStream in) throws IOException {
    StringBuilder line = new StringBuilder();
    for (int next = in.read(); next != '\n'; next = in.read()) {
      if (next < 0) {
        return null;
      }
      if (next != '\r') {
        line.append((char) next);
      }
    }
    return line.toString();
  }

  private static void daemon(Runnable work) {
    Thread thread = new Thread(work, "fake-endpoint");
    thread.setDaemon(true);
    thread.start();
  }

  static void waitFor(CountDownLatch latch) throws InterruptedException {
    if (!latch.await(20, TimeUnit.SECONDS)) {
      throw new IllegalStateException("waited too long");
    }
  }
}
