package dev.halcyon.engine.model;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.halcyon.engine.TinyCheckpoint;
import dev.halcyon.engine.weights.ModelFiles;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

/**
 * A tiny checkpoint and what Hugging Face transformers computes for it.
 *
 * @param name the fixture's folder
 * @param files its files
 * @param reference its reference.json
 */
public record Fixture(String name, ModelFiles files, JsonNode reference) {

  public static final List<String> NAMES =
      List.of(
          "llama2",
          "llama3-gqa-tied",
          "llama-bf16",
          "llama-f16",
          "llama-bias",
          "llama-sharded",
          "llama-rope-linear",
          "llama-rope-dynamic",
          "llama-rope-llama3",
          "llama-rope-yarn",
          "llama-rope-yarn-explicit",
          "mistral-full",
          "mistral-sliding",
          "qwen2",
          "qwen2-sliding",
          "qwen3",
          "gemma2",
          "gemma2-bf16",
          "gemma3",
          "gemma3-linear",
          "cohere2",
          "cohere2-bias");

  /** A prompt, its logits [promptIds.length][vocab] and the ids that follow it greedily. */
  public record Case(int[] promptIds, float[][] logits, int[] greedyIds) {}

  public static Fixture open(String name) {
    try {
      ModelFiles files = ModelFiles.directory(directory(name));
      byte[] reference = files.read("reference.json").orElseThrow();
      return new Fixture(name, files, new ObjectMapper().readTree(reference));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public static Path directory(String name) {
    return TinyCheckpoint.fixture("models/" + name);
  }

  /** The configuration as one of the forms, config.json or config-classic.json, has it. */
  ModelConfig config(String form) {
    try {
      return ModelConfig.parse(files.read(form).orElseThrow(), files.describe(form));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public List<Case> cases() {
    List<Case> cases = new ArrayList<>();
    int vocab = reference.get("vocab_size").intValue();
    for (JsonNode node : reference.get("cases")) {
      int[] prompt = ints(node.get("prompt_ids"));
      ByteBuffer bytes =
          ByteBuffer.wrap(Base64.getDecoder().decode(node.get("logits").textValue()))
              .order(ByteOrder.LITTLE_ENDIAN);
      float[][] logits = new float[prompt.length][vocab];
      for (float[] row : logits) {
        for (int i = 0; i < vocab; i++) {
          row[i] = bytes.getFloat();
        }
      }
      cases.add(new Case(prompt, logits, ints(node.get("greedy_ids"))));
    }
    return cases;
  }

  static int[] ints(JsonNode list) {
    int[] values = new int[list.size()];
    for (int i = 0; i < values.length; i++) {
      values[i] = list.get(i).intValue();
    }
    return values;
  }
}
