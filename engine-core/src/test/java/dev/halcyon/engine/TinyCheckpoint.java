package dev.halcyon.engine;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;

/**
 * Writes a random Llama of a few thousand parameters with a byte-level tokenizer, for tests of
 * everything around the model. Its values are compared with one another only, never with a
 * reference.
 */
public final class TinyCheckpoint {

  public static final int VOCAB = 448;
  public static final int MAX_POSITIONS = 256;
  private static final int HIDDEN = 32;
  private static final int INNER = 48;
  private static final int LAYERS = 2;
  private static final int HEADS = 4;
  private static final int KV_HEADS = 2;
  private static final int HEAD_DIM = 8;

  private TinyCheckpoint() {}

  /** Writes the checkpoint into {@code directory}, which is returned. */
  public static Path write(Path directory) {
    return write(directory, VOCAB);
  }

  /** Writes the checkpoint with a vocabulary of another size, of at least {@link #VOCAB}. */
  public static Path write(Path directory, int vocab) {
    try {
      Files.createDirectories(directory);
      Files.writeString(directory.resolve("config.json"), config(vocab));
      Files.writeString(
          directory.resolve("generation_config.json"),
          "{\"eos_token_id\": 0, \"do_sample\": false}");
      for (String name : new String[] {"tokenizer.json", "tokenizer_config.json"}) {
        Files.copy(fixture("tokenizers/byte-level-bpe").resolve(name), directory.resolve(name));
      }
      writeWeights(directory.resolve("model.safetensors"), vocab);
      return directory;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** A folder among the test fixtures. */
  public static Path fixture(String name) {
    // From this module, from another one, and from where the modules are.
    return Stream.of("", "../engine-core", "engine-core")
        .map(module -> Path.of(module, "src/test/resources/fixtures", name))
        .filter(Files::exists)
        .findFirst()
        .orElseThrow(
            () ->
                new IllegalStateException(
                    "no fixture " + name + " near " + Path.of("").toAbsolutePath()));
  }

  private static String config(int vocab) {
    return String.format(
        "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": %d,"
            + " \"hidden_size\": %d, \"intermediate_size\": %d, \"num_hidden_layers\": %d,"
            + " \"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"head_dim\": %d,"
            + " \"hidden_act\": \"silu\", \"max_position_embeddings\": %d, \"rms_norm_eps\": 1e-5,"
            + " \"rope_theta\": 10000.0, \"tie_word_embeddings\": true, \"bos_token_id\": 0,"
            + " \"eos_token_id\": 0, \"torch_dtype\": \"float32\"}",
        vocab, HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, HEAD_DIM, MAX_POSITIONS);
  }

  private static void writeWeights(Path file, int vocab) throws IOException {
    Map<String, int[]> shapes = new LinkedHashMap<>();
    shapes.put("model.embed_tokens.weight", new int[] {vocab, HIDDEN});
    for (int i = 0; i < LAYERS; i++) {
      String layer = "model.layers." + i + ".";
      shapes.put(layer + "input_layernorm.weight", new int[] {HIDDEN});
      shapes.put(layer + "self_attn.q_proj.weight", new int[] {HEADS * HEAD_DIM, HIDDEN});
      shapes.put(layer + "self_attn.k_proj.weight", new int[] {KV_HEADS * HEAD_DIM, HIDDEN});
      shapes.put(layer + "self_attn.v_proj.weight", new int[] {KV_HEADS * HEAD_DIM, HIDDEN});
      shapes.put(layer + "self_attn.o_proj.weight", new int[] {HIDDEN, HEADS * HEAD_DIM});
      shapes.put(layer + "post_attention_layernorm.weight", new int[] {HIDDEN});
      shapes.put(layer + "mlp.gate_proj.weight", new int[] {INNER, HIDDEN});
      shapes.put(layer + "mlp.up_proj.weight", new int[] {INNER, HIDDEN});
      shapes.put(layer + "mlp.down_proj.weight", new int[] {HIDDEN, INNER});
    }
    shapes.put("model.norm.weight", new int[] {HIDDEN});
    StringBuilder header = new StringBuilder("{");
    int offset = 0;
    for (Map.Entry<String, int[]> entry : shapes.entrySet()) {
      int[] shape = entry.getValue();
      int bytes = 4 * elements(shape);
      header.append(
          String.format(
              "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%d,%d]}",
              offset == 0 ? "" : ",",
              entry.getKey(),
              shape.length == 1 ? "" + shape[0] : shape[0] + "," + shape[1],
              offset,
              offset + bytes));
      offset += bytes;
    }
    byte[] text = header.append("}").toString().getBytes(StandardCharsets.UTF_8);
    ByteBuffer out = ByteBuffer.allocate(8 + text.length + offset).order(ByteOrder.LITTLE_ENDIAN);
    out.putLong(text.length).put(text);
    Random random = new Random(20261201);
    for (Map.Entry<String, int[]> entry : shapes.entrySet()) {
      int[] shape = entry.getValue();
      // Norms around one; the rest so that a product of unit inputs has a deviation near one.
      float scale = shape.length == 1 ? 0.1f : (float) (1 / Math.sqrt(shape[1]));
      float centre = shape.length == 1 ? 1 : 0;
      boolean embedding = entry.getKey().startsWith("model.embed");
      for (int i = 0; i < elements(shape); i++) {
        out.putFloat(centre + (float) random.nextGaussian() * (embedding ? 0.5f : scale));
      }
    }
    Files.write(file, out.array());
  }

  private static int elements(int[] shape) {
    return shape.length == 1 ? shape[0] : shape[0] * shape[1];
  }
}
