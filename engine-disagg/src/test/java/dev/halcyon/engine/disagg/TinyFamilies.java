package dev.halcyon.engine.disagg;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.TinyCheckpoint;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/** The small checkpoints of all kinds of models that there are to test with. */
public final class TinyFamilies {

  private static final ObjectMapper MAPPER = new ObjectMapper();

  private TinyFamilies() {}

  /** Their folders. They have no tokenizers. */
  public static Stream<Path> all() throws IOException {
    try (Stream<Path> models = Files.list(TinyCheckpoint.fixture("models"))) {
      return models.filter(Files::isDirectory).sorted().toList().stream();
    }
  }

  /** A copy of one in {@code directory}, with as many of a tokenizer's tokens as it has. */
  public static Path withTokenizer(Path model, Path directory) throws IOException {
    Files.createDirectories(directory);
    try (Stream<Path> files = Files.list(model)) {
      for (Path file : files.toList()) {
        Files.copy(file, directory.resolve(file.getFileName()));
      }
    }
    JsonNode config = MAPPER.readTree(model.resolve("config.json").toFile());
    int vocab =
        config.path("text_config").path("vocab_size").asInt(config.path("vocab_size").asInt());
    Path tokenizer = TinyCheckpoint.fixture("tokenizers/byte-level-bpe/tokenizer.json");
    ObjectNode json = (ObjectNode) MAPPER.readTree(tokenizer.toFile());
    json.putArray("added_tokens");
    json.putNull("post_processor");
    ObjectNode bpe = (ObjectNode) json.get("model");
    bpe.putArray("merges");
    List.copyOf(bpe.get("vocab").properties()).stream()
        .filter(token -> token.getValue().intValue() >= vocab)
        .forEach(token -> ((ObjectNode) bpe.get("vocab")).remove(token.getKey()));
    Files.writeString(directory.resolve("tokenizer.json"), json.toString());
    return directory;
  }
}
