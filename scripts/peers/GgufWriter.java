import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Writes the benchmark's checkpoint (config.json and one model.safetensors, BF16, Llama) as a GGUF
 * file with the same BF16 matrices: {@code java GgufWriter.java CHECKPOINT OUT.gguf}. It knows the
 * files that CpuBenchmark writes, and no others.
 *
 * <p>Format: version 3 of the GGUF specification in the ggml repository. Norms are F32 there. The
 * rows of the query and key matrices are reordered, because llama.cpp rotates neighbouring pairs
 * of a head where Hugging Face rotates its two halves.
 */
final class GgufWriter {

  private static final int ALIGNMENT = 32;
  private static final int TYPE_F32 = 0;
  private static final int TYPE_BF16 = 30;

  private record Tensor(String source, String name, int rows, int cols, long begin, long end) {

    boolean isVector() {
      return cols == 0;
    }

    /** Norms become F32, twice the bytes. */
    long outBytes() {
      return isVector() ? 2 * (end - begin) : end - begin;
    }
  }

  private final String config;
  private final Path weights;
  private final List<Tensor> tensors = new ArrayList<>();
  private long dataStart;

  private GgufWriter(Path checkpoint) throws IOException {
    config = Files.readString(checkpoint.resolve("config.json"));
    weights = checkpoint.resolve("model.safetensors");
    readHeader();
  }

  public static void main(String[] args) throws IOException {
    Path out = Path.of(args[1]);
    Path part = out.resolveSibling(out.getFileName() + ".part");
    new GgufWriter(Path.of(args[0])).write(part);
    Files.move(part, out, StandardCopyOption.ATOMIC_MOVE);
  }

  private int number(String key) {
    Matcher matcher = Pattern.compile("\"" + key + "\"\\s*:\\s*(\\d+)").matcher(config);
    if (!matcher.find()) {
      throw new IllegalStateException("config.json has no " + key);
    }
    return Integer.parseInt(matcher.group(1));
  }

  private void readHeader() throws IOException {
    try (FileChannel channel = FileChannel.open(weights)) {
      ByteBuffer length = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
      readFully(channel, length, 0);
      ByteBuffer header = ByteBuffer.allocate(Math.toIntExact(length.getLong(0)));
      readFully(channel, header, 8);
      dataStart = 8L + header.capacity();
      Matcher entry =
          Pattern.compile(
                  "\"([a-z0-9_.]+)\":\\{\"dtype\":\"BF16\",\"shape\":\\[(\\d+)(?:,(\\d+))?\\],"
                      + "\"data_offsets\":\\[(\\d+),(\\d+)\\]\\}")
              .matcher(new String(header.array(), StandardCharsets.US_ASCII));
      while (entry.find()) {
        tensors.add(
            new Tensor(
                entry.group(1),
                ggufName(entry.group(1)),
                Integer.parseInt(entry.group(2)),
                entry.group(3) == null ? 0 : Integer.parseInt(entry.group(3)),
                Long.parseLong(entry.group(4)),
                Long.parseLong(entry.group(5))));
      }
    }
  }

  private static String ggufName(String name) {
    return switch (name) {
      case "model.embed_tokens.weight" -> "token_embd.weight";
      case "model.norm.weight" -> "output_norm.weight";
      case "lm_head.weight" -> "output.weight";
      default ->
          name.replace("model.layers.", "blk.")
              .replace("input_layernorm", "attn_norm")
              .replace("post_attention_layernorm", "ffn_norm")
              .replace("self_attn.q_proj", "attn_q")
              .replace("self_attn.k_proj", "attn_k")
              .replace("self_attn.v_proj", "attn_v")
              .replace("self_attn.o_proj", "attn_output")
              .replace("mlp.gate_proj", "ffn_gate")
              .replace("mlp.up_proj", "ffn_up")
              .replace("mlp.down_proj", "ffn_down");
    };
  }

