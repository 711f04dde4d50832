package dev.halcyon.engine.cuda;

import dev.halcyon.engine.backend.AttentionSpec;
import dev.halcyon.engine.backend.DType;
import dev.halcyon.engine.backend.KvShape;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Attention of the sequences that have several rows in a batch, chunks of prompts; kernels in
 * attention_prefill.cu for half-precision activations, in attention_tiled.cu for the rest.
 * Sequences of one row are left to others. Launches depend on the batch: not for capture in a
 * graph.
 */
final class PrefillAttentionOp implements AutoCloseable {

  private static final int[] TENSOR_HEAD_DIMS = {64, 80, 96, 128, 192, 256};
  private static final int[] TILED_HEAD_DIMS = {64, 128, 256};

  private static final int MAX_GRID_ROWS = 65535;

  /** Blocks of attention_prefill.cu that a multiprocessor of 228 KiB runs at once. */
  private static final int BLOCKS_AT_ONCE = 2;

  private final Launch launch;
  private final PrefillWork work;
  private final int places;
  private final int group;
  private final Tensor tensor;
  private final List<PrefillTiles> tiled;
  private final DeviceScratch parts;

  /**
   * The kernels for tensor cores.
   *
   * @param tiles by ascending size of heads; none for activations of float32
   * @param join joins the parts of tiles
   */
  private record Tensor(List<PrefillTiles> tiles, Kernel join) {

    static final int JOIN_THREADS = 128;

    /** A warp joins a row. */
    static final int JOIN_ROWS = JOIN_THREADS / 32;

    static Tensor of(CudaContext context, KernelLibrary library, DType activations) {
      return activations == DType.F32
          ? new Tensor(List.of(), null)
          : new Tensor(
              IntStream.of(TENSOR_HEAD_DIMS)
                  .mapToObj(dim -> PrefillTiles.tensor(context, library, dim))
                  .toList(),
              library.kernel(KernelSource.ATTENTION_PREFILL, "join_parts"));
    }
  }

  /** The buffers and sizes of one call. */
  private record Call(
      CudaBatch batch,
      long qkv,
      AttentionSpec spec,
      KvShape shape,
      long keys,
      long values,
      long out) {

    /** Those kernels copy 16 bytes at once, and take the largest raw score for the largest one. */
    boolean suitsTensors() {
      return (qkv | keys | values | out) % 16 == 0 && spec.scale() > 0;
    }
  }

  PrefillAttentionOp(
      CudaContext context,
      CudaMemory memory,
      KernelLibrary library,
      Launch launch,
      UploadRing uploads,
      DType activations) {
    this.launch = launch;
    parts = new DeviceScratch(memory, "parts of attention");
    work = new PrefillWork(memory, uploads);
    places = BLOCKS_AT_ONCE * context.device().multiprocessors();
    group = Groups.of(activations);
    tensor = Tensor.of(context, library, activations);
    tiled =
        IntStream.of(TILED_HEAD_DIMS)
            .mapToObj(dim -> PrefillTiles.tiled(context, library, dim))
            .toList();
  }

  /**
   * Writes the results of the rows of those sequences alone; there is one at least.
   *
   * @param qkv the address of packed rows with rotated queries
   * @param keys the address of one layer's keys, [blocks, heads, blockSize, headDim]
   * @param values the address of its values
   * @throws IllegalArgumentException if heads have more than 256 elements
   */
  void run(
      CudaBatch batch,
      long qkv,
      AttentionSpec spec,
      KvShape shape,
      long keys,
      long values,
      long out) {
    Call call = new Call(batch, qkv, spec, shape, keys, values, out);
    int queriesOfKvHead = spec.queryHeads() / spec.kvHeads();
    if (tensor.tiles().isEmpty() || spec.headDim() % group != 0 || !call.suitsTensors()) {
      PrefillTiles tiles = fit(tiled, spec.headDim());
      attend(
          call,
          tiles,
          new PrefillWork.Key(queriesOfKvHead, tiles.rows(), AttentionOp.window(spec), 0),
          0);
    } else {
      PrefillTiles tiles = fit(tensor.tiles(), spec.headDim());
      PrefillWork.Key key =
          new PrefillWork.Key(
              queriesOfKvHead, tiles.rows(), AttentionOp.window(spec), places / spec.kvHeads());
      long slots = partSlots(tiles, spec);
      attend(call, tiles, key, slots);
      join(call, tiles, work.joins(batch, key), slots);
    }
  }

  private static PrefillTiles fit(List<PrefillTiles> list, int headDim) {
    return list.stream()
        .filter(tiles -> headDim <= tiles.maxHeadDim())
        .findFirst()
        .orElseThrow(() -> AttentionOp.tooLarge(headDim));
  }

  /** Room for the most parts that there can be, so that the first step finds out if it is there. */
  private long partSlots(PrefillTiles tiles, AttentionSpec spec) {
    long bytes = (long) places * tiles.rows() * (spec.headDim() + 2) * Float.BYTES;
    return parts.atLeast(bytes);
  }

  private void attend(Call call, PrefillTiles tiles, PrefillWork.Key key, long slots) {
    PrefillWork.Blocks blocks = work.work(call.batch(), key);
    for (int done = 0; done < blocks.count(); done += MAX_GRID_ROWS) {
      arguments(call, tiles.kernel(), blocks.from(done), slots)
          .run(
              call.spec().kvHeads(),
              Math.min(MAX_GRID_ROWS, blocks.count() - done),
              1,
              tiles.threads(),
              tiles.sharedBytes());
    }
  }

  private void join(Call call, PrefillTiles tiles, PrefillWork.Blocks joins, long slots) {
    arguments(call, tensor.join(), joins.address(), slots)
        .i32(tiles.rows())
        .run(
            call.spec().kvHeads(),
            joins.count(),
            tiles.rows() / Tensor.JOIN_ROWS,
            Tensor.JOIN_THREADS,
            0);
  }

  /** As prefill.cuh's PrefillArgs. */
  private Launch arguments(Call call, Kernel kernel, long blocks, long slots) {
    AttentionSpec spec = call.spec();
    return launch
        .of(kernel)
        .address(call.qkv())
        .address(call.out())
        .address(call.keys())
        .address(call.values())
        .address(call.batch().rowStart())
        .address(call.batch().contextLength())
        .address(call.batch().blockTables())
        .address(blocks)
        .address(slots)
        .i32(call.batch().tableStride())
        .i32(spec.queryHeads())
        .i32(spec.kvHeads())
        .i32(spec.headDim())
        .i32(Integer.numberOfTrailingZeros(call.shape().blockSize()))
        .i32(AttentionOp.window(call.spec()))
        .f32(spec.scale())
        .f32(spec.softcap());
  }

  @Override
  public void close() {
    work.close();
    parts.close();
  }
}
