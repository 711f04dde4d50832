package dev.halcyon.engine.model;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.weights.SafetensorsWriter;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A fixture's weights in memory, to be changed and written elsewhere. */
final class CheckpointEditor {

  private static final ObjectMapper JSON = new ObjectMapper();

  /** A tensor in the file format's terms. */
  record Tensor(String dtype, List<Long> shape, byte[] data) {}

  final Map<String, Tensor> tensors = new LinkedHashMap<>();

  static CheckpointEditor of(String fixture) {
    try {
      byte[] file = Files.readAllBytes(Fixture.directory(fixture).resolve("model.safetensors"));
      int length = (int) ByteBuffer.wrap(file).order(ByteOrder.LITTLE_ENDIAN).getLong();
      CheckpointEditor editor = new CheckpointEditor();
      for (Map.Entry<String, JsonNode> field :
          ((ObjectNode) JSON.readTree(file, 8, length)).properties()) {
        if (!field.getKey().equals("__metadata__")) {
          editor.tensors.put(field.getKey(), tensor(field.getValue(), file, 8 + length));
        }
      }
      return editor;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Tensor tensor(JsonNode node, byte[] file, int dataStart) {
    JsonNode offsets = node.get("data_offsets");
    List<Long> shape = new ArrayList<>();
    node.get("shape").forEach(dimension -> shape.add(dimension.longValue()));
    return new Tensor(
        node.get("dtype").textValue(),
        shape,
        Arrays.copyOfRange(
            file, dataStart + offsets.get(0).intValue(), dataStart + offsets.get(1).intValue()));
  }

  void write(Path file) {
    ObjectNode header = JSON.createObjectNode();
    ByteArrayOutputStream data = new ByteArrayOutputStream();
    tensors.forEach(
        (name, tensor) -> {
          ObjectNode entry = header.putObject(name).put("dtype", tensor.dtype());
          tensor.shape().forEach(entry.putArray("shape")::add);
          entry.putArray("data_offsets").add(data.size()).add(data.size() + tensor.data().length);
          data.writeBytes(tensor.data());
        });
    SafetensorsWriter.writeRaw(file, header.toString(), data.toByteArray());
  }
}
