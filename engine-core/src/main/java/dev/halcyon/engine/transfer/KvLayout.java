package dev.halcyon.engine.transfer;

import dev.halcyon.engine.KvTransferException;
import dev.halcyon.engine.KvTransferException.Reason;

/**
 * What two engines must have in common for one to go on with the other's keys and values. Their
 * block sizes and the layouts of their caches are their own: on the way, a layer's tokens lie as
 * [keys or values, token, head, headDim], little-endian, or as in both caches where those are
 * alike.
 *
 * @param model a fingerprint of the checkpoint
 * @param dtype the element type of keys and values, such as "BF16"
 * @param elementBytes the size of an element
 * @param layers decoder layers
 * @param heads KV heads
 * @param headDim elements of a head
 * @param ranks tensor-parallel ranks that the heads are spread over
 */
public record KvLayout(
    String model, String dtype, int elementBytes, int layers, int heads, int headDim, int ranks) {

  public KvLayout {
    if (elementBytes < 1 || layers < 1 || heads < 1 || headDim < 1 || ranks < 1) {
      throw new IllegalArgumentException("a KV layout needs positive sizes");
    }
    if ((long) elementBytes * heads * headDim > 1 << 24) {
      throw new IllegalArgumentException("a token's keys of a layer exceed 16 MiB");
    }
  }

  /** The bytes of a token's keys and values in one layer. */
  public int tokenBytes() {
    return 2 * elementBytes * heads * headDim;
  }

  /**
   * Requires that another engine's layout is the same.
   *
   * @param other the generation side's
   * @throws KvTransferException with reason REFUSED, naming the first thing that differs
   */
  public void requireSame(KvLayout other) {
    requireSame("model", model, other.model);
    requireSame("dtype", dtype, other.dtype);
    requireSame("elementBytes", elementBytes, other.elementBytes);
    requireSame("layers", layers, other.layers);
    requireSame("heads", heads, other.heads);
    requireSame("headDim", headDim, other.headDim);
    requireSame("ranks", ranks, other.ranks);
  }

  static void requireSame(String name, Object context, Object generation) {
    if (!context.equals(generation)) {
      throw new KvTransferException(
          Reason.REFUSED,
          String.format(
              "%s differs: %s where the prompt was computed, %s where it is to be continued",
              name, context, generation));
    }
  }
}
