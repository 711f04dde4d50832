package dev.halcyon.engine.benchmarks;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.List;

/**
 * Writes a checkpoint in Hugging Face layout with random BF16 weights: the speed of an engine does
 * not depend on what the weights say. Matrices are close to normal with standard deviation 0.02,
 * norms are one. The rows of the LM head that belong to special tokens are zero, so that greedy
 * decoding never picks one and an engine that can't ignore the end token runs to full length too.
 */
final class RandomCheckpoint {

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final short BF16_ONE = 0x3f80;
  private static final int USUAL_CONTEXT = 2048;
  private static final int BUFFER_BYTES = 1 << 22;

  private final ModelShape shape;
  private final int context;
  private final RandomWeights weights;

  private RandomCheckpoint(ModelShape shape, int context, long seed) {
    this.shape = shape;
    this.context = context;
    this.weights = new RandomWeights(seed);
  }

  /**
   * The checkpoint of a shape and seed inside a cache folder, written if it is not there yet. It is
   * complete or absent: it is written beside its place and then moved.
   */
  static Path inCache(Path cache, ModelShape shape, long seed) throws IOException {
    return inCache(cache, shape, USUAL_CONTEXT, seed);
  }

  /** As above, for sequences of at least so many tokens. */
  static Path inCache(Path cache, ModelShape shape, int leastContext, long seed)
      throws IOException {
    int context = Math.max(USUAL_CONTEXT, leastContext);
    String name =
        String.format(
            "llama-bf16-h%d-i%d-l%d-a%d-k%d-v%d-s%d",
            shape.hidden(),
            shape.inner(),
            shape.layers(),
            shape.heads(),
            shape.kvHeads(),
            shape.vocab(),
            seed);
    if (context > USUAL_CONTEXT) {
      name += "-c" + context;
    }
    Path place = cache.resolve(name);
    if (!Files.isDirectory(place)) {
      Files.createDirectories(cache);
      Path work = Files.createTempDirectory(cache, name + ".part");
      new RandomCheckpoint(shape, context, seed).write(work);
      Files.move(work, place, StandardCopyOption.ATOMIC_MOVE);
    }
    return place;
  }

  private void write(Path directory) throws IOException {
    JSON.writeValue(directory.resolve("config.json").toFile(), config());
    JSON.writeValue(directory.resolve("tokenizer.json").toFile(), tokenizer());
    JSON.writeValue(directory.resolve("tokenizer_config.json").toFile(), tokenizerConfig());
    writeWeights(directory.resolve("model.safetensors"));
  }

  private ObjectNode config() {
    ObjectNode config = JSON.createObjectNode();
    config.putArray("architectures").add("LlamaForCausalLM");
    config.put("model_type", "llama");
    config.put("hidden_size", shape.hidden());
    config.put("intermediate_size", shape.inner());
    config.put("num_hidden_layers", shape.layers());
    config.put("num_attention_heads", shape.heads());
    config.put("num_key_value_heads", shape.kvHeads());
    config.put("head_dim", shape.headDim());
    config.put("vocab_size", shape.vocab());
    config.put("max_position_embeddings", context);
    config.put("rms_norm_eps", 1e-5);
    config.put("rope_theta", 10000.0);
    config.put("hidden_act", "silu");
    config.put("tie_word_embeddings", false);
    config.put("torch_dtype", "bfloat16");
    config.put("bos_token_id", BenchmarkVocabulary.BEGIN);
    config.put("eos_token_id", BenchmarkVocabulary.END);
    return config;
  }

