package dev.halcyon.engine.disagg.transfer;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;

/** Stands between two transports and does to the server's frames what networks do. */
final class FrameProxy implements AutoCloseable {

  private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
  private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
  private final ByteArrayOutputStream toServer = new ByteArrayOutputStream();
  private volatile Change change = (connection, frame) -> List.of(frame);
  private volatile int target;

  FrameProxy() throws IOException {}

  int port() {
    return listener.getLocalPort();
  }

  void forwardTo(int port) {
    target = port;
    start(this::accept);
  }

  /** Lets connections that are made from now on lead to another server. */
  void redirect(int port) {
    target = port;
  }

  /** What becomes of frames of the server's. */
  interface Change {

    /**
     * @param connection which one it came over, in the order they were made, from 0
     * @param frame its length left out
     * @return what goes on in its place; null cuts the connection
     */
    List<byte[]> apply(int connection, byte[] frame);
  }

  /** What becomes of each frame of the server's, whichever connection it came over. */
  void transform(Function<byte[], List<byte[]>> change) {
    transformByConnection((connection, frame) -> change.apply(frame));
  }

  void transformByConnection(Change change) {
    this.change = change;
  }

  /** All that clients sent. */
  synchronized byte[] toServer() {
    return toServer.toByteArray();
  }

  private void accept() throws IOException {
    for (int i = 0; ; i++) {
      int connection = i;
      Socket client = listener.accept();
      Socket server = new Socket(InetAddress.getLoopbackAddress(), target);
      sockets.add(client);
      sockets.add(server);
      if (listener.isClosed()) {
        close(); // accept may still return what came after the close
      }
      start(() -> upstream(client, server));
      start(() -> downstream(connection, client, server));
    }
  }

  private void upstream(Socket client, Socket server) throws IOException {
    try (client;
        server) {
      InputStream in = client.getInputStream();
      OutputStream out = server.getOutputStream();
      byte[] buffer = new byte[8192];
      for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
        synchronized (this) {
          toServer.write(buffer, 0, n);
        }
        out.write(buffer, 0, n);
      }
    }
  }

  private void downstream(int connection, Socket client, Socket server) throws IOException {
    try (client;
        server) {
      DataInputStream in = new DataInputStream(server.getInputStream());
      DataOutputStream out = new DataOutputStream(client.getOutputStream());
      while (true) {
        byte[] frame = in.readNBytes(in.readInt());
        List<byte[]> sent = change.apply(connection, frame);
        if (sent == null) {
          return;
        }
        for (byte[] each : sent) {
          out.writeInt(each.length);
          out.write(each);
        }
      }
    }
  }

  private interface Work {
    void run() throws IOException;
  }

  private static void start(Work work) {
    Thread thread =
        new Thread(
            () -> {
              try {
                work.run();
              } catch (IOException e) {
                // A side closed: so does this.
              }
            },
            "frame-proxy");
    thread.setDaemon(true);
    thread.start();
  }

  @Override
  public void close() throws IOException {
    listener.close();
    for (Socket socket : sockets) {
      socket.close();
    }
  }
}
