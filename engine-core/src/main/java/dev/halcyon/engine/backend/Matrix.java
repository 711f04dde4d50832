package dev.halcyon.engine.backend;

/**
 * A weight resident on a backend in its stored type: a matrix of [rows, cols], or a vector as one
 * row. Freed by its owner.
 */
public interface Matrix extends AutoCloseable {

  /** The number of rows; for a linear layer, its output features. */
  int rows();

  /** The elements of a row; for a linear layer, its input features. */
  int cols();

  /** The type that its elements are stored in; where parts differ, that of the first. */
  DType type();

  @Override
  void close();
}
