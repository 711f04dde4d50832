package dev.halcyon.engine.cuda;

/**
 * The shape in which a kernel of {@link PrefillAttentionOp} works.
 *
 * @param maxHeadDim the most elements that a head may have
 * @param rows the packed rows of a block
 * @param threads the threads of a block
 * @param sharedBytes the shared memory of a block
 */
record PrefillTiles(Kernel kernel, int maxHeadDim, int rows, int threads, int sharedBytes) {

  private static final int TENSOR_THREADS = 128;
  private static final int TENSOR_KEYS = PrefillPlan.KEYS;
  private static final int TILED_THREADS = 256;
  private static final int PAD_BYTES = 16;

  /** On tensor cores, of attention_prefill.cu. */
  static PrefillTiles tensor(CudaContext context, KernelLibrary library, int maxHeadDim) {
    int rows = maxHeadDim <= 128 ? 128 : 64;
    int shared = (rows + 2 * TENSOR_KEYS) * (maxHeadDim * Short.BYTES + PAD_BYTES);
    Kernel kernel =
        library.kernel(KernelSource.ATTENTION_PREFILL, "prefill_attention_" + maxHeadDim);
    return new PrefillTiles(
        kernel.allowShared(context, shared), maxHeadDim, rows, TENSOR_THREADS, shared);
  }

  /** Without them, of attention_tiled.cu; a tile has as many keys as rows. */
  static PrefillTiles tiled(CudaContext context, KernelLibrary library, int maxHeadDim) {
    int rows = maxHeadDim <= 128 ? 64 : 32;
    int heads = 2 * rows * (maxHeadDim * Float.BYTES + PAD_BYTES);
    int weights = rows * (rows * Float.BYTES + PAD_BYTES);
    Kernel kernel = library.kernel(KernelSource.ATTENTION_TILED, "tiled_attention_" + maxHeadDim);
    return new PrefillTiles(
        kernel.allowShared(context, heads + weights),
        maxHeadDim,
        rows,
        TILED_THREADS,
        heads + weights);
  }
}
