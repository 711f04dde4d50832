// Attention of the rows of a prompt over paged keys and values, on tensor cores: the forward pass of
// FlashAttention-2 (Dao, 2023), causal, with half-precision products that accumulate in float32 and a
// softmax in float32.
#include "prefill.cuh"

constexpr int WARPS = 4;
constexpr int THREADS = 32 * WARPS;

// What a part of a tile found of a packed row: headDim outputs, the power of two that they are
// relative to, and the sum of weights.
__device__ __forceinline__ float* partOf(
    const PrefillArgs& args, int tileRows, int slot, int rowOfTile) {
  i64 tile = i64(slot) * args.kvHeads + blockIdx.x;
  return args.parts + (tile * tileRows + rowOfTile) * (args.headDim + 2);
}

// Joins the parts of a tile; a warp takes a row.
__device__ __forceinline__ void joinParts(const PrefillArgs& args, int tileRows) {
  Queries q = queriesOf(args);
  Work work = args.work[blockIdx.y];
  int lane = threadIdx.x % 32;
  int row = blockIdx.z * WARPS + threadIdx.x / 32;
  if (q.first + row >= q.end) {
    return;
  }
  float max = -infinity();
  for (int slot = work.firstKey; slot < work.endKey; slot++) {
    max = fmaxf(max, partOf(args, tileRows, slot, row)[args.headDim]);
  }
  float less = max == -infinity() ? 0.0f : max;
  float total = 0.0f;
  for (int slot = work.firstKey; slot < work.endKey; slot++) {
    const float* part = partOf(args, tileRows, slot, row) + args.headDim;
    total += part[1] * exp2Fast(part[0] - less);
  }
  float factor = total == 0.0f ? 0.0f : 1.0f / total;
  i64 head = q.headOf(q.first + row, args.queryHeads, blockIdx.x * q.group);
  for (int d = lane; d < args.headDim; d += 32) {
    float sum = 0.0f;
    for (int slot = work.firstKey; slot < work.endKey; slot++) {
      const float* part = partOf(args, tileRows, slot, row);
      sum += part[d] * exp2Fast(part[args.headDim] - less);
    }
    args.out[head * args.headDim + d] = fromFloat<Act>(sum * factor);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) join_parts(PrefillArgs args, int tileRows) {
  joinParts(args, tileRows);
}

#if HALCYON_ACT != 0

// The keys of a tile.
constexpr int KEYS = 64;

// A key that is loaded from nowhere: zeros take its place.
constexpr u32 NOWHERE = 0xffffffffu;

// Shapes for heads of up to D elements. Rows in shared memory are 16 bytes longer than D elements, an
// odd number of times 16 bytes: the eight rows of a matrix load lie in different banks.
template <int D>
struct Shape {
  // Blocks of 16 rows that a warp keeps in registers; two of them use a key twice for each load.
  static constexpr int ROW_BLOCKS = D <= 128 ? 2 : 1;
  static constexpr int WARP_ROWS = 16 * ROW_BLOCKS;
  static constexpr int ROWS = WARPS * WARP_ROWS;
  static constexpr int STRIDE = 2 * D + 16;
  static constexpr int CHUNKS = D / 8;
  // Threads that copy a row: they read 16 bytes each, behind one another.
  static constexpr int COPIERS = CHUNKS % 8 == 0 ? 8 : CHUNKS % 4 == 0 ? 4 : 2;
  static constexpr int ROWS_AT_ONCE = THREADS / COPIERS;
  static constexpr int LOADS = KEYS / ROWS_AT_ONCE;
};

// A thread's part in copying tiles of keys and values: some 16-byte chunks of LOADS rows.
template <int D>
struct Copier {
  using S = Shape<D>;
  // Positions that the block sees, from low up to high.
  int low;
  int high;
  // Where the rows lie, in heads from the start of the layer.
  u32 at[S::LOADS];

  // threadIdx.x; with the largest tiles the loop has no register to hold it, and it is read anew.
  static __device__ __forceinline__ int thread() {
    int x = threadIdx.x;
    if (S::ROW_BLOCKS == 2 && D > 64) {
      asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
    }
    return x;
  }

  __device__ void locate(const PrefillArgs& args, const Queries& q, int firstKey) {
    firstKey += thread() / S::COPIERS;
#pragma unroll
    for (int i = 0; i < S::LOADS; i++) {
      int key = firstKey + i * S::ROWS_AT_ONCE;
      at[i] = NOWHERE;
      if (key >= low && key < high) {
        u32 block = q.table[key >> args.blockShift];
        u32 offset = key & ((1 << args.blockShift) - 1);
        at[i] = ((block * args.kvHeads + blockIdx.x) << args.blockShift) + offset;
      }
    }
  }

  __device__ void copy(const Act* from, int headDim, u32 to) const {
    int chunk = thread() % S::COPIERS;
    int rest = headDim - chunk * 8;
    to += thread() / S::COPIERS * S::STRIDE + chunk * 16;
#pragma unroll
    for (int i = 0; i < S::LOADS; i++) {
      const Act* head = from + (at[i] == NOWHERE ? 0 : u64(at[i]) * headDim) + chunk * 8;
#pragma unroll
      for (int c = 0; c < S::CHUNKS; c += S::COPIERS) {
        bool read = at[i] != NOWHERE && c * 8 < rest;
        copy16(to + i * S::ROWS_AT_ONCE * S::STRIDE + c * 16, head + c * 8, read);
      }
    }
  }

  __device__ void copyQueries(const PrefillArgs& args, const Queries& q, u32 to) const {
    int headsOfARow = args.queryHeads + 2 * args.kvHeads;
    int row = thread() / S::COPIERS;
    int chunk = thread() % S::COPIERS;
    to += row * S::STRIDE + chunk * 16;
#pragma unroll
    for (int i = 0; i < S::ROWS / S::ROWS_AT_ONCE; i++) {
      int packedRow = q.first + row + i * S::ROWS_AT_ONCE;
      bool inside = packedRow < q.end;
      i64 head = inside ? q.headOf(packedRow, headsOfARow, blockIdx.x * q.group) : 0;
      const Act* from = args.qkv + head * args.headDim + chunk * 8;
#pragma unroll
      for (int c = 0; c < S::CHUNKS; c += S::COPIERS) {
        bool read = inside && (chunk + c) * 8 < args.headDim;
        copy16(to + i * S::ROWS_AT_ONCE * S::STRIDE + c * 16, from + c * 8, read);
      }
    }
  }
};

// A warp's rows: their running softmax and outputs. A thread holds, of each block of 16 rows, the
// rows lane / 4 and lane / 4 + 8, and of these the columns lane % 4 * 2 and the next one of every 8.
template <int D>
struct Rows {
  using S = Shape<D>;
  float out[S::ROW_BLOCKS][D / 8][4];
  float scores[S::ROW_BLOCKS][KEYS / 8][4];
  // Of raw scores, or of capped ones in powers of two.
  float max[S::ROW_BLOCKS][2];
  // Of the thread's own columns.
  float sum[S::ROW_BLOCKS][2];

  __device__ void clear() {
#pragma unroll
    for (int b = 0; b < S::ROW_BLOCKS; b++) {
#pragma unroll
      for (int n = 0; n < D / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
          out[b][n][i] = 0.0f;
        }
      }
#pragma unroll
      for (int half = 0; half < 2; half++) {
        max[b][half] = -infinity();
        sum[b][half] = 0.0f;
      }
    }
  }

  // scores = queries * keys; addresses are the lane's for the first matrices of its loads.
  __device__ void score(u32 queries, u32 keys) {
#pragma unroll
    for (int b = 0; b < S::ROW_BLOCKS; b++) {
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
          scores[b][n][i] = 0.0f;
        }
      }
    }
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
      u32 a[S::ROW_BLOCKS][4];
