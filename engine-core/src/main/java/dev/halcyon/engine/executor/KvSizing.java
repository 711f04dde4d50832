package dev.halcyon.engine.executor;

import dev.halcyon.engine.EngineException;
import dev.halcyon.engine.backend.Backend;
import dev.halcyon.engine.backend.KvShape;
import dev.halcyon.engine.logits.DeviceMemory;
import dev.halcyon.engine.model.ModelConfig;

/** How large the KV cache is. */
final class KvSizing {

  private final ModelConfig config;
  private final Backend backend;
  private final int blockSize;

  KvSizing(ModelConfig config, Backend backend, int blockSize) {
    this.config = config;
    this.backend = backend;
    this.blockSize = blockSize;
  }

  /**
   * @param tokens tokens to hold, or null to take a fraction of the memory that is left
   * @param fraction that fraction
   * @param mostTokens what could be used at all
   */
  KvShape shape(Integer tokens, double fraction, long mostTokens) {
    long asked = tokens != null ? tokens : mostTokens;
    long blocks = (asked + blockSize - 1) / blockSize;
    if (tokens == null) {
      DeviceMemory memory = backend.memory();
      long left = memory.available();
      long elementBytes = backend.activationType().bytes();
      long blockBytes = of(1).blockBytes((int) elementBytes);
      // Keys or values of one layer are the largest single buffer that a backend may use.
      long layerBlock = blockBytes / (2L * config.layers().size());
      blocks = Math.min(blocks, (long) (left * fraction) / blockBytes);
      blocks = Math.min(blocks, memory.maxBufferBytes() / layerBlock);
      if (blocks < 1) {
        throw new EngineException(
            String.format(
                "No room for the KV cache: a block of %d tokens takes %d bytes, and %d bytes of device"
                    + " memory are left",
                blockSize, blockBytes, left));
      }
    }
    return of((int) Math.min(blocks, Integer.MAX_VALUE));
  }

  private KvShape of(int blocks) {
    return new KvShape(
        config.layers().size(), blocks, blockSize, config.kvHeads(), config.headDim());
  }
}
