package dev.halcyon.engine.weights;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.ModelLoadException;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.HostTensor;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * The tensors of a checkpoint of one or many safetensors files. Opening reads and checks the
 * headers alone; a tensor's data is mapped when it is asked for.
 */
public final class Checkpoint {

  private static final String SINGLE = "model.safetensors";
  private static final String INDEX = "model.safetensors.index.json";

  /** Tensors above this size are split, as a buffer ends at 2 GiB. */
  private static final int MAX_SEGMENT_BYTES = 1 << 30;

  private final ModelFiles files;
  private final Map<String, TensorInfo> tensors;

  private Checkpoint(ModelFiles files, Map<String, TensorInfo> tensors) {
    this.files = files;
    this.tensors = Collections.unmodifiableMap(tensors);
  }

  /**
   * Opens model.safetensors or, if there is none, the files that model.safetensors.index.json
   * names.
   *
   * @throws ModelLoadException if a file is missing or not sound
   */
  public static Checkpoint open(ModelFiles files) {
    if (files.has(SINGLE)) {
      return new Checkpoint(files, SafetensorsHeader.read(files, SINGLE));
    }
    if (files.has(INDEX)) {
      return new Checkpoint(files, readSharded(files));
    }
    throw new ModelLoadException(
        files.description()
            + " has no weights: expected "
            + SINGLE
            + " or "
            + INDEX
            + ", found "
            + files.names()
            + ". Weights in another format have to be converted to safetensors");
  }

  private static Map<String, TensorInfo> readSharded(ModelFiles files) {
    Map<String, Map<String, TensorInfo>> shards = new HashMap<>();
    Map<String, TensorInfo> tensors = new LinkedHashMap<>();
    for (Map.Entry<String, JsonNode> entry : weightMap(files).properties()) {
      String name = entry.getKey();
      String file = shardName(files, name, entry.getValue());
      Map<String, TensorInfo> shard =
          shards.computeIfAbsent(file, f -> SafetensorsHeader.read(files, f));
      TensorInfo tensor = shard.get(name);
      if (tensor == null) {
        throw new ModelLoadException(
            files.describe(INDEX)
                + " says that tensor "
                + name
                + " is in "
                + file
                + ", but that file does not have it");
      }
      tensors.put(name, tensor);
    }
    return tensors;
  }

  private static ObjectNode weightMap(ModelFiles files) {
    String where = files.describe(INDEX);
    byte[] json;
    try {
      json = files.read(INDEX).orElseThrow(() -> new IOException("it is gone"));
    } catch (IOException e) {
      throw new ModelLoadException(where + " can't be read: " + e.getMessage(), e);
    }
    if (StrictJson.parseObject(json, where).get("weight_map") instanceof ObjectNode map) {
      return map;
    }
    throw new ModelLoadException(where + " has no weight_map from tensor names to file names");
  }

  private static String shardName(ModelFiles files, String tensor, JsonNode value) {
    String where = files.describe(INDEX);
    if (!value.isTextual() || !FileNames.isPlain(value.textValue())) {
      throw new ModelLoadException(
          where
              + " puts tensor "
              + tensor
              + " into "
              + value
              + ", expected the plain name of a file in the same folder");
    }
    String file = value.textValue();
    if (!files.has(file)) {
      throw new ModelLoadException(
          where + " puts tensor " + tensor + " into " + file + ", but there is no such file");
    }
    return file;
  }

  /** The type that most of the weights, by size, are stored in; F32 if there is none known. */
  public DType weightType() {
    DType most = DType.F32;
    long mostBytes = 0;
    for (DType type : DType.values()) {
      long bytes =
          tensors.values().stream()
              .filter(tensor -> tensor.type().equals(type.name()))
              .mapToLong(TensorInfo::bytes)
              .sum();
      if (bytes > mostBytes) {
        most = type;
        mostBytes = bytes;
      }
    }
    return most;
  }

