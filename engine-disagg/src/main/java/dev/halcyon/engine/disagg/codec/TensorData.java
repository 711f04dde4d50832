package dev.halcyon.engine.disagg.codec;

import com.fasterxml.jackson.databind.node.BinaryNode;
import com.fasterxml.jackson.databind.node.JsonNodeType;

/**
 * A tensor's elements in a JSON tree: a string of base64 to whoever reads the tree, which is made
 * as it is written, so that it is never held beside what it is written to.
 */
final class TensorData extends BinaryNode {

  private static final long serialVersionUID = 1L;

  TensorData(LogitsTensor tensor) {
    super(tensor.raw());
  }

  @Override
  public JsonNodeType getNodeType() {
    return JsonNodeType.STRING;
  }

  @Override
  public String textValue() {
    return asText();
  }

  /** A copy: tensors do not change. */
  @Override
  public byte[] binaryValue() {
    return super.binaryValue().clone();
  }
}
