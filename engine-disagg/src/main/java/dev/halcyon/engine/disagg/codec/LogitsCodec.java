package dev.halcyon.engine.disagg.codec;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Set;

/**
 * Logits on the wire.
 *
 * <p>As JSON, a tensor is an object {@code {"data": base64, "shape": [rows, vocab], "dtype":
 * "float32"}}, the bytes little-endian and row-major; several are an array of such objects.
 *
 * <p>In binary ({@value #MEDIA_TYPE}), little-endian throughout: the magic "HLGT", the version (one
 * byte, 1), the number of tensors (int32), then for each the type (one byte: 0 float32, 1 float16,
 * 2 bfloat16), the number of dimensions (one byte), the dimensions (int32 each) and the elements.
 *
 * <p>Sizes are checked before anything of that size is allocated. Safe for use by several threads.
 */
public final class LogitsCodec {

  /** The media type of the binary form. */
  public static final String MEDIA_TYPE = "application/octet-stream";

  /** The vocabulary size to give where any will do. */
  public static final int ANY_VOCABULARY = 0;

  /** Most tensors in one payload. */
  public static final int MAX_TENSORS = 1024;

  /** The most bytes that a payload's elements may be allowed. */
  public static final long MAX_BYTES = 1L << 30;

  private static final Set<String> KEYS = Set.of("data", "shape", "dtype");
  private static final int MAGIC = 'H' | 'L' << 8 | 'G' << 16 | 'T' << 24;
  private static final byte VERSION = 1;
  private static final int HEADER_BYTES = 9;

  private final int vocabSize;
  private final long maxBytes;
  private final WireJson json;

  /**
   * @param vocabSize what the last dimension must be, or {@link #ANY_VOCABULARY}
   * @param maxBytes of the elements of a payload, all tensors together
   */
  public LogitsCodec(int vocabSize, long maxBytes) {
    if (vocabSize < 0) {
      throw new IllegalArgumentException("vocabSize must not be negative, got " + vocabSize);
    }
    if (maxBytes < 1 || maxBytes > MAX_BYTES) {
      throw new IllegalArgumentException("maxBytes must be 1 to 2^30, got " + maxBytes);
    }
    this.vocabSize = vocabSize;
    this.maxBytes = maxBytes;
    this.json = new WireJson(base64Length(maxBytes) + 256L * MAX_TENSORS);
  }

  /** A tensor as a JSON object. Its data becomes base64 when that is written, not before. */
  public ObjectNode toJson(LogitsTensor tensor) {
    ObjectNode object = WireJson.object();
    object.set("data", new TensorData(tensor));
    ArrayNode shape = object.putArray("shape");
    for (int size : tensor.shape()) {
      shape.add(size);
    }
    return object.put("dtype", tensor.type().wireName());
  }

  /** A tensor as UTF-8 JSON. */
  public byte[] toJsonBytes(LogitsTensor tensor) {
    return json.write(toJson(tensor));
  }

  /**
   * The tensor that UTF-8 JSON holds.
   *
   * @param field what to call it in errors
   * @throws WireFormatException if it is not one
   */
  public LogitsTensor fromJsonBytes(byte[] text, String field) {
    return fromJson(json.parse(text, field), field);
  }

  /**
   * The tensor that a JSON object is.
   *
   * @param field the object's path, for errors
   * @throws WireFormatException if it is not one
   */
  public LogitsTensor fromJson(JsonNode node, String field) {
    return fromJson(node, field, maxBytes);
  }

  /**
   * The tensors of a JSON array.
   *
   * @param field the array's path, for errors
   * @throws WireFormatException if it is not one, or is empty
   */
  public List<LogitsTensor> listFromJson(JsonNode node, String field) {
    if (!(node instanceof ArrayNode array)) {
      throw new WireFormatException(field, "must be an array, is " + WireJson.kind(node));
    }
    requireCount(array.size(), field);
    List<LogitsTensor> tensors = new ArrayList<>(array.size());
    long left = maxBytes;
    for (int i = 0; i < array.size(); i++) {
      LogitsTensor tensor = fromJson(array.get(i), field + "[" + i + "]", left);
      left -= tensor.raw().length;
      tensors.add(tensor);
    }
    return tensors;
  }

