package dev.halcyon.engine.benchmarks;

import java.util.ArrayList;
import java.util.List;

/**
 * The shape of a Llama checkpoint with untied embeddings, and what follows from it: its tensors,
 * the bytes that a decode step has to read and the operations that a prefill has to do.
 *
 * @param hidden width of the residual stream
 * @param inner width of the gated feed-forward layer
 * @param layers decoder layers
 * @param heads query heads; head size is {@code hidden / heads}
 * @param kvHeads key/value heads
 * @param vocab vocabulary size
 */
public record ModelShape(int hidden, int inner, int layers, int heads, int kvHeads, int vocab) {

  /** TinyLlama-1.1B. */
  public static final ModelShape TINY_LLAMA_1B = new ModelShape(2048, 5632, 22, 32, 4, 32000);

  private static final int BF16_BYTES = 2;

  public ModelShape {
    if (hidden < 1 || inner < 1 || layers < 1 || heads < 1 || kvHeads < 1) {
      throw new IllegalArgumentException("every dimension of a shape must be positive");
    }
    if (hidden % heads != 0 || (hidden / heads) % 2 != 0 || heads % kvHeads != 0) {
      throw new IllegalArgumentException(
          "heads must divide hidden to an even head size, and kvHeads must divide heads; got hidden "
              + hidden
              + ", heads "
              + heads
              + ", kvHeads "
              + kvHeads);
    }
    if (vocab < BenchmarkVocabulary.MIN_SIZE) {
      throw new IllegalArgumentException(
          "vocab must be at least " + BenchmarkVocabulary.MIN_SIZE + ", got " + vocab);
    }
  }

  /**
   * A tensor of the checkpoint, row-major.
   *
   * @param cols 0 for a vector of {@code rows} elements
   */
  public record Tensor(String name, int rows, int cols) {

    boolean isVector() {
      return cols == 0;
    }

    long elements() {
      return isVector() ? rows : (long) rows * cols;
    }

    long bytes() {
      return elements() * BF16_BYTES;
    }
  }

  public int headDim() {
    return hidden / heads;
  }

  /** All tensors in file order, by their Hugging Face names. */
  public List<Tensor> tensors() {
    List<Tensor> tensors = new ArrayList<>();
    tensors.add(new Tensor("model.embed_tokens.weight", vocab, hidden));
    for (int layer = 0; layer < layers; layer++) {
      String prefix = "model.layers." + layer + ".";
      tensors.add(new Tensor(prefix + "input_layernorm.weight", hidden, 0));
      tensors.add(new Tensor(prefix + "self_attn.q_proj.weight", hidden, hidden));
      tensors.add(new Tensor(prefix + "self_attn.k_proj.weight", kvHeads * headDim(), hidden));
      tensors.add(new Tensor(prefix + "self_attn.v_proj.weight", kvHeads * headDim(), hidden));
      tensors.add(new Tensor(prefix + "self_attn.o_proj.weight", hidden, hidden));
      tensors.add(new Tensor(prefix + "post_attention_layernorm.weight", hidden, 0));
      tensors.add(new Tensor(prefix + "mlp.gate_proj.weight", inner, hidden));
      tensors.add(new Tensor(prefix + "mlp.up_proj.weight", inner, hidden));
      tensors.add(new Tensor(prefix + "mlp.down_proj.weight", hidden, inner));
    }
    tensors.add(new Tensor("model.norm.weight", hidden, 0));
    tensors.add(new Tensor("lm_head.weight", vocab, hidden));
    return tensors;
  }

  /**
   * Bytes of weights that one decode step reads, whatever its batch: every matrix of every layer
   * and the LM head once. Of the embedding table a step reads one row a request, which does not
   * count.
   */
  public long decodeBytes() {
    return (layerMatrixElements() + lmHeadElements()) * BF16_BYTES;
  }

  /**
   * Floating-point operations (a multiply and an add are two) of the matrix products of a prefill:
   * every token through the layers, the last one through the LM head. The products of attention,
   * which grow with the square of the length, are left out: at 512 tokens of TinyLlama's shape they
   * are 2 % more.
   */
  public double prefillOperations(int tokens) {
    return 2.0 * ((double) layerMatrixElements() * tokens + lmHeadElements());
  }

  private long layerMatrixElements() {
    return tensors().stream()
        .filter(tensor -> !tensor.isVector() && tensor.name().startsWith("model.layers."))
        .mapToLong(Tensor::elements)
        .sum();
  }

  private long lmHeadElements() {
    return (long) vocab * hidden;
  }
}
