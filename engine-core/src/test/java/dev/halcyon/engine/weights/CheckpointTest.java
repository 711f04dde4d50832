package dev.halcyon.engine.weights;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.halcyon.engine.ModelLoadException;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.HostTensor;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CheckpointTest {

  private static final byte[] NOTHING = {};

  @TempDir Path directory;
  private Path single;

  @BeforeEach
  void nameFile() {
    single = directory.resolve("model.safetensors");
  }

  private Checkpoint open() {
    return Checkpoint.open(ModelFiles.directory(directory));
  }

  private void refuses(String... parts) {
    assertThatThrownBy(this::open)
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContainingAll(parts)
        .hasMessageContaining(directory.toString());
  }

  @Test
  void readsTensorsWhereTheyLie() {
    new SafetensorsWriter()
        .tensor("a", "F32", 4, 3, 5)
        .tensor("b", "BF16", 2, 7)
        .tensor("empty", "I64", 8, 0, 4)
        .write(single);
    Checkpoint checkpoint = open();

    assertThat(checkpoint.names()).containsExactlyInAnyOrder("a", "b", "empty");
    HostTensor a = checkpoint.tensor("a");
    assertThat(a.dtype()).isEqualTo(DType.F32);
    assertThat(List.of(a.rows(), a.cols(), a.segments().size())).containsExactly(3, 5, 1);
    ByteBuffer data = a.segments().get(0);
    assertThat(data.isDirect()).isTrue();
    assertThat(data.order()).isEqualTo(ByteOrder.LITTLE_ENDIAN);
    assertThat(data.remaining()).isEqualTo(60);
    assertThat(data.get(59)).isEqualTo((byte) 59);
    HostTensor b = checkpoint.tensor("b");
    assertThat(List.of(b.rows(), b.cols())).containsExactly(1, 7);
    // b begins behind the 60 bytes of a: its first element is bytes 60 and 61.
    assertThat(b.segments().get(0).getShort(0)).isEqualTo((short) (61 * 256 + 60));
  }

  @Test
  void theTypeOfMostBytesIsTheWeightsType() {
    // 6 elements of float16 are 12 bytes, as many as 3 of float32; 7 are more, and I64 is no
    // weight.
    new SafetensorsWriter()
        .tensor("a", "F32", 4, 3)
        .tensor("b", "F16", 2, 7)
        .tensor("ids", "I64", 8, 9)
        .write(single);

    assertThat(open().weightType()).isEqualTo(DType.F16);
  }

  @Test
  void splitsLargeTensorsAtRows() {
    new SafetensorsWriter().tensor("skip", "F16", 2, 3).tensor("a", "F32", 4, 5, 3).write(single);

    // 12 bytes a row: two rows fit into 30 bytes.
    HostTensor a = open().tensor("a", 30);

    assertThat(a.rowsPerSegment()).isEqualTo(2);
    assertThat(a.segments().stream().map(ByteBuffer::remaining)).containsExactly(24, 24, 12);
    // Row 4 begins at byte 6 + 4 * 12.
    assertThat(a.segments().get(2).get(0)).isEqualTo((byte) 54);
    assertThatThrownBy(() -> open().tensor("a", 11))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContainingAll("tensor a", "[5, 3]");
  }

  @Test
  void refusesDirectoryThatIsNone() throws IOException {
    Path missing = directory.resolve("missing");
    assertThatThrownBy(() -> ModelFiles.directory(missing))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContaining(missing + " does not exist");
    Path file = Files.createFile(directory.resolve("file"));
    assertThatThrownBy(() -> ModelFiles.directory(file))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContaining(file + " is not a directory");
  }

  @Test
  void refusesDirectoryWithoutWeights() throws IOException {
    Files.createFile(directory.resolve("pytorch_model.bin"));
    refuses("model.safetensors.index.json", "pytorch_model.bin", "converted to safetensors");
  }

  @Test
  void refusesTruncatedFiles() throws IOException {
    new SafetensorsWriter().tensor("a", "F32", 4, 3, 5).write(single);
    byte[] whole = Files.readAllBytes(single);

    // Wherever the file is cut, it is refused by its name.
    for (int length = 0; length < whole.length; length++) {
      Files.write(single, Arrays.copyOf(whole, length));
      refuses("model.safetensors", length < whole.length - 60 ? "is truncated" : "tensor a");
    }
  }

  @Test
  void refusesHeaderLengthBeyondTheFile() {
    SafetensorsWriter.writeRaw(single, 1000, "{}".getBytes(StandardCharsets.UTF_8), NOTHING);
    refuses("model.safetensors", "should have 1000 bytes", "has 2 after");
  }

  @Test
  void refusesAbsurdHeaderLength() {
    SafetensorsWriter.writeRaw(single, -1, "{}".getBytes(StandardCharsets.UTF_8), NOTHING);
    refuses("model.safetensors", "18446744073709551615", "2 to 100000000");
    SafetensorsWriter.writeRaw(single, 1, "{}".getBytes(StandardCharsets.UTF_8), NOTHING);
    refuses("model.safetensors", "claims a header of 1 bytes");
  }

  @Test
  void refusesHeaderThatIsNoJsonObject() {
    SafetensorsWriter.writeRaw(single, "{\"a\":", NOTHING);
    refuses("The header of model.safetensors", "not valid JSON");
    SafetensorsWriter.writeRaw(single, "[1, 2]", NOTHING);
    refuses("The header of model.safetensors", "not a JSON object but array");
    SafetensorsWriter.writeRaw(single, "{} {}", NOTHING);
    refuses("The header of model.safetensors", "not valid JSON");
    SafetensorsWriter.writeRaw(single, "{\"a\": 1}", NOTHING);
    refuses("model.safetensors", "tensor a", "not an object");
  }

  @Test
  void refusesDuplicateTensors() {
    new SafetensorsWriter().tensor("twice", "F32", 4, 1).tensor("twice", "F32", 4, 1).write(single);
    refuses("model.safetensors", "twice");
  }

  @Test
  void refusesOffsetsOutsideTheFile() {
    new SafetensorsWriter().entry("a", "F32", "[4]", 0, 16).data(12).write(single);
    refuses("model.safetensors", "tensor a", "[0, 16]", "12 bytes of data");
    new SafetensorsWriter().entry("a", "F32", "[4]", -4, 12).data(12).write(single);
    refuses("model.safetensors", "tensor a", "[-4,12]");
    new SafetensorsWriter().entry("a", "F32", "[1]", 8, 4).data(12).write(single);
    refuses("model.safetensors", "tensor a", "[8, 4]");
  }

  @Test
  void refusesOverlapsAndHoles() {
    new SafetensorsWriter()
        .entry("a", "F32", "[2]", 0, 8)
        .entry("b", "F32", "[2]", 4, 12)
        .data(12)
        .write(single);
    refuses("model.safetensors", "tensor b overlaps tensor a", "4 bytes");
    new SafetensorsWriter()
        .entry("a", "F32", "[1]", 0, 4)
        .entry("b", "F32", "[1]", 8, 12)
        .data(12)
        .write(single);
    refuses("model.safetensors", "tensor b", "hole of 4 bytes after tensor a");
    new SafetensorsWriter().tensor("a", "F32", 4, 1).data(3).write(single);
    refuses("model.safetensors", "3 bytes after tensor a");
  }

  @Test
  void refusesOffsetsThatDoNotFitTheShape() {
    new SafetensorsWriter().entry("a", "F32", "[2, 3]", 0, 20).data(20).write(single);
    refuses("model.safetensors", "tensor a", "[2, 3]", "F32", "needs 24 bytes", "span 20");
  }

  @Test
  void refusesShapesThatCanNotBe() {
    new SafetensorsWriter().entry("a", "F32", "[-2, -2]", 0, 16).data(16).write(single);
    refuses("model.safetensors", "tensor a", "shape [-2,-2]");
    // 2^31 * 2^31 * 4 bytes are 2^64, which a long would take for 0.
    new SafetensorsWriter().entry("a", "F32", "[2147483648, 2147483648]", 0, 0).write(single);
    refuses("model.safetensors", "tensor a", "more than any file can hold");
    new SafetensorsWriter().entry("a", "F32", "[1.5]", 0, 6).data(6).write(single);
    refuses("model.safetensors", "tensor a", "shape [1.5]");
    SafetensorsWriter.writeRaw(single, "{\"a\":{\"dtype\":\"F32\"}}", NOTHING);
    refuses("model.safetensors", "tensor a", "shape");
    SafetensorsWriter.writeRaw(
        single, "{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0]}}", NOTHING);
    refuses("model.safetensors", "tensor a", "data_offsets [0]");
  }

  @Test
  void refusesTypesThatItCanNotRead() {
    new SafetensorsWriter().entry("a", "Q4_0", "[4]", 0, 2).data(2).write(single);
    refuses("model.safetensors", "tensor a", "unknown dtype 'Q4_0'", "F32, F16 or BF16");

    new SafetensorsWriter().tensor("ids", "I64", 8, 2).tensor("w", "F32", 4, 2).write(single);
    Checkpoint checkpoint = open();
    assertThat(checkpoint.tensor("w").rows()).isEqualTo(1);
    assertThatThrownBy(() -> checkpoint.tensor("ids"))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContainingAll("model.safetensors", "tensor ids", "I64", "F32, F16 or BF16");
  }

  @Test
  void refusesMissingTensorsAndWrongShapes() {
    new SafetensorsWriter().tensor("w", "F32", 4, 2, 3).write(single);
    Checkpoint checkpoint = open();
    assertThatThrownBy(() -> checkpoint.require("v", List.of(2L)))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContainingAll("Tensor v of shape [2] is missing", directory.toString());
    assertThatThrownBy(() -> checkpoint.require("w", List.of(3L, 2L)))
        .isInstanceOf(ModelLoadException.class)
        .hasMessageContainingAll("model.safetensors", "tensor w has shape [2, 3], expected [3, 2]");
  }

  private void index(String json) throws IOException {
    Files.writeString(directory.resolve("model.safetensors.index.json"), json);
  }

  @Test
  void readsSeveralFilesThroughTheIndex() throws IOException {
    new SafetensorsWriter().tensor("a", "F32", 4, 2).write(directory.resolve("1.safetensors"));
    new SafetensorsWriter().tensor("b", "F16", 2, 3).write(directory.resolve("2.safetensors"));
    index("{\"weight_map\": {\"a\": \"1.safetensors\", \"b\": \"2.safetensors\"}}");

    Checkpoint checkpoint = open();

    assertThat(checkpoint.names()).containsExactlyInAnyOrder("a", "b");
    assertThat(checkpoint.tensor("b").dtype()).isEqualTo(DType.F16);
    assertThat(checkpoint.find("a").orElseThrow().file()).isEqualTo("1.safetensors");
  }

  @Test
  void refusesIndexThatDoesNotFitTheFiles() throws IOException {
    new SafetensorsWriter().tensor("a", "F32", 4, 2).write(directory.resolve("1.safetensors"));
    String index = "model.safetensors.index.json";
    index("{\"weight_map\": {\"a\": \"1.safetensors\", \"b\": \"2.safetensors\"}}");
    refuses(index, "tensor b into 2.safetensors", "no such file");
    index("{\"weight_map\": {\"a\": \"1.safetensors\", \"b\": \"1.safetensors\"}}");
    refuses(index, "tensor b is in 1.safetensors", "does not have it");
    index("{\"weight_map\": {\"a\": 7}}");
    refuses(index, "tensor a into 7", "plain name");
    index("{\"weight_map\": {\"a\": \"1.safetensors\", \"a\": \"1.safetensors\"}}");
    refuses(index, "not valid JSON", "'a'");
    index("{\"metadata\": {}}");
    refuses(index, "no weight_map");
  }

  @Test
  void refusesIndexThatLeadsOutOfTheFolder() throws IOException {
    Path inside = Files.createDirectory(directory.resolve("inside"));
    new SafetensorsWriter().tensor("a", "F32", 4, 2).write(directory.resolve("x.safetensors"));
    for (String name :
        List.of(
            "../x.safetensors", "..", directory.resolve("x.safetensors").toString(), "..\\\\x")) {
      Files.writeString(
          inside.resolve("model.safetensors.index.json"),
          "{\"weight_map\": {\"a\": \"" + name + "\"}}");
      assertThatThrownBy(() -> Checkpoint.open(ModelFiles.directory(inside)))
          .isInstanceOf(ModelLoadException.class)
          .hasMessageContainingAll("model.safetensors.index.json", "tensor a", "plain name");
    }
    ModelFiles files = ModelFiles.directory(inside);
    assertThatThrownBy(() -> files.read("../x.safetensors"))
        .isInstanceOf(IllegalArgumentException.class);
  }
}