  /** Tensors in binary form, at least one. */
  public byte[] toBinary(List<LogitsTensor> tensors) {
    requireCount(tensors.size(), "tensors");
    long bytes = HEADER_BYTES;
    for (LogitsTensor tensor : tensors) {
      bytes += 2 + 4L * tensor.shape().length + tensor.raw().length;
    }
    if (bytes > Integer.MAX_VALUE - 64) {
      throw new IllegalArgumentException(bytes + " bytes exceed one payload of 2 GiB");
    }
    ByteBuffer out = ByteBuffer.allocate((int) bytes).order(ByteOrder.LITTLE_ENDIAN);
    out.putInt(MAGIC).put(VERSION).putInt(tensors.size());
    for (LogitsTensor tensor : tensors) {
      int[] shape = tensor.shape();
      out.put((byte) tensor.type().ordinal()).put((byte) shape.length);
      for (int size : shape) {
        out.putInt(size);
      }
      out.put(tensor.raw());
    }
    return out.array();
  }

  /**
   * The tensors of a binary payload.
   *
   * @param field what to call it in errors
   * @throws WireFormatException if it is not one
   */
  public List<LogitsTensor> fromBinary(byte[] payload, String field) {
    ByteBuffer in = ByteBuffer.wrap(payload).order(ByteOrder.LITTLE_ENDIAN);
    try {
      return fromBinary(in, field);
    } catch (BufferUnderflowException e) {
      throw new WireFormatException(field, "ends after " + payload.length + " bytes, too early");
    }
  }

  private List<LogitsTensor> fromBinary(ByteBuffer in, String field) {
    if (in.getInt() != MAGIC) {
      throw new WireFormatException(field + ".magic", "must be \"HLGT\"");
    }
    byte version = in.get();
    if (version != VERSION) {
      throw new WireFormatException(field + ".version", "must be " + VERSION + ", is " + version);
    }
    int count = in.getInt();
    requireCount(count, field);
    List<LogitsTensor> tensors = new ArrayList<>(count);
    long left = maxBytes;
    for (int i = 0; i < count; i++) {
      LogitsTensor tensor = tensor(in, field + "[" + i + "]", left);
      left -= tensor.raw().length;
      tensors.add(tensor);
    }
    if (in.hasRemaining()) {
      throw new WireFormatException(field, in.remaining() + " bytes follow the last tensor");
    }
    return tensors;
  }

  private LogitsTensor tensor(ByteBuffer in, String field, long limit) {
    int code = Byte.toUnsignedInt(in.get());
    if (code >= WireType.values().length) {
      throw new WireFormatException(field + ".dtype", "must be 0, 1 or 2, is " + code);
    }
    WireType type = WireType.values()[code];
    int rank = Byte.toUnsignedInt(in.get());
    requireRank(rank, field + ".shape");
    int[] shape = new int[rank];
    for (int i = 0; i < rank; i++) {
      shape[i] = in.getInt();
    }
    long bytes = requireShape(type, shape, field + ".shape", limit);
    if (bytes > in.remaining()) {
      throw new WireFormatException(
          field + ".data", "has " + in.remaining() + " bytes, the shape says " + bytes);
    }
    byte[] data = new byte[(int) bytes];
    in.get(data);
    return LogitsTensor.owning(type, shape, data);
  }