  /** The names of all tensors. */
  public Set<String> names() {
    return tensors.keySet();
  }

  /** Where a tensor is; empty if the checkpoint has none of that name. */
  public Optional<TensorInfo> find(String name) {
    return Optional.ofNullable(tensors.get(name));
  }

  /**
   * Checks that a tensor is there, of a type that the engine reads and of the shape that it should
   * have.
   *
   * @param shape one or two dimensions
   * @throws ModelLoadException if it isn't
   */
  public TensorInfo require(String name, List<Long> shape) {
    TensorInfo tensor = tensors.get(name);
    if (tensor == null) {
      throw new ModelLoadException(
          "Tensor "
              + name
              + " of shape "
              + shape
              + " is missing from the weights in "
              + files.description()
              + ". The checkpoint is incomplete, or its config.json describes another model");
    }
    if (!tensor.shape().equals(shape)) {
      throw new ModelLoadException(
          files.describe(tensor.file())
              + ": tensor "
              + name
              + " has shape "
              + tensor.shape()
              + ", expected "
              + shape
              + " by config.json");
    }
    type(tensor);
    return tensor;
  }

  /**
   * A tensor's data, in segments of whole rows.
   *
   * @throws ModelLoadException if there is no such tensor, or none that the engine reads
   */
  public HostTensor tensor(String name) {
    return tensor(name, MAX_SEGMENT_BYTES);
  }

  HostTensor tensor(String name, int maxSegmentBytes) {
    TensorInfo tensor = tensors.get(name);
    if (tensor == null) {
      throw new ModelLoadException(
          "Tensor " + name + " is missing from the weights in " + files.description());
    }
    DType type = type(tensor);
    int dimensions = tensor.shape().size();
    long rows = dimensions == 2 ? tensor.shape().get(0) : 1;
    long cols = dimensions == 0 ? 0 : tensor.shape().get(dimensions - 1);
    long rowBytes = cols * type.bytes();
    if (dimensions > 2 || cols == 0 || rows == 0) {
      throw unreadable(tensor, "a vector or a matrix, not empty");
    }
    if (rows > Integer.MAX_VALUE || rowBytes > maxSegmentBytes) {
      throw unreadable(tensor, "at most 2147483647 rows of " + maxSegmentBytes + " bytes");
    }
    int rowsPerSegment = (int) Math.min(rows, maxSegmentBytes / rowBytes);
    List<ByteBuffer> segments = new ArrayList<>();
    for (long row = 0; row < rows; row += rowsPerSegment) {
      long segmentRows = Math.min(rowsPerSegment, rows - row);
      segments.add(map(tensor, row * rowBytes, (int) (segmentRows * rowBytes)));
    }
    return new HostTensor(name, type, (int) rows, (int) cols, rowsPerSegment, segments);
  }

  private ByteBuffer map(TensorInfo tensor, long begin, int bytes) {
    try {
      return files.map(tensor.file(), tensor.offset() + begin, bytes);
    } catch (IOException e) {
      throw new ModelLoadException(
          files.describe(tensor.file())
              + ": tensor "
              + tensor.name()
              + " can't be read: "
              + e.getMessage(),
          e);
    }
  }

  private DType type(TensorInfo tensor) {
    return switch (tensor.type()) {
      case "F32" -> DType.F32;
      case "F16" -> DType.F16;
      case "BF16" -> DType.BF16;
      default ->
          throw new ModelLoadException(
              files.describe(tensor.file())
                  + ": tensor "
                  + tensor.name()
                  + " has dtype "
                  + tensor.type()
                  + ", expected F32, F16 or BF16. Quantized checkpoints are not supported");
    };
  }

  private ModelLoadException unreadable(TensorInfo tensor, String expected) {
    return new ModelLoadException(
        files.describe(tensor.file())
            + ": tensor "
            + tensor.name()
            + " has shape "
            + tensor.shape()
            + ", expected "
            + expected);
  }
}
