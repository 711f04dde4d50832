package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.AttentionSpec;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.RopeLayout;

/** Rotary embedding, and the writing of keys and values to the cache; kernels in rope.cu. */
final class RopeOp {

  private static final int THREADS = 256;
  private static final int MAX_GRID_ROWS = 65535;

  private final Launch launch;
  private final int group;
  private final Kernel wide;
  private final Kernel narrow;

  RopeOp(KernelLibrary library, Launch launch, DType activations) {
    this.launch = launch;
    this.group = Groups.of(activations);
    wide = library.kernel(KernelSource.ROPE, "rope_and_write_kv");
    narrow = library.kernel(KernelSource.ROPE, "rope_and_write_kv_narrow");
  }

  /**
   * @param qkv the address of packed rows
   * @param rope null for none
   */
  void run(
      CudaBatch batch,
      long qkv,
      AttentionSpec spec,
      CudaRopeTable rope,
      CudaKvStorage kv,
      int layer) {
    int rotaryDim = rope == null ? 0 : rope.rotaryDim();
    if (rotaryDim > spec.headDim() || spec.headDim() % 2 != 0) {
      throw new IllegalArgumentException(
          "Heads of " + spec.headDim() + " elements with " + rotaryDim + " that rotate");
    }
    int rows = batch.batch().rows();
    if (rope != null) {
      rope.requirePositions(batch.batch());
    }
    boolean groups =
        spec.headDim() % (2 * group) == 0 && rotaryDim % (2 * group) == 0 && qkv % 16 == 0;
    int heads = spec.queryHeads() + 2 * spec.kvHeads();
    int items = heads * (spec.headDim() / (groups ? 2 * group : 2));
    launch
        .of(groups ? wide : narrow)
        .address(qkv)
        .address(kv.keys(layer))
        .address(kv.values(layer))
        .address(batch.positions())
        .address(batch.slots())
        .address(rope == null ? 0 : rope.cos())
        .address(rope == null ? 0 : rope.sin())
        .i32(rows)
        .i32(spec.queryHeads())
        .i32(spec.kvHeads())
        .i32(spec.headDim())
        .i32(rotaryDim)
        .i32(Integer.numberOfTrailingZeros(kv.shape().blockSize()))
        .i32(rope != null && rope.layout() == RopeLayout.INTERLEAVED ? 1 : 0)
        .run(Groups.ceilDiv(items, THREADS), Math.min(rows, MAX_GRID_ROWS), 1, THREADS, 0);
  }
}
