package dev.halcyon.engine.model;

import java.util.function.Function;

/**
 * The weights of a decoder layer, each as a {@code T}: first the names and shapes of what is to be
 * loaded, then the loaded matrices. A null stands for a part that the model doesn't have.
 *
 * @param inputNorm [hidden]
 * @param qkv queries, keys and values stacked: [(heads + 2 * kvHeads) * headDim, hidden]
 * @param qkvBias as many elements as qkv has rows, or null
 * @param queryNorm [headDim], or null
 * @param keyNorm [headDim], or null
 * @param output [hidden, heads * headDim]
 * @param outputBias [hidden], or null
 * @param attentionPostNorm [hidden], of what attention adds; or null
 * @param mlpNorm [hidden]; null where the feed-forward layer takes the rows that attention takes
 * @param gateUp gate and up projection stacked: [2 * intermediate, hidden]
 * @param gateUpBias [2 * intermediate], or null
 * @param down [hidden, intermediate]
 * @param downBias [hidden], or null
 * @param mlpPostNorm [hidden], of what the feed-forward layer adds; or null
 */
record LayerWeights<T>(
    T inputNorm,
    T qkv,
    T qkvBias,
    T queryNorm,
    T keyNorm,
    T output,
    T outputBias,
    T attentionPostNorm,
    T mlpNorm,
    T gateUp,
    T gateUpBias,
    T down,
    T downBias,
    T mlpPostNorm) {

  <R> LayerWeights<R> map(Function<T, R> function) {
    Function<T, R> f = part -> part == null ? null : function.apply(part);
    return new LayerWeights<>(
        f.apply(inputNorm),
        f.apply(qkv),
        f.apply(qkvBias),
        f.apply(queryNorm),
        f.apply(keyNorm),
        f.apply(output),
        f.apply(outputBias),
        f.apply(attentionPostNorm),
        f.apply(mlpNorm),
        f.apply(gateUp),
        f.apply(gateUpBias),
        f.apply(down),
        f.apply(downBias),
        f.apply(mlpPostNorm));
  }
}
