package dev.halcyon.engine.tokenizer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.halcyon.engine.ModelLoadException;
import dev.halcyon.engine.weights.ModelFiles;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * What tokenizer_config.json and the files beside it say.
 *
 * @param tokenizerClass the class that transformers would make of it, or ""
 * @param bosToken the begin token's text
 * @param eosToken the end token's text
 * @param addBosToken whether encoding puts the begin token first, where the file says so
 * @param addEosToken whether encoding puts the end token last, where the file says so
 * @param chatTemplate the Jinja template for conversations: chat_template.jinja if there is one,
 *     else the configuration's, else chat_template.json's
 * @param modelMaxLength the longest text in tokens; empty where the file has transformers'
 *     "unlimited" (1e30) or nothing
 */
public record TokenizerConfig(
    String tokenizerClass,
    Optional<String> bosToken,
    Optional<String> eosToken,
    Optional<Boolean> addBosToken,
    Optional<Boolean> addEosToken,
    Optional<String> chatTemplate,
    OptionalInt modelMaxLength) {

  private static final String FILE = "tokenizer_config.json";

  /**
   * Reads the configuration; a checkpoint without the file has an empty one.
   *
   * @throws ModelLoadException if a file can't be read, or a value has the wrong type
   */
  public static TokenizerConfig read(ModelFiles files) {
    JsonNode config = json(files, FILE);
    JsonNode specialTokens = json(files, "special_tokens_map.json");
    return new TokenizerConfig(
        config.path("tokenizer_class").asText(""),
        token(files, config, specialTokens, "bos_token"),
        token(files, config, specialTokens, "eos_token"),
        flag(files, config, "add_bos_token"),
        flag(files, config, "add_eos_token"),
        chatTemplate(files, config),
        modelMaxLength(config.path("model_max_length")));
  }

  private static OptionalInt modelMaxLength(JsonNode value) {
    double length = value.asDouble(0);
    return length >= 1 && length < Integer.MAX_VALUE
        ? OptionalInt.of((int) length)
        : OptionalInt.empty();
  }

  /** A token is written as its text, or as an object that has the text as "content". */
  private static Optional<String> token(
      ModelFiles files, JsonNode config, JsonNode specialTokens, String key) {
    JsonNode value = config.has(key) ? config.get(key) : specialTokens.path(key);
    JsonNode text = value.isObject() ? value.path("content") : value;
    if (text.isTextual()) {
      return Optional.of(text.textValue());
    }
    if (value.isNull() || value.isMissingNode()) {
      return Optional.empty();
    }
    throw wrongType(files, key, "a string, or an object with a string \"content\"", value);
  }

  private static Optional<Boolean> flag(ModelFiles files, JsonNode config, String key) {
    JsonNode value = config.path(key);
    if (value.isBoolean()) {
      return Optional.of(value.booleanValue());
    }
    if (value.isNull() || value.isMissingNode()) {
      return Optional.empty();
    }
    throw wrongType(files, key, "true or false", value);
  }

  private static Optional<String> chatTemplate(ModelFiles files, JsonNode config) {
    Optional<String> file = readText(files, "chat_template.jinja");
    if (file.isPresent()) {
      return file;
    }
    JsonNode value = config.path("chat_template");
    if (value.isNull() || value.isMissingNode()) {
      value = json(files, "chat_template.json").path("chat_template");
    }
    if (value.isTextual()) {
      return Optional.of(value.textValue());
    }
    if (value.isArray()) {
      return defaultOf(files, value);
    }
    if (value.isNull() || value.isMissingNode()) {
      return Optional.empty();
    }
    throw wrongType(files, "chat_template", "a string or a list of named templates", value);
  }

  private static Optional<String> defaultOf(ModelFiles files, JsonNode namedTemplates) {
    for (JsonNode named : namedTemplates) {
      if (!named.path("name").isTextual() || !named.path("template").isTextual()) {
        throw wrongType(files, "chat_template", "entries with \"name\" and \"template\"", named);
      }
      if (named.get("name").textValue().equals("default")) {
        return Optional.of(named.get("template").textValue());
      }
    }
    return Optional.empty();
  }

  private static JsonNode json(ModelFiles files, String name) {
    ObjectMapper mapper = new ObjectMapper();
    try {
      Optional<byte[]> content = files.read(name);
      if (content.isEmpty()) {
        return mapper.createObjectNode();
      }
      JsonNode node = mapper.readTree(content.get());
      if (!node.isObject()) {
        throw new IOException("it is not a JSON object");
      }
      return node;
    } catch (IOException e) {
      throw unreadable(files, name, e);
    }
  }

  private static Optional<String> readText(ModelFiles files, String name) {
    try {
      return files.read(name).map(bytes -> new String(bytes, StandardCharsets.UTF_8));
    } catch (IOException e) {
      throw unreadable(files, name, e);
    }
  }

  private static ModelLoadException unreadable(ModelFiles files, String name, IOException e) {
    return new ModelLoadException(
        files.description() + ": " + name + " can't be read: " + e.getMessage(), e);
  }

  private static ModelLoadException wrongType(
      ModelFiles files, String key, String expected, JsonNode value) {
    return new ModelLoadException(
        files.description()
            + ": "
            + FILE
            + " has "
            + key
            + " = "
            + value
            + ", expected "
            + expected);
  }
}