  private LogitsTensor fromJson(JsonNode node, String field, long limit) {
    ObjectNode object = WireJson.requireObject(node, field, KEYS);
    JsonNode dtype = object.get("dtype");
    WireType type = dtype != null && dtype.isTextual() ? WireType.named(dtype.textValue()) : null;
    if (type == null) {
      throw new WireFormatException(
          field + ".dtype",
          "must be \"float32\", \"float16\" or \"bfloat16\", is "
              + (dtype != null && dtype.isTextual()
                  ? "\"" + WireJson.printable(dtype.textValue()) + "\""
                  : WireJson.kind(dtype)));
    }
    int[] shape = shape(object.get("shape"), field + ".shape");
    long bytes = requireShape(type, shape, field + ".shape", limit);
    return LogitsTensor.owning(type, shape, data(object.get("data"), field + ".data", bytes));
  }

  private static int[] shape(JsonNode node, String field) {
    if (!(node instanceof ArrayNode sizes)) {
      throw new WireFormatException(
          field, "must be an array of positive integers, is " + WireJson.kind(node));
    }
    requireRank(sizes.size(), field);
    int[] shape = new int[sizes.size()];
    for (int i = 0; i < shape.length; i++) {
      JsonNode size = sizes.get(i);
      if (!size.isIntegralNumber() || !size.canConvertToInt()) {
        throw new WireFormatException(
            field, "must hold positive 32-bit integers, entry " + i + " is not one");
      }
      shape[i] = size.intValue();
    }
    return shape;
  }

  private static byte[] data(JsonNode node, String field, long bytes) {
    if (node == null || !node.isTextual()) {
      throw new WireFormatException(field, "must be a base64 string, is " + WireJson.kind(node));
    }
    String text = node.textValue();
    if (text.length() != base64Length(bytes)) {
      throw new WireFormatException(
          field,
          String.format(
              "has %d characters; the shape says %d bytes, which are %d characters of base64",
              text.length(), bytes, base64Length(bytes)));
    }
    byte[] data;
    try {
      data = Base64.getDecoder().decode(text);
    } catch (IllegalArgumentException e) {
      throw new WireFormatException(field, "is not valid base64: " + e.getMessage());
    }
    // Less padding than the length asks for gives other lengths; stray bits in the last character
    // would give the same bytes for several texts.
    int tail = (int) (bytes - (bytes - 1) % 3 - 1);
    if (data.length != bytes
        || !text.endsWith(
            Base64.getEncoder().encodeToString(Arrays.copyOfRange(data, tail, (int) bytes)))) {
      throw new WireFormatException(field, "is not valid base64 of " + bytes + " bytes");
    }
    return data;
  }

  private static void requireRank(int rank, String field) {
    if (rank < 2 || rank > LogitsTensor.MAX_RANK) {
      throw new WireFormatException(
          field, "must have 2 or " + LogitsTensor.MAX_RANK + " dimensions, has " + rank);
    }
  }

  /** Returns the bytes that a sound shape says. */
  private long requireShape(WireType type, int[] shape, String field, long limit) {
    for (int size : shape) {
      if (size < 1) {
        throw new WireFormatException(field, "must hold positive integers, has " + size);
      }
    }
    int last = shape[shape.length - 1];
    if (vocabSize != ANY_VOCABULARY && last != vocabSize) {
      throw new WireFormatException(
          field, "must end with the vocabulary of " + vocabSize + ", ends with " + last);
    }
    long bytes = LogitsTensor.bytes(type, shape);
    if (bytes > limit) {
      throw new WireFormatException(
          field,
          Arrays.toString(shape)
              + " of "
              + type.wireName()
              + " exceeds the limit of "
              + maxBytes
              + " bytes for a payload");
    }
    return bytes;
  }

  private static void requireCount(int count, String field) {
    if (count < 1 || count > MAX_TENSORS) {
      throw new WireFormatException(
          field, "must have 1 to " + MAX_TENSORS + " tensors, has " + count);
    }
  }

  private static long base64Length(long bytes) {
    return (bytes + 2) / 3 * 4;
  }
}
