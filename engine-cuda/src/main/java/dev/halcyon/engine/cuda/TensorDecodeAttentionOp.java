package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.AttentionSpec;
import dev.halcyon.engine.backend.DType;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Attention of the sequences that have one row in a batch, on tensor cores; kernels in
 * attention_decode_tensor.cu. Launches depend on the number of sequences alone, and may be captured
 * in a graph once one with as many was run without.
 */
final class TensorDecodeAttentionOp implements AutoCloseable {

  private static final int[] HEAD_DIMS = {64, 80, 96, 112, 128, 192, 256};

  /** As attention_decode_tensor.cu's TILE_HEADS. */
  private static final int TILE_HEADS = 16;

  /** Parts of one context at most, as attention_decode_tensor.cu makes them. */
  private static final int MOST_PARTS = 128;

  /** Parts that there is room for: 32 contexts of 8192 keys in parts of 512, and as many more. */
  private static final int SLOTS = 1024;

  /** Fewer with more than 32 query heads, whose sums would take more than some 16 MiB. */
  private static final int SLOT_HEADS = SLOTS * 32;

  private static final int LEAST_SLOTS = 256;

  private static final int ALIGNMENT = 16;

  /** With fewer query heads to a KV head, reading past shared memory is faster. */
  private static final int LEAST_GROUP = 3;

  private final Launch launch;
  private final CudaMemory memory;
  private final int multiprocessors;
  private final DeviceScratch scratch;
  private final List<Variant> variants;
  private CudaBuffer done;

  /**
   * A kernel for heads of one size.
   *
   * @param blocks how many a multiprocessor runs at once
   */
  private record Variant(Kernel kernel, int headDim, int threads, int sharedBytes, int blocks) {

    private static final int TILE_KEYS = 16;
    private static final int STAGES = 3;
    private static final int CHUNK_BYTES = 16;

    /** What a block has beside what is asked for, at most. */
    private static final int OTHER_SHARED_BYTES = 3 << 10;

    /** As attention_decode_tensor.cu's Shape. */
    static Variant of(CudaContext context, KernelLibrary library, int headDim) {
      int warps = headDim <= 128 ? 4 : 2;
      int stride = headDim * Short.BYTES + (headDim % 64 == 0 ? 0 : CHUNK_BYTES);
      int shared = warps * STAGES * 2 * TILE_KEYS * stride;
      int most = headDim <= 80 ? 4 : headDim <= 96 ? 3 : 2;
      int room = context.device().sharedBytes() / (shared + OTHER_SHARED_BYTES);
      Kernel kernel =
          library.kernel(
              KernelSource.ATTENTION_DECODE_TENSOR, "tensor_decode_attention_" + headDim);
      return new Variant(
          kernel.allowShared(context, shared),
          headDim,
          warps * Groups.WARP,
          shared,
          Math.max(1, Math.min(most, room)));
    }
  }

  TensorDecodeAttentionOp(
      CudaContext context,
      CudaMemory memory,
      KernelLibrary library,
      Launch launch,
      DType activations) {
    this.launch = launch;
    this.memory = memory;
    multiprocessors = context.device().multiprocessors();
    scratch = new DeviceScratch(memory, "parts of attention");
    variants =
        activations == DType.F32
            ? List.of()
            : IntStream.of(HEAD_DIMS).mapToObj(dim -> Variant.of(context, library, dim)).toList();
  }

  /** Whether there is a kernel for a layer, faster than others, and rows begin where it asks. */
  boolean suits(long qkv, AttentionSpec spec, CudaKvStorage kv, int layer) {
    return spec.queryHeads() / spec.kvHeads() >= LEAST_GROUP
        && (qkv | kv.keys(layer) | kv.values(layer)) % ALIGNMENT == 0
        && variants.stream().anyMatch(variant -> variant.headDim() == spec.headDim());
  }

  /**
   * Writes the results of the rows of those sequences alone; zeros for a sequence without context.
   *
   * @param qkv the address of packed rows with rotated queries
   */
  void run(CudaBatch batch, long qkv, AttentionSpec spec, CudaKvStorage kv, int layer, long out) {
    Variant variant =
        variants.stream()
            .filter(candidate -> candidate.headDim() == spec.headDim())
            .findFirst()
            .orElseThrow();
    int sequences = batch.batch().sequences();
    int group = spec.queryHeads() / spec.kvHeads();
    int tiles = spec.kvHeads() * Groups.ceilDiv(group, TILE_HEADS);
    int heads = tiles * Math.min(group, TILE_HEADS);
    int slots = Math.max(LEAST_SLOTS, Math.min(SLOTS, SLOT_HEADS / heads));
    long sums = scratch.atLeast((long) slots * heads * (spec.headDim() + 2) * Float.BYTES);
    long most = (long) sequences * tiles * MOST_PARTS;
    launch
        .of(variant.kernel())
        .address(qkv)
        .address(out)
        .address(kv.keys(layer))
        .address(kv.values(layer))
        .address(batch.rowStart())
        .address(batch.contextLength())
        .address(batch.blockTables())
        .address(sums)
        .address(sums + (long) slots * heads * spec.headDim() * Float.BYTES)
        .address(done(sequences * tiles))
        .i32(batch.tableStride())
        .i32(sequences)
        .i32(spec.queryHeads())
        .i32(spec.kvHeads())
        .i32(Integer.numberOfTrailingZeros(kv.shape().blockSize()))
        .i32(AttentionOp.window(spec))
        .f32(spec.scale())
        .f32(spec.softcap())
        .i32(slots)
        .run(
            (int) Math.min(most, (long) variant.blocks() * multiprocessors),
            1,
            1,
            variant.threads(),
            variant.sharedBytes());
  }

  /** Counters that every launch leaves at zero. */
  private long done(int count) {
    long bytes = (long) count * Integer.BYTES;
    if (done == null || done.bytes() < bytes) {
      CudaBuffer larger =
          memory.allocateOwnZeroed(
              Math.max(bytes, done == null ? 0 : 2 * done.bytes()), "counters of attention");
      closeCounters();
      done = larger;
    }
    return done.address();
  }

  private void closeCounters() {
    if (done != null) {
      done.close();
      done = null;
    }
  }

  @Override
  public void close() {
    closeCounters();
    scratch.close();
  }
}
