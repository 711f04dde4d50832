package dev.halcyon.engine.cuda;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** The .cu resources. All of them are compiled when a backend is opened. */
enum KernelSource {
  ROWS("rows.cu"),
  NORMS("norms.cu"),
  CONVERT("convert.cu"),
  ROPE("rope.cu"),
  KV_TRANSFER("kv_transfer.cu"),
  KV_COPY("kv_copy.cu"),
  ATTENTION_DECODE("attention_decode.cu"),
  ATTENTION_DECODE_TENSOR("attention_decode_tensor.cu"),
  ATTENTION_PREFILL("attention_prefill.cu"),
  ATTENTION_TILED("attention_tiled.cu"),
  LOGPROBS("logprobs.cu"),
  REDUCE("reduce.cu"),
  VOCAB_TILES("vocab_tiles.cu"),
  SAMPLING("sampling.cu");

  /** What sources include. */
  static final List<String> HEADERS =
      List.of(
          "halcyon.cuh",
          "pairs.cuh",
          "softmax.cuh",
          "tensor.cuh",
          "prefill.cuh",
          "ranks.cuh",
          "scan.cuh",
          "select.cuh",
          "draw.cuh");

  private final String file;

  KernelSource(String file) {
    this.file = file;
  }

  /** The resource's name. */
  String file() {
    return file;
  }

  String text() {
    return read(file);
  }

  /** The texts of {@link #HEADERS}. */
  static List<String> headers() {
    return HEADERS.stream().map(KernelSource::read).toList();
  }

  private static String read(String file) {
    try (InputStream in = KernelSource.class.getResourceAsStream("kernels/" + file)) {
      if (in == null) {
        throw new IllegalStateException("The resource kernels/" + file + " is missing");
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException("Reading the resource kernels/" + file, e);
    }
  }
}
