package dev.halcyon.engine.weights;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.ModelLoadException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The header of a safetensors file: eight bytes with the length of the JSON text that follows, then
 * the data. Every entry is checked against the file's size and against the other entries, so that
 * what comes after can trust the offsets.
 */
final class SafetensorsHeader {

  /** The format's own limit. */
  private static final long MAX_HEADER_BYTES = 100_000_000;

  private static final int LENGTH_BYTES = Long.BYTES;
  private static final String METADATA = "__metadata__";

  private static final Map<String, Integer> ELEMENT_BYTES =
      Map.ofEntries(
          Map.entry("BOOL", 1),
          Map.entry("U8", 1),
          Map.entry("I8", 1),
          Map.entry("F8_E4M3", 1),
          Map.entry("F8_E5M2", 1),
          Map.entry("F8_E8M0", 1),
          Map.entry("U16", 2),
          Map.entry("I16", 2),
          Map.entry("F16", 2),
          Map.entry("BF16", 2),
          Map.entry("U32", 4),
          Map.entry("I32", 4),
          Map.entry("F32", 4),
          Map.entry("U64", 8),
          Map.entry("I64", 8),
          Map.entry("F64", 8),
          Map.entry("C64", 8));

  private final String file;
  private final String where;
  private final long fileBytes;
  private final long dataStart;

  private SafetensorsHeader(String file, String where, long fileBytes, long dataStart) {
    this.file = file;
    this.where = where;
    this.fileBytes = fileBytes;
    this.dataStart = dataStart;
  }

  /**
   * Reads the header of a file.
   *
   * @return the tensors by name, in the header's order
   * @throws ModelLoadException if the file is no sound safetensors file
   */
  static Map<String, TensorInfo> read(ModelFiles files, String file) {
    String where = files.describe(file);
    try {
      long fileBytes = files.size(file);
      if (fileBytes < LENGTH_BYTES) {
        throw new ModelLoadException(
            where
                + " is truncated: it has "
                + fileBytes
                + " bytes, a safetensors file begins with 8 bytes of header length. Fetch it again");
      }
      long length = files.map(file, 0, LENGTH_BYTES).getLong(0);
      checkLength(where, length, fileBytes);
      ByteBuffer buffer = files.map(file, LENGTH_BYTES, (int) length);
      byte[] json = new byte[(int) length];
      buffer.get(json);
      ObjectNode header = StrictJson.parseObject(json, "The header of " + where);
      return new SafetensorsHeader(file, where, fileBytes, LENGTH_BYTES + length).entries(header);
    } catch (IOException e) {
      throw new ModelLoadException(where + " can't be read: " + e.getMessage(), e);
    }
  }

  private static void checkLength(String where, long length, long fileBytes) {
    if (length < 2 || length > MAX_HEADER_BYTES) {
      throw new ModelLoadException(
          where
              + " claims a header of "
              + Long.toUnsignedString(length)
              + " bytes, expected 2 to "
              + MAX_HEADER_BYTES
              + ". It is not a safetensors file, or damaged");
    }
    if (length > fileBytes - LENGTH_BYTES) {
      throw new ModelLoadException(
          where
              + " is truncated: its header should have "
              + length
              + " bytes, the file has "
              + (fileBytes - LENGTH_BYTES)
              + " after the header length. Fetch it again");
    }
  }

  private Map<String, TensorInfo> entries(ObjectNode header) {
    Map<String, TensorInfo> tensors = new LinkedHashMap<>();
    for (Map.Entry<String, JsonNode> field : header.properties()) {
      if (!field.getKey().equals(METADATA)) {
        tensors.put(field.getKey(), entry(field.getKey(), field.getValue()));
      }
    }
    checkLayout(tensors);
    return tensors;
  }

  private TensorInfo entry(String name, JsonNode node) {
    if (!node.isObject()) {
      throw bad(name, "has a header entry that is not an object");
    }
    String type = node.path("dtype").asText();
    Integer elementBytes = ELEMENT_BYTES.get(type);
    if (elementBytes == null) {
      throw bad(name, "has the unknown dtype '" + type + "', expected F32, F16 or BF16");
    }
    List<Long> shape = integers(name, node.path("shape"), "shape");
    List<Long> offsets = integers(name, node.path("data_offsets"), "data_offsets");
    if (offsets.size() != 2) {
      throw bad(name, "has data_offsets " + offsets + ", expected a begin and an end");
    }
    long begin = offsets.get(0);
    long end = offsets.get(1);
    if (begin > end || end > fileBytes - dataStart) {
      throw bad(
          name,
          "has data_offsets "
              + offsets
              + ", but the file has "
              + (fileBytes - dataStart)
              + " bytes of data. The file is truncated or damaged; fetch it again");
    }
    long expected = bytes(name, shape, elementBytes);
    if (end - begin != expected) {
      throw bad(
          name,
          "of shape "
              + shape
              + " and dtype "
              + type
              + " needs "
              + expected
              + " bytes, its data_offsets "
              + offsets
              + " span "
              + (end - begin));
    }
    return new TensorInfo(name, file, type, shape, dataStart + begin, expected);
  }

  private List<Long> integers(String name, JsonNode node, String key) {
    List<Long> values = new ArrayList<>();
    boolean sound = node.isArray();
    for (JsonNode value : node) {
      sound &= value.isIntegralNumber() && value.canConvertToLong() && value.longValue() >= 0;
      values.add(value.longValue());
    }
    if (!sound) {
      throw bad(name, "has the " + key + " " + node + ", expected a list of integers from 0");
    }
    return values;
  }

  private long bytes(String name, List<Long> shape, int elementBytes) {
    try {
      long bytes = elementBytes;
      for (long dimension : shape) {
        bytes = Math.multiplyExact(bytes, dimension);
      }
      return bytes;
    } catch (ArithmeticException e) {
      throw bad(name, "has the shape " + shape + ", which is more than any file can hold");
    }
  }

  /** The format allows neither overlaps nor holes: together the tensors are the data. */
  private void checkLayout(Map<String, TensorInfo> tensors) {
    List<TensorInfo> sorted = new ArrayList<>(tensors.values());
    sorted.sort(Comparator.comparingLong(TensorInfo::offset).thenComparingLong(TensorInfo::bytes));
    long next = dataStart;
    String previous = "the header";
    for (TensorInfo tensor : sorted) {
      if (tensor.offset() < next) {
        throw bad(
            tensor.name(),
            "overlaps "
                + previous
                + ": it begins "
                + (next - tensor.offset())
                + " bytes too early");
      }
      if (tensor.offset() > next) {
        throw bad(
            tensor.name(),
            "leaves a hole of " + (tensor.offset() - next) + " bytes after " + previous);
      }
      next = tensor.offset() + tensor.bytes();
      previous = "tensor " + tensor.name();
    }
    if (next != fileBytes) {
      throw new ModelLoadException(
          where
              + " has "
              + (fileBytes - next)
              + " bytes after "
              + previous
              + " that belong to no tensor. The file is damaged; fetch it again");
    }
  }

  private ModelLoadException bad(String name, String problem) {
    return new ModelLoadException(where + ": tensor " + name + " " + problem);
  }
}
