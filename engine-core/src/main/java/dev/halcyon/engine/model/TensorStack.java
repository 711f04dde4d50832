package dev.halcyon.engine.model;

import java.util.List;
import java.util.stream.Stream;

/**
 * Tensors of a checkpoint that are loaded as one matrix or vector.
 *
 * @param parts the tensors in order
 */
record TensorStack(List<Part> parts) {

  /**
   * @param name the tensor's name
   * @param shape the shape that it must have
   */
  record Part(String name, List<Long> shape) {}

  TensorStack {
    parts = List.copyOf(parts);
  }

  static TensorStack matrix(String name, int rows, int cols) {
    return new TensorStack(List.of(new Part(name, List.of((long) rows, (long) cols))));
  }

  static TensorStack vector(String name, int size) {
    return new TensorStack(List.of(new Part(name, List.of((long) size))));
  }

  /** This stack, then the tensors of another one. */
  TensorStack then(TensorStack next) {
    return new TensorStack(Stream.concat(parts.stream(), next.parts.stream()).toList());
  }
}
