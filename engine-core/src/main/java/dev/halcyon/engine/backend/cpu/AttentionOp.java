package dev.halcyon.engine.backend.cpu;

import dev.halcyon.engine.backend.AttentionSpec;
import dev.halcyon.engine.backend.Batch;
import java.nio.FloatBuffer;
import java.util.Arrays;

/**
 * Causal attention over paged keys and values, with a running softmax (Milakov and Gimelshein,
 * "Online normalizer calculation for softmax", 2018) over tiles of positions.
 *
 * <p>A unit of work is some rows of a sequence with the query heads that share a KV head: keys and
 * values are copied to a tile in cache once for all of them. Tiles begin at fixed positions, and a
 * query takes part in those tiles alone that it sees something of; so its result depends neither on
 * how a prompt was cut into chunks nor on the rest of the batch.
 */
final class AttentionOp {

  /** Positions of a tile, or a block's where that is larger. */
  private static final int TILE = 64;

  /** About how many queries a unit has. */
  private static final int UNIT_QUERIES = 32;

  private final WorkerPool pool;
  private final Scratch[] scratch;
  private final Kernels kernels;

  AttentionOp(WorkerPool pool, Scratch[] scratch, Kernels kernels) {
    this.pool = pool;
    this.scratch = scratch;
    this.kernels = kernels;
  }

  /** The buffers and sizes of one call. */
  private record Call(
      Batch batch,
      FloatBuffer qkv,
      AttentionSpec spec,
      CpuKvStorage kv,
      int layer,
      FloatBuffer out) {

    int group() {
      return spec.queryHeads() / spec.kvHeads();
    }

    int tile() {
      return Math.max(TILE, kv.shape().blockSize());
    }
  }

  void run(
      CpuBatch batch,
      FloatBuffer qkv,
      AttentionSpec spec,
      CpuKvStorage kv,
      int layer,
      FloatBuffer out) {
    batch.checkFor(kv);
    Call call = new Call(batch.batch(), qkv, spec, kv, layer, out);
    clearPadding(call);
    int rowsPerUnit = Math.max(1, UNIT_QUERIES / call.group());
    int[] units = units(call.batch(), rowsPerUnit);
    int heads = spec.kvHeads();
    pool.run(
        units.length / 2 * heads,
        (task, worker) -> {
          int unit = task / heads;
          int sequence = units[2 * unit];
          int first = units[2 * unit + 1];
          int end = Math.min(first + rowsPerUnit, call.batch().rowStart()[sequence + 1]);
          attend(call, sequence, first, end, task % heads, scratch[worker].attention());
        });
  }

  /** Rows of sequences without context get zeros. */
  private static void clearPadding(Call call) {
    int cols = call.spec().queryHeads() * call.spec().headDim();
    for (int s = 0; s < call.batch().sequences(); s++) {
      if (call.batch().contextLength()[s] == 0) {
        int end = call.batch().rowStart()[s + 1] * cols;
        for (int i = call.batch().rowStart()[s] * cols; i < end; i++) {
          call.out().put(i, 0f);
        }
      }
    }
  }

  /**
   * Pairs of (sequence, first row); late rows, which see most, come first, so that no long unit is
   * last.
   */
  private static int[] units(Batch batch, int rowsPerUnit) {
    int[] units = new int[2 * (batch.rows() / rowsPerUnit + batch.sequences())];
    int count = 0;
    for (int s = 0; s < batch.sequences(); s++) {
      int begin = batch.rowStart()[s];
      int rows = batch.contextLength()[s] == 0 ? 0 : batch.rowStart()[s + 1] - begin;
      for (int i = (rows - 1) / rowsPerUnit; rows > 0 && i >= 0; i--) {
        units[count++] = s;
        units[count++] = begin + i * rowsPerUnit;
      }
    }
    return Arrays.copyOf(units, count);
  }

  /** Rows first to end of a sequence, for one KV head. */
  private void attend(Call call, int sequence, int first, int end, int head, AttentionScratch own) {
    int dim = call.spec().headDim();
    int group = call.group();
    int count = (end - first) * group;
    int lanes = kernels.lanes();
    int sumStride = (dim + 2 * lanes - 1) / (2 * lanes) * (2 * lanes);
    own.prepare(count, call.tile(), dim, sumStride, dim * call.kv().shape().blockSize(), lanes);
    loadQueries(call, first, end, head, own);
    Arrays.fill(own.sums, 0, count * sumStride, 0f);
    Arrays.fill(own.max, 0, count, Float.NEGATIVE_INFINITY);
    Arrays.fill(own.total, 0, count, 0f);

    int low = Integer.MAX_VALUE;
    int high = 0;
    for (int row = first; row < end; row++) {
      low = Math.min(low, firstSeen(call, row));
      high = Math.max(high, call.batch().positions()[row]);
    }
    for (int tile = low / call.tile() * call.tile(); tile <= high; tile += call.tile()) {
      attendTile(call, sequence, first, end, head, tile, low, high, sumStride, own);
    }
    storeSums(call, first, end, head, sumStride, own);
  }

  private static int firstSeen(Call call, int row) {
    int window = call.spec().slidingWindow();
    return window == 0 ? 0 : Math.max(0, call.batch().positions()[row] - window + 1);
  }

