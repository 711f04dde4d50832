package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.AttentionSpec;
import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.DType;

/** Attention over the KV cache: sequences of one row go one way, those of several another. */
final class AttentionOp implements AutoCloseable {

  private final DecodeAttentionOp decode;
  private final PrefillAttentionOp prefill;

  AttentionOp(
      CudaContext context,
      CudaMemory memory,
      KernelLibrary library,
      Launch launch,
      UploadRing uploads,
      DType activations) {
    decode = new DecodeAttentionOp(memory, library, launch);
    prefill = new PrefillAttentionOp(context, memory, library, launch, uploads, activations);
  }

  /**
   * @param qkv the address of packed rows with rotated queries
   */
  void run(CudaBatch batch, long qkv, AttentionSpec spec, CudaKvStorage kv, int layer, long out) {
    int single = single(batch.batch());
    if (single > 0) {
      decode.run(batch, qkv, spec, kv, layer, out);
    }
    if (single < batch.batch().sequences()) {
      prefill.run(batch, qkv, spec, kv.shape(), kv.keys(layer), kv.values(layer), out);
    }
  }

  /** How many sequences have one row. */
  private static int single(Batch batch) {
    int count = 0;
    for (int s = 0; s < batch.sequences(); s++) {
      if (batch.rowStart()[s + 1] - batch.rowStart()[s] == 1) {
        count++;
      }
    }
    return count;
  }

  @Override
  public void close() {
    decode.close();
    prefill.close();
  }
}
