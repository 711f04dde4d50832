// Attention of the rows of a prompt over paged keys and values without tensor cores, for any type and
// any head of up to 256 elements: products and the running softmax in float32, on tiles in shared
// memory.
//
// The 256 threads are 16 x 16: a thread has ROWS_OF_THREAD rows one behind another, of them every
// 16th key of a tile, and groups of four columns of the output, every 64th.
#include "prefill.cuh"

constexpr int SIDE = 16;
constexpr int THREADS = SIDE * SIDE;

struct alignas(16) Float4 {
  float x[4];
};

// Shapes for heads of up to D elements. Rows in shared memory are 16 bytes longer than their
// elements: the 16 keys that a warp reads at once lie in different banks.
template <int D, int ROWS_OF_THREAD, int KEYS_OF_THREAD>
struct Shape {
  static constexpr int ROWS = SIDE * ROWS_OF_THREAD;
  static constexpr int KEYS = SIDE * KEYS_OF_THREAD;
  static constexpr int STRIDE = D + 4;
  static constexpr int WEIGHT_STRIDE = KEYS + 4;
  static constexpr int FOURS = D / 64;
};

// Over the 16 lanes that share rows.
__device__ __forceinline__ float rowMax(float x) {
#pragma unroll
  for (int lane = SIDE / 2; lane > 0; lane >>= 1) {
    x = fmaxf(x, __shfl_xor_sync(FULL_WARP, x, lane));
  }
  return x;
}

__device__ __forceinline__ float rowSum(float x) {
#pragma unroll
  for (int lane = SIDE / 2; lane > 0; lane >>= 1) {
    x += __shfl_xor_sync(FULL_WARP, x, lane);
  }
  return x;
}

__device__ __forceinline__ const Float4& four(const float* p) {
  return *reinterpret_cast<const Float4*>(p);
}

// Copies rows of heads to shared memory; from(row) says where one begins, null for a row of zeros.
// awaitCopies() ends it.
template <int D, int ROWS, typename From>
__device__ __forceinline__ void copyRows(
    const PrefillArgs& args, float* to, bool whole, From from) {
  constexpr int GROUPS = D / GROUP;
  int headDim = args.headDim;
#pragma unroll 1
  for (int i = threadIdx.x; i < ROWS * GROUPS; i += THREADS) {
    int row = i / GROUPS;
    int first = i % GROUPS * GROUP;
    const Act* head = from(row);
    if (sizeof(Act) == sizeof(float) && whole) {
      bool read = head != nullptr && first < headDim;
      copy16(sharedAddress(to + row * (D + 4) + first), read ? head + first : args.qkv, read);
      continue;
    }
    float x[GROUP];
    if (head != nullptr && first < headDim) {
      loadGroup(head, first, headDim, whole, x);
    } else {
#pragma unroll
      for (int j = 0; j < GROUP; j++) {
        x[j] = 0.0f;
      }
    }
#pragma unroll
    for (int j = 0; j < GROUP; j += 4) {
      *reinterpret_cast<Float4*>(to + row * (D + 4) + first + j) =
          Float4{{x[j], x[j + 1], x[j + 2], x[j + 3]}};
    }
  }
}

