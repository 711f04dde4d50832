package dev.halcyon.engine.model;

import java.util.List;
import java.util.function.Function;

/**
 * The weights of a whole decoder, each as a {@code T}, as in {@link LayerWeights}.
 *
 * @param embedding [vocab, hidden]
 * @param layers the layers in order
 * @param finalNorm [hidden]
 * @param head [vocab, hidden]; null where the embedding serves as the head
 */
record DecoderWeights<T>(T embedding, List<LayerWeights<T>> layers, T finalNorm, T head) {

  /** Applies a function to every part, in the order in which a forward pass meets them. */
  <R> DecoderWeights<R> map(Function<T, R> function) {
    return new DecoderWeights<>(
        function.apply(embedding),
        layers.stream().map(layer -> layer.map(function)).toList(),
        function.apply(finalNorm),
        head == null ? null : function.apply(head));
  }
}