  private static void loadQueries(Call call, int first, int end, int head, AttentionScratch own) {
    int size = call.group() * call.spec().headDim();
    int used = 0;
    for (int row = first; row < end; row++) {
      call.qkv().get(row * call.spec().packedCols() + head * size, own.queries, used, size);
      used += size;
    }
    float scale = call.spec().scale();
    for (int i = 0; i < used; i++) {
      own.queries[i] *= scale;
    }
  }

  private void attendTile(
      Call call,
      int sequence,
      int first,
      int end,
      int head,
      int tileStart,
      int low,
      int high,
      int sumStride,
      AttentionScratch own) {
    int tile = call.tile();
    int dim = call.spec().headDim();
    int group = call.group();
    int blockSize = call.kv().shape().blockSize();
    // Blocks that no row of this unit sees are not read: what they hold may be another sequence's.
    int from = Math.max(0, low - tileStart) / blockSize * blockSize;
    int to = Math.min(tile, high + 1 - tileStart);
    scoreTile(call, sequence, head, tileStart, from, to, (end - first) * group, own);
    for (int row = first; row < end; row++) {
      int seenFrom = Math.max(0, firstSeen(call, row) - tileStart);
      int seenTo = Math.min(tile, call.batch().positions()[row] + 1 - tileStart);
      for (int i = (row - first) * group; i < (row - first + 1) * group; i++) {
        if (seenFrom < seenTo) {
          softmax(call, i, seenFrom, seenTo, sumStride, own);
        } else {
          Arrays.fill(own.scores, i * tile, (i + 1) * tile, 0f);
        }
      }
    }
    kernels.weightedSum(
        own.scores, tile, (end - first) * group, own.values, from, to, dim, own.sums, sumStride);
  }

  /** Copies positions from to to (whole blocks at the start) of a tile, and scores them. */
  private void scoreTile(
      Call call,
      int sequence,
      int head,
      int tileStart,
      int from,
      int to,
      int queries,
      AttentionScratch own) {
    int tile = call.tile();
    int dim = call.spec().headDim();
    int blockSize = call.kv().shape().blockSize();
    boolean direct = blockSize % kernels.lanes() == 0;
    for (int at = from; at < to; at += blockSize) {
      int block = call.batch().blockTables()[sequence][(tileStart + at) / blockSize];
      call.kv().shape().requireBlock(block);
      FloatBuffer buffer = call.kv().buffer(call.layer(), block);
      buffer.get(call.kv().keys(block, head), own.block, 0, dim * blockSize);
      buffer.get(call.kv().values(block, head), own.values, at * dim, dim * blockSize);
      if (direct) {
        int keys = Math.min(blockSize, to - at);
        kernels.scores(
            own.queries, queries, dim, own.block, 0, blockSize, keys, own.scores, at, tile);
      } else {
        for (int d = 0; d < dim; d++) {
          for (int i = 0; i < blockSize; i++) {
            own.keys[d * tile + at + i] = own.block[d * blockSize + i];
          }
        }
      }
    }
    if (!direct) {
      int aligned = from / kernels.lanes() * kernels.lanes();
      kernels.scores(
          own.queries,
          queries,
          dim,
          own.keys,
          aligned,
          tile,
          to - aligned,
          own.scores,
          aligned,
          tile);
    }
  }

  /**
   * Turns a query's scores of a tile into weights, and brings its running sums to the new maximum.
   */
  private void softmax(
      Call call, int query, int seenFrom, int seenTo, int sumStride, AttentionScratch own) {
    int begin = query * call.tile();
    float[] scores = own.scores;
    float softcap = call.spec().softcap();
    if (softcap != 0) {
      for (int i = begin + seenFrom; i < begin + seenTo; i++) {
        scores[i] = softcap * Activations.tanh(scores[i] / softcap);
      }
    }
    float max = own.max[query];
    for (int i = begin + seenFrom; i < begin + seenTo; i++) {
      max = Math.max(max, scores[i]);
    }
    Arrays.fill(scores, begin, begin + seenFrom, Float.NEGATIVE_INFINITY);
    Arrays.fill(scores, begin + seenTo, begin + call.tile(), Float.NEGATIVE_INFINITY);
    float total = kernels.expAndSum(scores, begin, call.tile(), max);
    if (max != own.max[query]) {
      float factor = (float) Math.exp(own.max[query] - max);
      for (int i = query * sumStride; i < (query + 1) * sumStride; i++) {
        own.sums[i] *= factor;
      }
      own.total[query] *= factor;
      own.max[query] = max;
    }
    own.total[query] += total;
  }

  private static void storeSums(
      Call call, int first, int end, int head, int sumStride, AttentionScratch own) {
    int dim = call.spec().headDim();
    int group = call.group();
    int cols = call.spec().queryHeads() * dim;
    for (int row = first; row < end; row++) {
      for (int g = 0; g < group; g++) {
        int query = (row - first) * group + g;
        float factor = 1 / own.total[query];
        for (int d = 0; d < dim; d++) {
          own.sums[query * sumStride + d] *= factor;
        }
        int at = row * cols + (head * group + g) * dim;
        call.out().put(at, own.sums, query * sumStride, dim);
      }
    }
  }
}
