package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.AttentionSpec;
import java.util.ArrayList;
import java.util.List;

/**
 * Attention of the sequences that have one row in a batch; kernels in attention_decode.cu. Launches
 * depend on the number of sequences alone, and may be captured in a graph.
 */
final class DecodeAttentionOp implements AutoCloseable {

  private static final int[] HEAD_DIMS = {64, 128, 256};
  private static final int[] HEADS = {1, 2, 4, 8};
  private static final int THREADS = 128;

  /** Splits of fewer keys cost more to add up than they win. */
  private static final int LEAST_KEYS = 256;

  /** The most splits of a context, over all KV heads: enough for the largest devices. */
  private static final int SPLITS = 256;

  private static final int MAX_SPLITS = 64;

  private final Launch launch;
  private final DeviceScratch scratch;
  private final List<Variant> variants = new ArrayList<>();
  private final Kernel combine;

  /**
   * A kernel.
   *
   * @param headDim the most elements of a head
   * @param heads query heads of a KV head that a block takes
   */
  private record Variant(Kernel kernel, int headDim, int heads) {}

  DecodeAttentionOp(CudaMemory memory, KernelLibrary library, Launch launch) {
    this.launch = launch;
    scratch = new DeviceScratch(memory, "splits of attention");
    for (int headDim : HEAD_DIMS) {
      for (int heads : HEADS) {
        String name = "decode_attention_" + headDim + "_" + heads;
        variants.add(
            new Variant(library.kernel(KernelSource.ATTENTION_DECODE, name), headDim, heads));
      }
    }
    combine = library.kernel(KernelSource.ATTENTION_DECODE, "combine_splits");
  }

  /**
   * Writes the results of the rows of those sequences alone; zeros for a sequence without context.
   *
   * @param qkv the address of packed rows with rotated queries
   * @throws IllegalArgumentException if heads have more than 256 elements
   */
  void run(CudaBatch batch, long qkv, AttentionSpec spec, CudaKvStorage kv, int layer, long out) {
    int sequences = batch.batch().sequences();
    int group = spec.queryHeads() / spec.kvHeads();
    Variant variant = variant(spec.headDim(), group);
    int splits = splits(spec, kv);
    long parts = (long) sequences * spec.queryHeads() * splits;
    long sums = scratch.atLeast(parts * (spec.headDim() + 2) * Float.BYTES);
    long weights = sums + parts * spec.headDim() * Float.BYTES;
    arguments(variant.kernel(), batch, qkv, spec, kv, layer, out, sums, weights, splits)
        .run(
            splits, spec.kvHeads() * Groups.ceilDiv(group, variant.heads()), sequences, THREADS, 0);
    if (splits > 1) {
      arguments(combine, batch, qkv, spec, kv, layer, out, sums, weights, splits)
          .run(spec.queryHeads(), sequences, 1, THREADS, 0);
    }
  }

  private Launch arguments(
      Kernel kernel,
      CudaBatch batch,
      long qkv,
      AttentionSpec spec,
      CudaKvStorage kv,
      int layer,
      long out,
      long sums,
      long weights,
      int splits) {
    return launch
        .of(kernel)
        .address(qkv)
        .address(out)
        .address(kv.keys(layer))
        .address(kv.values(layer))
        .address(batch.rowStart())
        .address(batch.contextLength())
        .address(batch.blockTables())
        .address(sums)
        .address(weights)
        .i32(batch.tableStride())
        .i32(spec.queryHeads())
        .i32(spec.kvHeads())
        .i32(spec.headDim())
        .i32(Integer.numberOfTrailingZeros(kv.shape().blockSize()))
        .i32(AttentionOp.window(spec))
        .f32(spec.scale())
        .f32(spec.softcap())
        .i32(splits)
        .i32(LEAST_KEYS);
  }

  /** The kernel that wastes fewest query heads, for groups of more than it takes the largest. */
  private Variant variant(int headDim, int group) {
    int heads = Math.min(HEADS[HEADS.length - 1], Groups.ceilPowerOfTwo(group));
    return variants.stream()
        .filter(variant -> headDim <= variant.headDim() && variant.heads() == heads)
        .findFirst()
        .orElseThrow(() -> AttentionOp.tooLarge(headDim));
  }

  /**
   * The most splits of a context, by the shape of the layer and the cache alone: a row's sums do
   * not depend on its batch.
   */
  private static int splits(AttentionSpec spec, CudaKvStorage kv) {
    long keys = (long) kv.shape().blocks() * kv.shape().blockSize();
    if (spec.slidingWindow() != 0) {
      keys = Math.min(keys, spec.slidingWindow());
    }
    long most = Math.min(MAX_SPLITS, Math.max(1, SPLITS / spec.kvHeads()));
    return (int) Math.max(1, Math.min(most, (keys + LEAST_KEYS - 1) / LEAST_KEYS));
  }

  @Override
  public void close() {
    scratch.close();
  }
}
