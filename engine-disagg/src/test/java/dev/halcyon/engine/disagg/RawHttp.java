package dev.halcyon.engine.disagg;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** HTTP as it goes over a connection, for what a client library would not do. */
public final class RawHttp {

  private RawHttp() {}

  /** A request that posts JSON. */
  public static String post(String path, String body) {
    return "POST "
        + path
        + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
        + body.getBytes(StandardCharsets.UTF_8).length
        + "\r\n\r\n"
        + body;
  }

  public static void write(Socket socket, String text) throws IOException {
    socket.getOutputStream().write(text.getBytes(StandardCharsets.UTF_8));
    socket.getOutputStream().flush();
  }

  /** What comes up to a text, with it; fails if the connection ends before. */
  public static String readUntil(Socket socket, String text) throws IOException {
    InputStream in = socket.getInputStream();
    StringBuilder got = new StringBuilder();
    while (got.indexOf(text) < 0) {
      int next = in.read();
      assertThat(next).as("end of " + got).isNotNegative();
      got.append((char) next);
    }
    return got.toString();
  }

  /** All that comes until the server closes the connection. */
  public static String readAll(Socket socket) throws IOException {
    return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
  }
}
