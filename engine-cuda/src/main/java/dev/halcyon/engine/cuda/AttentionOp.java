package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.AttentionSpec;
import dev.halcyon.engine.backend.Batch;
import dev.halcyon.engine.backend.DType;

/** Attention over the KV cache: sequences of one row go one way, those of several another. */
final class AttentionOp implements AutoCloseable {

  private static final int NO_WINDOW = 1 << 30;

  private final TensorDecodeAttentionOp tensorDecode;
  private final DecodeAttentionOp decode;
  private final PrefillAttentionOp prefill;

  AttentionOp(
      CudaContext context,
      CudaMemory memory,
      KernelLibrary library,
      Launch launch,
      UploadRing uploads,
      DType activations) {
    tensorDecode = new TensorDecodeAttentionOp(context, memory, library, launch, activations);
    decode = new DecodeAttentionOp(memory, library, launch);
    prefill = new PrefillAttentionOp(context, memory, library, launch, uploads, activations);
  }

  /**
   * @param qkv the address of packed rows with rotated queries
   */
  void run(CudaBatch batch, long qkv, AttentionSpec spec, CudaKvStorage kv, int layer, long out) {
    boolean single = false;
    boolean several = false;
    Batch rows = batch.batch();
    for (int s = 0; s < rows.sequences(); s++) {
      int count = rows.rowStart()[s + 1] - rows.rowStart()[s];
      single |= count == 1;
      several |= count > 1;
    }
    if (single && tensorDecode.suits(qkv, spec, kv, layer)) {
      tensorDecode.run(batch, qkv, spec, kv, layer, out);
    } else if (single) {
      decode.run(batch, qkv, spec, kv, layer, out);
    }
    if (several) {
      prefill.run(batch, qkv, spec, kv.shape(), kv.keys(layer), kv.values(layer), out);
    }
  }

  /** How many positions a row sees; more than any context for all. */
  static int window(AttentionSpec spec) {
    return spec.slidingWindow() == 0 ? NO_WINDOW : Math.min(spec.slidingWindow(), NO_WINDOW);
  }

  /** What to throw for heads that no kernel takes. */
  static IllegalArgumentException tooLarge(int headDim) {
    return new IllegalArgumentException(
        "headDim is " + headDim + ", and attention on a GPU takes up to 256");
  }

  @Override
  public void close() {
    tensorDecode.close();
    decode.close();
    prefill.close();
  }
}
