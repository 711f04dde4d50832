package dev.halcyon.engine.weights;

import java.util.List;

/**
 * Where a checkpoint keeps a tensor.
 *
 * @param name the tensor's name
 * @param file the name of the file it lies in
 * @param type the stored element type in the file format's words, such as "BF16" or "I64"
 * @param shape the dimensions, none negative
 * @param offset the first byte in the file
 * @param bytes the size in bytes
 */
public record TensorInfo(
    String name, String file, String type, List<Long> shape, long offset, long bytes) {

  public TensorInfo {
    shape = List.copyOf(shape);
  }
}
