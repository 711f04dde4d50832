package dev.halcyon.engine.model;

import dev.halcyon.engine.ModelLoadException;
import dev.halcyon.engine.backend.Activation;
import dev.halcyon.engine.backend.AttentionSpec;
import dev.halcyon.engine.weights.ModelFiles;
import java.util.List;

/**
 * Everything that the decoder needs to know of a model, free of the family's own ways to write it
 * down.
 *
 * @param architecture the architecture's name in config.json
 * @param vocabSize rows of the embedding table, elements of a row of logits
 * @param hiddenSize elements of a hidden row
 * @param intermediateSize inner elements of the feed-forward layer
 * @param heads query heads
 * @param kvHeads key and value heads, a divisor of heads
 * @param headDim elements of a head
 * @param contextLength the most positions of a sequence
 * @param norm how rows are normalised
 * @param normEps the epsilon of every norm
 * @param normWeightOffset what is added to an RMS norm's stored weights
 * @param embeddingScale the factor on embedded tokens, not yet rounded to the type of activations
 * @param attentionScale the factor on query-key products
 * @param attentionSoftcap soft cap of attention scores; 0 for none
 * @param logitScale the factor on logits
 * @param logitSoftcap soft cap of logits, after the scale; 0 for none
 * @param activation the nonlinearity of the feed-forward layer
 * @param block how a layer is put together
 * @param qkvBias whether queries, keys and values have biases
 * @param outputBias whether attention's output projection has a bias
 * @param mlpBias whether the three feed-forward projections have biases
 * @param queryKeyNorm whether each head of queries and keys is normalised before the rotation
 * @param tiedEmbeddings whether the logits come from the embedding table
 * @param bosId the id that begins a text; -1 for none
 * @param endIds the ids that end a text
 * @param layers the decoder layers in order
 */
public record ModelConfig(
    String architecture,
    int vocabSize,
    int hiddenSize,
    int intermediateSize,
    int heads,
    int kvHeads,
    int headDim,
    int contextLength,
    NormKind norm,
    float normEps,
    float normWeightOffset,
    float embeddingScale,
    float attentionScale,
    float attentionSoftcap,
    float logitScale,
    float logitSoftcap,
    Activation activation,
    BlockLayout block,
    boolean qkvBias,
    boolean outputBias,
    boolean mlpBias,
    boolean queryKeyNorm,
    boolean tiedEmbeddings,
    int bosId,
    List<Integer> endIds,
    List<LayerConfig> layers) {

  /** The name of the file that a configuration is read from. */
  public static final String FILE = "config.json";

  public ModelConfig {
    endIds = List.copyOf(endIds);
    layers = List.copyOf(layers);
  }

  /**
   * Reads a checkpoint's config.json.
   *
   * @throws ModelLoadException if there is none, or it says something that can't be run
   */
  public static ModelConfig parse(ModelFiles files) {
    return parse(FileText.require(files, FILE), files.describe(FILE));
  }

  /**
   * Reads a configuration in either form in use: the classic one (rope_theta, rope_scaling,
   * torch_dtype) or that of transformers 5 (rope_parameters, dtype, layer_types).
   *
   * @param json the file's content
   * @param what what to call the file in messages
   * @throws ModelLoadException if it says something that can't be run; the message names the key
   */
  public static ModelConfig parse(byte[] json, String what) {
    return ModelConfigParser.parse(ConfigReader.of(json, what));
  }

  /** What attention needs to know of a layer. */
  public AttentionSpec attention(int layer) {
    return new AttentionSpec(
        heads,
        kvHeads,
        headDim,
        attentionScale,
        layers.get(layer).slidingWindow(),
        attentionSoftcap);
  }

  /** The elements of a packed row of queries, keys and values. */
  public int packedCols() {
    return (heads + 2 * kvHeads) * headDim;
  }
}