  private void write(Path out) throws IOException {
    try (OutputStream file = Files.newOutputStream(out);
        LittleEndian data = new LittleEndian(new BufferedOutputStream(file, 1 << 20))) {
      Map<String, Object> metadata = metadata();
      data.write("GGUF".getBytes(StandardCharsets.US_ASCII));
      data.int32(3);
      data.int64(tensors.size());
      data.int64(metadata.size());
      for (Map.Entry<String, Object> entry : metadata.entrySet()) {
        data.string(entry.getKey());
        data.value(entry.getValue());
      }
      long offset = 0;
      for (Tensor tensor : tensors) {
        data.string(tensor.name());
        data.int32(tensor.isVector() ? 1 : 2);
        // Dimensions go from the fastest to the slowest.
        if (!tensor.isVector()) {
          data.int64(tensor.cols());
        }
        data.int64(tensor.rows());
        data.int32(tensor.isVector() ? TYPE_F32 : TYPE_BF16);
        data.int64(offset);
        offset = aligned(offset + tensor.outBytes());
      }
      data.align();
      try (FileChannel channel = FileChannel.open(weights, StandardOpenOption.READ)) {
        for (Tensor tensor : tensors) {
          writeTensor(tensor, channel, data);
          data.align();
        }
      }
    }
  }

