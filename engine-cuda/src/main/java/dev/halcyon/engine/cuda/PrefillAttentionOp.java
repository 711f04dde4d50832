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

  /** More than any context. */
  private static final int NO_WINDOW = 1 << 30;

  private static final int MAX_GRID_ROWS = 65535;

  private final Launch launch;
  private final PrefillWork work;
  private final int group;

  /** By ascending size of heads; those for tensor cores are none for activations of float32. */
  private final List<PrefillTiles> tensor;

  private final List<PrefillTiles> tiled;

  PrefillAttentionOp(
      CudaContext context,
      CudaMemory memory,
      KernelLibrary library,
      Launch launch,
      UploadRing uploads,
      DType activations) {
    this.launch = launch;
    this.work = new PrefillWork(memory, uploads);
    this.group = Groups.of(activations);
    tensor =
        activations == DType.F32
            ? List.of()
            : IntStream.of(TENSOR_HEAD_DIMS)
                .mapToObj(dim -> PrefillTiles.tensor(context, library, dim))
                .toList();
    tiled =
        IntStream.of(TILED_HEAD_DIMS)
            .mapToObj(dim -> PrefillTiles.tiled(context, library, dim))
            .toList();
  }

  /**
   * Writes the results of the rows of those sequences alone.
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
    PrefillTiles tiles = tiles(spec.headDim(), (qkv | keys | values | out) % 16 == 0);
    int blocks = work.prepare(batch, spec.queryHeads() / spec.kvHeads(), tiles.rows());
    for (int done = 0; done < blocks; done += MAX_GRID_ROWS) {
      launch
          .of(tiles.kernel())
          .address(qkv)
          .address(out)
          .address(keys)
          .address(values)
          .address(batch.rowStart())
          .address(batch.contextLength())
          .address(batch.blockTables())
          .address(work.address(done))
          .i32(batch.tableStride())
          .i32(spec.queryHeads())
          .i32(spec.kvHeads())
          .i32(spec.headDim())
          .i32(Integer.numberOfTrailingZeros(shape.blockSize()))
          .i32(spec.slidingWindow() == 0 ? NO_WINDOW : Math.min(spec.slidingWindow(), NO_WINDOW))
          .f32(spec.scale())
          .f32(spec.softcap())
          .run(
              spec.kvHeads(),
              Math.min(MAX_GRID_ROWS, blocks - done),
              1,
              tiles.threads(),
              tiles.sharedBytes());
    }
  }

  private PrefillTiles tiles(int headDim, boolean aligned) {
    List<PrefillTiles> fit = aligned && headDim % group == 0 && !tensor.isEmpty() ? tensor : tiled;
    return fit.stream()
        .filter(tiles -> headDim <= tiles.maxHeadDim())
        .findFirst()
        .orElseThrow(
            () ->
                new IllegalArgumentException(
                    "headDim is " + headDim + ", and attention on a GPU takes up to 256"));
  }

  @Override
  public void close() {
    work.close();
  }
}