template <int D, int ROWS_OF_THREAD, int KEYS_OF_THREAD>
__device__ __forceinline__ void tiledAttention(const PrefillArgs& args) {
  using S = Shape<D, ROWS_OF_THREAD, KEYS_OF_THREAD>;
  extern __shared__ __align__(16) u8 shared[];
  float* queries = reinterpret_cast<float*>(shared);
  float* tile = queries + S::ROWS * S::STRIDE;
  float* weights = tile + S::KEYS * S::STRIDE;
  int column = threadIdx.x % SIDE;
  int firstRow = threadIdx.x / SIDE * ROWS_OF_THREAD;
  float* ownWeights = weights + firstRow * S::WEIGHT_STRIDE;

  Queries q = queriesOf(args);
  int last = min(q.first + S::ROWS, q.end) - 1;
  int low = max(0, q.positionOf(q.first) - args.window + 1);
  int high = q.positionOf(last) + 1;
  bool whole = args.headDim % GROUP == 0 && aligned16(args.qkv) && aligned16(args.keys) &&
               aligned16(args.values);
  int position[ROWS_OF_THREAD];
  float max[ROWS_OF_THREAD];
  float sum[ROWS_OF_THREAD];
  float out[ROWS_OF_THREAD][4 * S::FOURS];
#pragma unroll
  for (int r = 0; r < ROWS_OF_THREAD; r++) {
    position[r] = q.positionOf(q.first + firstRow + r);
    max[r] = -infinity();
    sum[r] = 0.0f;
#pragma unroll
    for (int c = 0; c < 4 * S::FOURS; c++) {
      out[r][c] = 0.0f;
    }
  }

  copyRows<D, S::ROWS>(args, queries, whole, [&](int row) {
    int packedRow = q.first + row;
    int heads = args.queryHeads + 2 * args.kvHeads;
    return packedRow < q.end
               ? args.qkv + q.headOf(packedRow, heads, blockIdx.x * q.group) * args.headDim
               : nullptr;
  });
  for (int firstKey = low / S::KEYS * S::KEYS; firstKey < high; firstKey += S::KEYS) {
    auto headOfKey = [&](const Act* from) {
      return [&args, &q, low, high, firstKey, from](int row) -> const Act* {
        int key = firstKey + row;
        if (key < low || key >= high) {
          return nullptr;
        }
        i64 block = q.table[key >> args.blockShift];
        int offset = key & ((1 << args.blockShift) - 1);
        return from +
               (((block * args.kvHeads + blockIdx.x) << args.blockShift) + offset) * args.headDim;
      };
    };
    // The last tile's values are no longer needed.
    __syncthreads();
    copyRows<D, S::KEYS>(args, tile, whole, headOfKey(args.keys));
    awaitCopies();
    __syncthreads();
    float scores[ROWS_OF_THREAD][KEYS_OF_THREAD] = {};
#pragma unroll 2
    for (int d = 0; d < D; d += 4) {
      Float4 a[ROWS_OF_THREAD];
#pragma unroll
      for (int r = 0; r < ROWS_OF_THREAD; r++) {
        a[r] = four(queries + (firstRow + r) * S::STRIDE + d);
      }
#pragma unroll
      for (int k = 0; k < KEYS_OF_THREAD; k++) {
        Float4 b = four(tile + (column + k * SIDE) * S::STRIDE + d);
#pragma unroll
        for (int r = 0; r < ROWS_OF_THREAD; r++) {
#pragma unroll
          for (int j = 0; j < 4; j++) {
            scores[r][k] += a[r].x[j] * b.x[j];
          }
        }
      }
    }
    // The keys are no longer needed.
    __syncthreads();
    copyRows<D, S::KEYS>(args, tile, whole, headOfKey(args.values));

#pragma unroll
    for (int r = 0; r < ROWS_OF_THREAD; r++) {
      float best = max[r];
#pragma unroll
      for (int k = 0; k < KEYS_OF_THREAD; k++) {
        // As the power of two that the score means.
        float power = scores[r][k] * args.scale;
        power = LOG2E * (args.softcap == 0.0f ? power
                                              : args.softcap * tanhFast(power / args.softcap));
        int distance = position[r] - (firstKey + column + k * SIDE);
        scores[r][k] = distance < 0 || distance >= args.window ? -infinity() : power;
        best = fmaxf(best, scores[r][k]);
      }
      best = rowMax(best);
      // A row that has seen nothing yet has no max to subtract.
      float less = best == -infinity() ? 0.0f : best;
      float change = exp2Fast(max[r] - less);
      max[r] = best;
      sum[r] *= change;
#pragma unroll
      for (int k = 0; k < KEYS_OF_THREAD; k++) {
        float weight = exp2Fast(scores[r][k] - less);
        sum[r] += weight;
        ownWeights[r * S::WEIGHT_STRIDE + column + k * SIDE] = weight;
      }
#pragma unroll
      for (int c = 0; c < 4 * S::FOURS; c++) {
        out[r][c] *= change;
      }
    }
    // The values are there, and the weights.
    awaitCopies();
    __syncthreads();
#pragma unroll 2
    for (int k = 0; k < S::KEYS; k += 4) {
      Float4 weight[ROWS_OF_THREAD];
#pragma unroll
      for (int r = 0; r < ROWS_OF_THREAD; r++) {
        weight[r] = four(ownWeights + r * S::WEIGHT_STRIDE + k);
      }
#pragma unroll
      for (int j = 0; j < 4; j++) {
#pragma unroll
        for (int c = 0; c < S::FOURS; c++) {
          Float4 value = four(tile + (k + j) * S::STRIDE + c * 64 + column * 4);
#pragma unroll
          for (int r = 0; r < ROWS_OF_THREAD; r++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
              out[r][c * 4 + i] += weight[r].x[j] * value.x[i];
            }
          }
        }
      }
    }
  }

#pragma unroll
  for (int r = 0; r < ROWS_OF_THREAD; r++) {
    float total = rowSum(sum[r]);
    // Nothing seen: a row of padding.
    float factor = total == 0.0f ? 0.0f : 1.0f / total;
    int packedRow = q.first + firstRow + r;
    if (packedRow < q.end) {
      Act* to = args.out + q.headOf(packedRow, args.queryHeads, blockIdx.x * q.group) * args.headDim;
#pragma unroll
      for (int c = 0; c < 4 * S::FOURS; c++) {
        int d = c / 4 * 64 + column * 4 + c % 4;
        if (d < args.headDim) {
          to[d] = fromFloat<Act>(out[r][c] * factor);
        }
      }
    }
  }
}

#define TILED(D, ROWS_OF_THREAD, KEYS_OF_THREAD)                                               \
  extern "C" __global__ void __launch_bounds__(THREADS, 2) tiled_attention_##D(PrefillArgs args) { \
    tiledAttention<D, ROWS_OF_THREAD, KEYS_OF_THREAD>(args);                                   \
  }

TILED(64, 4, 4)
TILED(128, 4, 4)
TILED(256, 2, 2)
