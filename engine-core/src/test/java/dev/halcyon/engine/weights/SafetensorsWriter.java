package dev.halcyon.engine.weights;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Writes safetensors files, sound and otherwise. */
public final class SafetensorsWriter {

  private final List<String> entries = new ArrayList<>();
  private int dataBytes;

  /** Adds a tensor behind the others. */
  public SafetensorsWriter tensor(String name, String dtype, int elementBytes, long... shape) {
    long bytes = elementBytes;
    for (long dimension : shape) {
      bytes *= dimension;
    }
    entry(name, dtype, Arrays.toString(shape), dataBytes, dataBytes + bytes);
    dataBytes += (int) bytes;
    return this;
  }

  /** Adds a header entry as it is, without data. */
  public SafetensorsWriter entry(String name, String dtype, String shape, long begin, long end) {
    entries.add(
        "\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%d,%d]}"
            .formatted(name, dtype, shape, begin, end));
    return this;
  }

  /** Adds bytes of data. */
  public SafetensorsWriter data(int bytes) {
    dataBytes += bytes;
    return this;
  }

  /** Writes the file; byte i of the data is i modulo 256. */
  public void write(Path file) {
    byte[] data = new byte[dataBytes];
    for (int i = 0; i < data.length; i++) {
      data[i] = (byte) i;
    }
    writeRaw(file, "{" + String.join(",", entries) + "}", data);
  }

  /** Writes a file with any header. */
  public static void writeRaw(Path file, String header, byte[] data) {
    byte[] json = header.getBytes(StandardCharsets.UTF_8);
    writeRaw(file, json.length, json, data);
  }

  /** Writes a file that claims any length of its header. */
  public static void writeRaw(Path file, long headerLength, byte[] json, byte[] data) {
    ByteBuffer bytes =
        ByteBuffer.allocate(Long.BYTES + json.length + data.length)
            .order(ByteOrder.LITTLE_ENDIAN)
            .putLong(headerLength)
            .put(json)
            .put(data);
    try {
      Files.write(file, bytes.array());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