#pragma unroll
      for (int b = 0; b < S::ROW_BLOCKS; b++) {
        load4(a[b], queries + b * 16 * S::STRIDE + k * 32);
      }
#pragma unroll
      for (int n = 0; n < KEYS / 16; n++) {
        u32 key[4];
        load4(key, keys + n * 16 * S::STRIDE + k * 32);
#pragma unroll
        for (int b = 0; b < S::ROW_BLOCKS; b++) {
          multiply(scores[b][2 * n], a[b], key[0], key[1]);
          multiply(scores[b][2 * n + 1], a[b], key[2], key[3]);
        }
      }
    }
  }

  // From raw scores to softcap * tanh(scale * score / softcap), as the power of two that it means.
  __device__ void cap(float factor, float softcap) {
#pragma unroll
    for (int b = 0; b < S::ROW_BLOCKS; b++) {
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
          scores[b][n][i] = softcap * LOG2E * tanhFast(scores[b][n][i] * factor);
        }
      }
    }
  }

  // Hides what a row doesn't see. firstRow and firstKey are the thread's first row and column.
  __device__ void mask(const Queries& q, int firstRow, int window, int firstKey) {
#pragma unroll
    for (int b = 0; b < S::ROW_BLOCKS; b++) {
      int position[2] = {q.positionOf(firstRow + b * 16), q.positionOf(firstRow + b * 16 + 8)};
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
          int distance = position[i / 2] - (firstKey + n * 8 + i % 2);
          if (distance < 0 || distance >= window) {
            scores[b][n][i] = -infinity();
          }
        }
      }
    }
  }

  // scores become weights 2^(factor * (score - max)); what was summed before follows a new max.
  __device__ void soften(float factor) {
    float change[S::ROW_BLOCKS][2];
    bool changed = false;
#pragma unroll
    for (int b = 0; b < S::ROW_BLOCKS; b++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float best = max[b][half];
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
          best = fmaxf(best, fmaxf(scores[b][n][2 * half], scores[b][n][2 * half + 1]));
        }
        best = quadMax(best);
        // A row that has seen nothing yet has no max to subtract.
        float less = best == -infinity() ? 0.0f : best * factor;
        change[b][half] = exp2Fast(max[b][half] * factor - less);
        changed |= change[b][half] != 1.0f;
        max[b][half] = best;
        float total = 0.0f;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; i++) {
            scores[b][n][i] = exp2Fast(scores[b][n][i] * factor - less);
            total += scores[b][n][i];
          }
        }
        sum[b][half] = sum[b][half] * change[b][half] + total;
      }
    }
    if (__any_sync(FULL_WARP, changed)) {
#pragma unroll
      for (int b = 0; b < S::ROW_BLOCKS; b++) {
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
#pragma unroll
          for (int i = 0; i < 4; i++) {
            out[b][n][i] *= change[b][i / 2];
          }
        }
      }
    }
  }

  // out += weights * values.
  __device__ void add(u32 values) {
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) {
      u32 weights[S::ROW_BLOCKS][4];
#pragma unroll
      for (int b = 0; b < S::ROW_BLOCKS; b++) {
        const float(&left)[4] = scores[b][2 * k];
        const float(&right)[4] = scores[b][2 * k + 1];
        weights[b][0] = pack2(left[0], left[1]);
        weights[b][1] = pack2(left[2], left[3]);
        weights[b][2] = pack2(right[0], right[1]);
        weights[b][3] = pack2(right[2], right[3]);
      }
#pragma unroll
      for (int n = 0; n < D / 16; n++) {
        u32 value[4];
        load4Transposed(value, values + k * 16 * S::STRIDE + n * 32);
#pragma unroll
        for (int b = 0; b < S::ROW_BLOCKS; b++) {
          multiply(out[b][2 * n], weights[b], value[0], value[1]);
          multiply(out[b][2 * n + 1], weights[b], value[2], value[3]);
        }
      }
    }
  }

  // Leaves what was found of a part of the keys. factor is that of soften().
  __device__ void writePart(const PrefillArgs& args, int slot, int rowOfTile, float factor) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int b = 0; b < S::ROW_BLOCKS; b++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float total = quadSum(sum[b][half]);
        int row = rowOfTile + b * 16 + half * 8 + lane / 4;
        float* part = partOf(args, S::ROWS, slot, row);
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
          int d = n * 8 + lane % 4 * 2;
          if (d < args.headDim) {
            part[d] = out[b][n][2 * half];
            part[d + 1] = out[b][n][2 * half + 1];
          }
        }
        if (lane % 4 == 0) {
          part[args.headDim] = max[b][half] * factor;
          part[args.headDim + 1] = total;
        }
      }
    }
  }

  // Puts out / sum where the warp's queries were, and from there, in whole chunks, to the result.
  __device__ void write(const PrefillArgs& args, const Queries& q, u8* shared, int firstRow) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int b = 0; b < S::ROW_BLOCKS; b++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float total = quadSum(sum[b][half]);
        // Nothing seen: a row of padding.
        float factor = total == 0.0f ? 0.0f : 1.0f / total;
        u8* row = shared + (b * 16 + half * 8 + lane / 4) * S::STRIDE + lane % 4 * 4;
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
          *reinterpret_cast<u32*>(row + n * 16) =
              pack2(out[b][n][2 * half] * factor, out[b][n][2 * half + 1] * factor);
        }
      }
    }
    __syncwarp();
