package dev.halcyon.engine.weights;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.halcyon.engine.ModelLoadException;
import java.io.IOException;

/**
 * The JSON objects of a checkpoint. Duplicate keys are refused; NaN and Infinity, which Python
 * writes, are read so that the message can name the key that has them.
 */
public final class StrictJson {

  private static final ObjectMapper MAPPER =
      JsonMapper.builder()
          .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
          .enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .build();

  private StrictJson() {}

  /**
   * Reads a JSON object.
   *
   * @param json UTF-8 text
   * @param what what the text is, for the message
   * @throws ModelLoadException if it isn't a JSON object
   */
  public static ObjectNode parseObject(byte[] json, String what) {
    JsonNode node;
    try {
      node = MAPPER.readTree(json);
    } catch (JsonProcessingException e) {
      throw new ModelLoadException(what + " is not valid JSON: " + e.getOriginalMessage(), e);
    } catch (IOException e) {
      throw new ModelLoadException(what + " can't be read: " + e.getMessage(), e);
    }
    if (node instanceof ObjectNode object) {
      return object;
    }
    throw new ModelLoadException(
        what + " is not a JSON object but " + node.getNodeType().name().toLowerCase());
  }
}
