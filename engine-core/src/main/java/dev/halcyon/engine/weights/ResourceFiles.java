package dev.halcyon.engine.weights;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.net.URLConnection;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Channels;
import java.nio.channels.ReadableByteChannel;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Resources of a class path, which can be asked for but not listed. */
final class ResourceFiles implements ModelFiles {

  private static final List<String> USUAL_NAMES =
      List.of(
          "chat_template.jinja",
          "config.json",
          "generation_config.json",
          "model.safetensors",
          "model.safetensors.index.json",
          "special_tokens_map.json",
          "tokenizer.json",
          "tokenizer_config.json");

  private final ClassLoader loader;
  private final String prefix;
  private final Map<String, ByteBuffer> contents = new HashMap<>();

  ResourceFiles(ClassLoader loader, String prefix) {
    this.loader = loader == null ? ClassLoader.getSystemClassLoader() : loader;
    String folder = prefix.startsWith("/") ? prefix.substring(1) : prefix;
    this.prefix = folder.isEmpty() || folder.endsWith("/") ? folder : folder + "/";
  }

  @Override
  public String description() {
    return "class path resources " + prefix;
  }

  @Override
  public List<String> names() {
    return USUAL_NAMES.stream().filter(this::has).toList();
  }

  @Override
  public boolean has(String name) {
    return url(name) != null;
  }

  @Override
  public Optional<byte[]> read(String name) throws IOException {
    URL url = url(name);
    if (url == null) {
      return Optional.empty();
    }
    try (InputStream in = open(url).getInputStream()) {
      return Optional.of(in.readAllBytes());
    }
  }

  @Override
  public long size(String name) throws IOException {
    return content(name).capacity();
  }

  @Override
  public ByteBuffer map(String name, long offset, int length) throws IOException {
    ByteBuffer content = content(name);
    if (offset < 0 || length < 0 || offset > content.capacity() - (long) length) {
      throw new IOException(
          length + " bytes from " + offset + " on are not within " + content.capacity() + " bytes");
    }
    return content.slice((int) offset, length).order(ByteOrder.LITTLE_ENDIAN);
  }

  private synchronized ByteBuffer content(String name) throws IOException {
    ByteBuffer known = contents.get(name);
    if (known != null) {
      return known;
    }
    URL url = url(name);
    if (url == null) {
      throw new FileNotFoundException("There is no resource " + prefix + name);
    }
    ByteBuffer content = readDirect(url).asReadOnlyBuffer();
    contents.put(name, content);
    return content;
  }

  private static ByteBuffer readDirect(URL url) throws IOException {
    URLConnection connection = open(url);
    long length = connection.getContentLengthLong();
    if (length > Integer.MAX_VALUE) {
      throw new IOException(
          length + " bytes are too many for a resource; put the model into a directory instead");
    }
    try (InputStream in = connection.getInputStream()) {
      if (length < 0) {
        byte[] bytes = in.readAllBytes();
        return ByteBuffer.allocateDirect(bytes.length).put(bytes).flip();
      }
      ByteBuffer content = ByteBuffer.allocateDirect((int) length);
      ReadableByteChannel channel = Channels.newChannel(in);
      while (content.hasRemaining()) {
        if (channel.read(content) < 0) {
          throw new IOException("The resource ended " + content.remaining() + " bytes early");
        }
      }
      return content.flip();
    }
  }

  /** Without the connection's cache, which would keep the jar open for others to trip over. */
  private static URLConnection open(URL url) throws IOException {
    URLConnection connection = url.openConnection();
    connection.setUseCaches(false);
    return connection;
  }

  private URL url(String name) {
    return loader.getResource(prefix + FileNames.requirePlain(name));
  }
}