#pragma unroll 4
    for (int i = lane; i < S::WARP_ROWS * S::CHUNKS; i += 32) {
      int row = i / S::CHUNKS;
      int chunk = i % S::CHUNKS;
      int packedRow = firstRow + row;
      if (packedRow < q.end && chunk * 8 < args.headDim) {
        i64 head = q.headOf(packedRow, args.queryHeads, blockIdx.x * q.group);
        *reinterpret_cast<Bytes16*>(args.out + head * args.headDim + chunk * 8) =
            *reinterpret_cast<const Bytes16*>(shared + row * S::STRIDE + chunk * 16);
      }
    }
  }
};

template <int D>
__device__ __forceinline__ void prefillAttention(const PrefillArgs& args) {
  using S = Shape<D>;
  extern __shared__ __align__(16) u8 shared[];
  int warp = threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  Queries q = queriesOf(args);
  int last = min(q.first + S::ROWS, q.end) - 1;
  Copier<D> copier;
  copier.low = max(0, q.positionOf(q.first) - args.window + 1);
  copier.high = min(q.positionOf(last) + 1, args.work[blockIdx.y].endKey);

  u32 queries = sharedAddress(shared);
  u32 keys = queries + S::ROWS * S::STRIDE;
  u32 values = keys + KEYS * S::STRIDE;
  // The lane's rows of the matrices that it loads.
  u32 queryLane = queries + (warp * S::WARP_ROWS + lane % 16) * S::STRIDE + lane / 16 * 16;
  u32 keyLane = keys + (lane % 8 + lane / 16 * 8) * S::STRIDE + lane / 8 % 2 * 16;
  u32 valueLane = values + lane % 16 * S::STRIDE + lane / 16 * 16;

  int firstRow = q.first + warp * S::WARP_ROWS;
  int lastRow = min(firstRow + S::WARP_ROWS - 1, q.end - 1);
  bool idle = firstRow > lastRow;
  int firstPosition = q.positionOf(firstRow);
  int lastPosition = q.positionOf(lastRow);
  bool capped = args.softcap != 0.0f;
  float factor = capped ? 1.0f : args.scale * LOG2E;

  Rows<D> rows;
  rows.clear();
  int key = max(copier.low / KEYS * KEYS, args.work[blockIdx.y].firstKey);
  if (key < copier.high) {
    copier.copyQueries(args, q, queries);
    copier.locate(args, q, key);
    copier.copy(args.keys, args.headDim, keys);
  }
  for (; key < copier.high; key += KEYS) {
    // The keys are there, and the last tile's values no longer needed.
    awaitCopies();
    __syncthreads();
    copier.copy(args.values, args.headDim, values);
    copier.locate(args, q, key + KEYS);
    bool seen = !idle && key <= lastPosition && key + KEYS > firstPosition - args.window + 1;
    if (seen) {
      rows.score(queryLane, keyLane);
    }
    // The values are there, and the keys no longer needed.
    awaitCopies();
    __syncthreads();
    if (key + KEYS < copier.high) {
      copier.copy(args.keys, args.headDim, keys);
    }
    if (seen) {
      if (capped) {
        rows.cap(args.scale / args.softcap, args.softcap);
      }
      if (key + KEYS - 1 > firstPosition || key <= lastPosition - args.window) {
        rows.mask(queriesOf(args), firstRow + lane / 4, args.window, key + lane % 4 * 2);
      }
      rows.soften(factor);
      rows.add(valueLane);
    }
  }
  if (idle) {
    return;
  }
  int slot = args.work[blockIdx.y].slot;
  if (slot < 0) {
    rows.write(args, queriesOf(args), shared + warp * S::WARP_ROWS * S::STRIDE, firstRow);
  } else {
    rows.writePart(args, slot, warp * S::WARP_ROWS, factor);
  }
}

#define PREFILL(D)                                                                             \
  extern "C" __global__ void __launch_bounds__(THREADS, 2) prefill_attention_##D(PrefillArgs args) { \
    prefillAttention<D>(args);                                                                 \
  }

PREFILL(64)
PREFILL(80)
PREFILL(96)
PREFILL(128)
PREFILL(192)
PREFILL(256)

#endif