  private Map<String, Object> metadata() {
    int vocab = number("vocab_size");
    Map<String, Object> metadata = new LinkedHashMap<>();
    metadata.put("general.architecture", "llama");
    metadata.put("general.name", "benchmark");
    metadata.put("general.file_type", 32);
    metadata.put("llama.block_count", number("num_hidden_layers"));
    metadata.put("llama.context_length", number("max_position_embeddings"));
    metadata.put("llama.embedding_length", number("hidden_size"));
    metadata.put("llama.feed_forward_length", number("intermediate_size"));
    metadata.put("llama.attention.head_count", number("num_attention_heads"));
    metadata.put("llama.attention.head_count_kv", number("num_key_value_heads"));
    metadata.put("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    metadata.put("llama.rope.dimension_count", number("head_dim"));
    metadata.put("llama.rope.freq_base", 10000f);
    metadata.put("llama.vocab_size", vocab);
    metadata.put("tokenizer.ggml.model", "llama");
    String[] tokens = new String[vocab];
    float[] scores = new float[vocab];
    int[] types = new int[vocab];
    for (int id = 0; id < vocab; id++) {
      tokens[id] = token(id);
      scores[id] = -id;
      types[id] = tokenType(id);
    }
    metadata.put("tokenizer.ggml.tokens", tokens);
    metadata.put("tokenizer.ggml.scores", scores);
    metadata.put("tokenizer.ggml.token_type", types);
    metadata.put("tokenizer.ggml.unknown_token_id", 0);
    metadata.put("tokenizer.ggml.bos_token_id", 1);
    metadata.put("tokenizer.ggml.eos_token_id", 2);
    metadata.put("tokenizer.ggml.add_bos_token", false);
    metadata.put("tokenizer.ggml.add_space_prefix", false);
    return metadata;
  }

  /** The same vocabulary as that of the checkpoint's tokenizer.json. */
  private static String token(int id) {
    if (id < 3) {
      return List.of("<unk>", "<s>", "</s>").get(id);
    } else if (id < 259) {
      return String.format("<0x%02X>", id - 3);
    } else if (id < 285) {
      return String.valueOf((char) ('a' + id - 259));
    }
    return "\u2581w" + id;
  }

  /** Normal 1, unknown 2, control 3, byte 6. */
  private static int tokenType(int id) {
    if (id == 0) {
      return 2;
    } else if (id < 3) {
      return 3;
    }
    return id < 259 ? 6 : 1;
  }

  private void writeTensor(Tensor tensor, FileChannel channel, LittleEndian data)
      throws IOException {
    if (tensor.isVector()) {
      ByteBuffer norm = read(channel, tensor.begin(), tensor.rows() * 2);
      for (int i = 0; i < tensor.rows(); i++) {
        data.int32(norm.getShort(2 * i) << 16);
      }
      return;
    }
    int rowBytes = tensor.cols() * 2;
    int headDim = number("head_dim");
    boolean rotated = tensor.name().contains("attn_q.") || tensor.name().contains("attn_k.");
    ByteBuffer block = null;
    for (int row = 0; row < tensor.rows(); row++) {
      int inHead = row % headDim;
      if (inHead == 0) {
        int rows = Math.min(headDim, tensor.rows() - row);
        block = read(channel, tensor.begin() + (long) row * rowBytes, rows * rowBytes);
      }
      // Row 2 i + j of a head comes from row i of its half j.
      int source = rotated ? inHead % 2 * (headDim / 2) + inHead / 2 : inHead;
      data.write(block.array(), source * rowBytes, rowBytes);
    }
  }

  private ByteBuffer read(FileChannel channel, long begin, int bytes) throws IOException {
    ByteBuffer buffer = ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
    readFully(channel, buffer, dataStart + begin);
    return buffer;
  }

  private static void readFully(FileChannel channel, ByteBuffer buffer, long position)
      throws IOException {
    while (buffer.hasRemaining()) {
      if (channel.read(buffer, position + buffer.position()) < 0) {
        throw new IOException("model.safetensors ends early");
      }
    }
  }

  private static long aligned(long offset) {
    return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }

  /** Writes GGUF's values: little-endian, strings and arrays with their lengths. */
  private static final class LittleEndian implements AutoCloseable {

    private static final int UINT32 = 4;
    private static final int INT32 = 5;
    private static final int FLOAT32 = 6;
    private static final int BOOL = 7;
    private static final int STRING = 8;
    private static final int ARRAY = 9;

    private final DataOutputStream out;
    private long written;

    LittleEndian(OutputStream out) {
      this.out = new DataOutputStream(out);
    }

    void write(byte[] bytes) throws IOException {
      write(bytes, 0, bytes.length);
    }

    void write(byte[] bytes, int offset, int length) throws IOException {
      out.write(bytes, offset, length);
      written += length;
    }

    void int32(int value) throws IOException {
      out.writeInt(Integer.reverseBytes(value));
      written += Integer.BYTES;
    }

    void int64(long value) throws IOException {
      out.writeLong(Long.reverseBytes(value));
      written += Long.BYTES;
    }

    void string(String value) throws IOException {
      byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
      int64(bytes.length);
      write(bytes);
    }

    void value(Object value) throws IOException {
      if (value instanceof Integer number) {
        int32(UINT32);
        int32(number);
      } else if (value instanceof Float number) {
        int32(FLOAT32);
        int32(Float.floatToRawIntBits(number));
      } else if (value instanceof Boolean flag) {
        int32(BOOL);
        write(new byte[] {(byte) (flag ? 1 : 0)});
      } else if (value instanceof String text) {
        int32(STRING);
        string(text);
      } else {
        array(value);
      }
    }

    private void array(Object value) throws IOException {
      int32(ARRAY);
      if (value instanceof String[] texts) {
        int32(STRING);
        int64(texts.length);
        for (String text : texts) {
          string(text);
        }
      } else if (value instanceof float[] numbers) {
        int32(FLOAT32);
        int64(numbers.length);
        for (float number : numbers) {
          int32(Float.floatToRawIntBits(number));
        }
      } else if (value instanceof int[] numbers) {
        int32(INT32);
        int64(numbers.length);
        for (int number : numbers) {
          int32(number);
        }
      } else {
        throw new IllegalArgumentException("no GGUF type for " + value.getClass());
      }
    }

    void align() throws IOException {
      write(new byte[(int) (aligned(written) - written)]);
    }

    @Override
    public void close() throws IOException {
      out.close();
    }
  }
}