  private ObjectNode tokenizer() {
    ObjectNode tokenizer = JSON.createObjectNode();
    tokenizer.put("version", "1.0");
    ArrayNode added = tokenizer.putArray("added_tokens");
    for (int id = 0; id < BenchmarkVocabulary.SPECIALS; id++) {
      ObjectNode token = added.addObject();
      token.put("id", id);
      token.put("content", BenchmarkVocabulary.token(id));
      for (String flag : List.of("single_word", "lstrip", "rstrip", "normalized")) {
        token.put(flag, false);
      }
      token.put("special", true);
    }
    ObjectNode decoder = tokenizer.putObject("decoder");
    decoder.put("type", "Metaspace");
    decoder.put("replacement", "\u2581");
    decoder.put("prepend_scheme", "never");
    decoder.put("split", false);
    ObjectNode model = tokenizer.putObject("model");
    model.put("type", "BPE");
    model.put("unk_token", BenchmarkVocabulary.token(BenchmarkVocabulary.UNKNOWN));
    model.put("fuse_unk", false);
    model.put("byte_fallback", true);
    ObjectNode vocabulary = model.putObject("vocab");
    for (int id = 0; id < shape.vocab(); id++) {
      vocabulary.put(BenchmarkVocabulary.token(id), id);
    }
    model.putArray("merges");
    return tokenizer;
  }

  private ObjectNode tokenizerConfig() {
    ObjectNode config = JSON.createObjectNode();
    config.put("bos_token", BenchmarkVocabulary.token(BenchmarkVocabulary.BEGIN));
    config.put("eos_token", BenchmarkVocabulary.token(BenchmarkVocabulary.END));
    config.put("unk_token", BenchmarkVocabulary.token(BenchmarkVocabulary.UNKNOWN));
    config.put("add_bos_token", false);
    return config;
  }

  private void writeWeights(Path file) throws IOException {
    byte[] header = header();
    ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER_BYTES).order(ByteOrder.LITTLE_ENDIAN);
    try (FileChannel channel =
        FileChannel.open(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
      buffer.putLong(header.length);
      drain(buffer, channel);
      drain(ByteBuffer.wrap(header), channel, false);
      for (ModelShape.Tensor tensor : shape.tensors()) {
        writeTensor(tensor, buffer, channel);
      }
    }
  }

  private byte[] header() throws IOException {
    ObjectNode header = JSON.createObjectNode();
    header.putObject("__metadata__").put("format", "pt");
    long offset = 0;
    for (ModelShape.Tensor tensor : shape.tensors()) {
      ObjectNode entry = header.putObject(tensor.name());
      entry.put("dtype", "BF16");
      ArrayNode dimensions = entry.putArray("shape").add(tensor.rows());
      if (!tensor.isVector()) {
        dimensions.add(tensor.cols());
      }
      entry.putArray("data_offsets").add(offset).add(offset + tensor.bytes());
      offset += tensor.bytes();
    }
    String json = JSON.writeValueAsString(header);
    // The data begins on an 8-byte border; the format allows spaces after the header.
    String padded = json + " ".repeat((8 - json.length() % 8) % 8);
    return padded.getBytes(StandardCharsets.US_ASCII);
  }

  private void writeTensor(ModelShape.Tensor tensor, ByteBuffer buffer, FileChannel channel) {
    long zeros =
        tensor.name().equals("lm_head.weight")
            ? (long) BenchmarkVocabulary.SPECIALS * tensor.cols()
            : 0;
    long elements = tensor.elements();
    for (long i = 0; i < elements; i++) {
      if (!buffer.hasRemaining()) {
        drain(buffer, channel);
      }
      if (tensor.isVector()) {
        buffer.putShort(BF16_ONE);
      } else {
        buffer.putShort(i < zeros ? 0 : weights.next());
      }
    }
    drain(buffer, channel);
  }

  private static void drain(ByteBuffer buffer, FileChannel channel) {
    drain(buffer.flip(), channel, true);
  }

  private static void drain(ByteBuffer buffer, FileChannel channel, boolean clear) {
    try {
      while (buffer.hasRemaining()) {
        channel.write(buffer);
      }
    } catch (IOException e) {
      throw new UncheckedIOException("cannot write the benchmark's checkpoint", e);
    }
    if (clear) {
      buffer.clear();
    }
  }
}
