package dev.halcyon.engine.model;

import java.util.ArrayList;
import java.util.List;

/** The names and shapes of a checkpoint's tensors, as the configuration asks for them. */
final class TensorLayout {

  private final ModelConfig config;

  private TensorLayout(ModelConfig config) {
    this.config = config;
  }

  static DecoderWeights<TensorStack> of(ModelConfig config) {
    TensorLayout layout = new TensorLayout(config);
    List<LayerWeights<TensorStack>> layers = new ArrayList<>();
    for (int layer = 0; layer < config.layers().size(); layer++) {
      layers.add(layout.layer("model.layers." + layer + "."));
    }
    int vocab = config.vocabSize();
    int hidden = config.hiddenSize();
    return new DecoderWeights<>(
        TensorStack.matrix("model.embed_tokens.weight", vocab, hidden),
        layers,
        layout.norm("model.norm"),
        config.tiedEmbeddings() ? null : TensorStack.matrix("lm_head.weight", vocab, hidden));
  }

  private LayerWeights<TensorStack> layer(String prefix) {
    boolean postNorms = config.block() == BlockLayout.PRE_AND_POST_NORM;
    int hidden = config.hiddenSize();
    int inner = config.intermediateSize();
    int queries = config.heads() * config.headDim();
    String attention = prefix + "self_attn.";
    String mlp = prefix + "mlp.";
    return new LayerWeights<>(
        norm(prefix + "input_layernorm"),
        qkvWeight(attention),
        config.qkvBias() ? qkvBias(attention) : null,
        config.queryKeyNorm() ? headNorm(attention + "q_norm") : null,
        config.queryKeyNorm() ? headNorm(attention + "k_norm") : null,
        TensorStack.matrix(attention + "o_proj.weight", hidden, queries),
        config.outputBias() ? TensorStack.vector(attention + "o_proj.bias", hidden) : null,
        postNorms ? norm(prefix + "post_attention_layernorm") : null,
        switch (config.block()) {
          case PRE_NORM -> norm(prefix + "post_attention_layernorm");
          case PRE_AND_POST_NORM -> norm(prefix + "pre_feedforward_layernorm");
          case PARALLEL -> null;
        },
        TensorStack.matrix(mlp + "gate_proj.weight", inner, hidden)
            .then(TensorStack.matrix(mlp + "up_proj.weight", inner, hidden)),
        config.mlpBias()
            ? TensorStack.vector(mlp + "gate_proj.bias", inner)
                .then(TensorStack.vector(mlp + "up_proj.bias", inner))
            : null,
        TensorStack.matrix(mlp + "down_proj.weight", hidden, inner),
        config.mlpBias() ? TensorStack.vector(mlp + "down_proj.bias", hidden) : null,
        postNorms ? norm(prefix + "post_feedforward_layernorm") : null);
  }

  private TensorStack norm(String name) {
    return TensorStack.vector(name + ".weight", config.hiddenSize());
  }

  private TensorStack headNorm(String name) {
    return TensorStack.vector(name + ".weight", config.headDim());
  }

  private TensorStack qkvWeight(String attention) {
    int hidden = config.hiddenSize();
    int queries = config.heads() * config.headDim();
    int keys = config.kvHeads() * config.headDim();
    return TensorStack.matrix(attention + "q_proj.weight", queries, hidden)
        .then(TensorStack.matrix(attention + "k_proj.weight", keys, hidden))
        .then(TensorStack.matrix(attention + "v_proj.weight", keys, hidden));
  }

  private TensorStack qkvBias(String attention) {
    int queries = config.heads() * config.headDim();
    int keys = config.kvHeads() * config.headDim();
    return TensorStack.vector(attention + "q_proj.bias", queries)
        .then(TensorStack.vector(attention + "k_proj.bias", keys))
        .then(TensorStack.vector(attention + "v_proj.bias", keys));
  }
}
