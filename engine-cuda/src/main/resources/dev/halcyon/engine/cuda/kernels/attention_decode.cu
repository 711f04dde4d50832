// Attention of sequences that have one row in the batch, over paged keys and values. What limits it is
// reading those: a block reads the keys of a KV head once for all its query heads, and contexts are
// split among blocks (Flash-Decoding, Dao et al., 2023).
//
// A split has a number of keys that depends on the length of its own context alone, so a row's result
// has nothing to do with the others of its batch. A context of one split is written at once; the splits
// of others leave their sums to combine_splits.
//
// In a block, LANES neighbouring lanes are a team that shares a key: each lane has 16 bytes of it, or
// more. A team takes KEYS keys at a time, with a softmax of its own; the teams are added up in the end.
#include "softmax.cuh"

constexpr int THREADS = 128;
constexpr int WARP = 32;

// As DecodeAttentionOp passes it.
struct DecodeArgs {
  // [rows, queryHeads + 2 * kvHeads, headDim], queries rotated.
  const Act* qkv;
  // [rows, queryHeads, headDim]
  Act* out;
  // One layer's, [blocks, kvHeads, blockSize, headDim].
  const Act* keys;
  const Act* values;
  const int* rowStart;
  const int* contextLength;
  const int* blockTables;
  // [sequences, queryHeads, splits, headDim]: values times weights, added up.
  float* sums;
  // [sequences, queryHeads, splits, 2]: the largest score, as a power of two, and the sum of weights.
  float* weights;
  int tableStride;
  int queryHeads;
  int kvHeads;
  int headDim;
  int blockShift;
  // More than any context where there is none.
  int window;
  float scale;
  float softcap;
  // The most splits of a context.
  int splits;
  // Splits have a multiple of this many keys, a power of two.
  int leastKeys;
};

// The part of a context that a sequence's row sees, and how it is split.
struct Context {
  int row;
  int first;
  int end;
  // Keys of a split.
  int share;
  int splits;

  __device__ Context(const DecodeArgs& args, int sequence) {
    row = args.rowStart[sequence];
    bool single = args.rowStart[sequence + 1] - row == 1;
    end = single ? args.contextLength[sequence] : -1;
    first = max(0, end - args.window);
    int seen = end - first;
    int even = (seen + args.splits - 1) / args.splits;
    share = (even + args.leastKeys - 1) & -args.leastKeys;
    splits = share == 0 ? 1 : (seen + share - 1) / share;
  }

  // The sequence has several rows, and is not for these kernels.
  __device__ bool skipped() const { return end < 0; }
};

// Adds up each of COUNT values over a team of LANES lanes, so that lane l ends with the sums of the
// values from l / COPIES * LEFT on, LEFT of them, at the array's start.
template <int COUNT, int LANES>
struct TeamSums {
  static constexpr int LEFT = COUNT > LANES ? COUNT / LANES : 1;
  static constexpr int COPIES = COUNT > LANES ? 1 : LANES / COUNT;

  template <int N = COUNT, int APART = LANES / 2>
  static __device__ __forceinline__ void add(float (&x)[COUNT], int lane) {
    if constexpr (APART > 0 && N > 1) {
      bool upper = lane & APART;
#pragma unroll
      for (int i = 0; i < N / 2; i++) {
        float sent = upper ? x[i] : x[i + N / 2];
        x[i] = (upper ? x[i + N / 2] : x[i]) + __shfl_xor_sync(FULL_WARP, sent, APART);
      }
      add<N / 2, APART / 2>(x, lane);
    } else if constexpr (APART > 0) {
      x[0] += __shfl_xor_sync(FULL_WARP, x[0], APART);
      add<1, APART / 2>(x, lane);
    }
  }
};

// How a block is laid out for heads of up to D elements, and HEADS query heads of a KV head.
template <int D, int HEADS>
struct Layout {
  static constexpr int GROUPS = D / GROUP;
  static constexpr int LANES = GROUPS < WARP ? GROUPS : WARP;
  // Groups that a lane has of a head, LANES groups apart.
  static constexpr int PARTS = GROUPS / LANES;
  static constexpr int ELEMENTS = PARTS * GROUP;
  static constexpr int TEAMS = THREADS / LANES;
  // Keys of a team that are under way at a time.
  static constexpr int KEYS = HEADS == 1 ? 8 : 4;
  using Sums = TeamSums<KEYS * HEADS, LANES>;
  // Neighbouring lanes whose scores are of one query head.
  static constexpr int LANES_OF_HEAD = KEYS / Sums::LEFT * Sums::COPIES;
  static_assert(KEYS % Sums::LEFT == 0, "a lane's scores are of one query head");
};

// A lane's elements of a head, zeros beyond its end.
template <typename L>
__device__ __forceinline__ void readHead(
    const Act* head, int lane, int headDim, bool whole, Act (&x)[L::ELEMENTS]) {
#pragma unroll
  for (int p = 0; p < L::PARTS; p++) {
    int first = (p * L::LANES + lane) * GROUP;
    if (whole && first < headDim) {
      *reinterpret_cast<Bytes16*>(x + p * GROUP) = *reinterpret_cast<const Bytes16*>(head + first);
    } else {
#pragma unroll
      for (int i = 0; i < GROUP; i++) {
        x[p * GROUP + i] = first + i < headDim ? head[first + i] : fromFloat<Act>(0.0f);
      }
    }
  }
}

// The running softmax of a team. A lane has the scores of one query head, LEFT of KEYS, and that
// head's max; `sum` is over its own scores.
template <int D, int HEADS>
struct Team {
  using L = Layout<D, HEADS>;
  using Sums = typename L::Sums;

  int lane;
  float max = -infinity();
  float sum = 0.0f;
  float query[HEADS][L::ELEMENTS];
  float out[HEADS][L::ELEMENTS];

  // From products of this lane's elements to weights, every lane's.
  // `left` is how many of the KEYS keys the context has.
  __device__ __forceinline__ void soften(
      const DecodeArgs& args, float (&scores)[L::KEYS * HEADS], int left) {
    Sums::add(scores, lane);
    float best = max;
#pragma unroll
    for (int i = 0; i < Sums::LEFT; i++) {
      int key = (lane / Sums::COPIES * Sums::LEFT + i) % L::KEYS;
      float power = scores[i] * args.scale;
      power = LOG2E * (args.softcap == 0.0f ? power : args.softcap * tanhFast(power / args.softcap));
      scores[i] = key < left ? power : -infinity();
      best = fmaxf(best, scores[i]);
    }
#pragma unroll
    for (int apart = Sums::COPIES; apart < L::LANES_OF_HEAD; apart *= 2) {
      best = fmaxf(best, __shfl_xor_sync(FULL_WARP, best, apart));
    }
    // A team that has seen nothing yet has no max to subtract.
    float less = best == -infinity() ? 0.0f : best;
    float change = exp2Fast(max - less);
    max = best;
    float own[Sums::LEFT];
    sum *= change;
#pragma unroll
    for (int i = 0; i < Sums::LEFT; i++) {
      own[i] = exp2Fast(scores[i] - less);
      sum += own[i];
    }
    if (__any_sync(FULL_WARP, change != 1.0f)) {
#pragma unroll
      for (int h = 0; h < HEADS; h++) {
        float factor = __shfl_sync(FULL_WARP, change, h * L::LANES_OF_HEAD, L::LANES);
#pragma unroll
        for (int i = 0; i < L::ELEMENTS; i++) {
          out[h][i] *= factor;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < L::KEYS * HEADS; i++) {
      scores[i] =
          __shfl_sync(FULL_WARP, own[i % Sums::LEFT], i / Sums::LEFT * Sums::COPIES, L::LANES);
    }
  }

  // The sum of the weights of the lane's query head.
  __device__ __forceinline__ float total() const {
    float x = sum;
#pragma unroll
    for (int apart = Sums::COPIES; apart < L::LANES_OF_HEAD; apart *= 2) {
      x += __shfl_xor_sync(FULL_WARP, x, apart);
    }
    return x;
  }
};

// Adds up the teams, and writes the results of the block's `heads` query heads, from `firstHead` on.
template <int D, int HEADS>
__device__ __forceinline__ void finish(
    const DecodeArgs& args, const Context& context, const Team<D, HEADS>& team, int firstHead, int heads) {
  using L = Layout<D, HEADS>;
  __shared__ float outs[L::TEAMS][HEADS][D];
  __shared__ float maxes[L::TEAMS][HEADS];
  __shared__ float totals[L::TEAMS][HEADS];
  int number = threadIdx.x / L::LANES;
  float total = team.total();
  if (team.lane % L::LANES_OF_HEAD == 0) {
    maxes[number][team.lane / L::LANES_OF_HEAD] = team.max;
    totals[number][team.lane / L::LANES_OF_HEAD] = total;
  }
#pragma unroll
  for (int h = 0; h < HEADS; h++) {
#pragma unroll
    for (int i = 0; i < L::ELEMENTS; i++) {
      outs[number][h][(i / GROUP * L::LANES + team.lane) * GROUP + i % GROUP] = team.out[h][i];
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < heads * args.headDim; i += THREADS) {
    int h = i / args.headDim;
    int d = i % args.headDim;
    float best = -infinity();
    for (int t = 0; t < L::TEAMS; t++) {
      best = fmaxf(best, maxes[t][h]);
    }
    float less = best == -infinity() ? 0.0f : best;
    float sum = 0.0f;
    float all = 0.0f;
    for (int t = 0; t < L::TEAMS; t++) {
      float factor = exp2Fast(maxes[t][h] - less);
      sum += factor * outs[t][h][d];
      all += factor * totals[t][h];
    }
    if (context.splits == 1) {
      // A sequence of padding sees nothing.
      float result = all == 0.0f ? 0.0f : sum / all;
      args.out[(i64(context.row) * args.queryHeads + firstHead + h) * args.headDim + d] =
          fromFloat<Act>(result);
    } else {
      i64 split = (i64(blockIdx.z) * args.queryHeads + firstHead + h) * args.splits + blockIdx.x;
      args.sums[split * args.headDim + d] = sum;
      if (d == 0) {
        args.weights[2 * split] = best;
        args.weights[2 * split + 1] = all;
      }
    }
  }
}

// A block for each split, block of query heads, and sequence.
template <int D, int HEADS>
__device__ __forceinline__ void decodeAttention(const DecodeArgs& args) {
  using L = Layout<D, HEADS>;
  Context context(args, blockIdx.z);
  if (context.skipped() || int(blockIdx.x) >= context.splits) {
    return;
  }
  int group = args.queryHeads / args.kvHeads;
  int headBlocks = (group + HEADS - 1) / HEADS;
  int kvHead = blockIdx.y / headBlocks;
  int firstOfGroup = blockIdx.y % headBlocks * HEADS;
  int firstHead = kvHead * group + firstOfGroup;
  int heads = min(HEADS, group - firstOfGroup);
  int headDim = args.headDim;
  bool whole =
      headDim % GROUP == 0 && aligned16(args.qkv) && aligned16(args.keys) && aligned16(args.values);

  Team<D, HEADS> team;
  team.lane = threadIdx.x % L::LANES;
  const Act* row = args.qkv + i64(context.row) * (args.queryHeads + 2 * args.kvHeads) * headDim;
#pragma unroll
  for (int h = 0; h < HEADS; h++) {
    Act x[L::ELEMENTS];
    readHead<L>(row + i64(firstHead + (h < heads ? h : 0)) * headDim, team.lane, headDim, whole, x);
#pragma unroll
    for (int i = 0; i < L::ELEMENTS; i++) {
      team.query[h][i] = toFloat(x[i]);
      team.out[h][i] = 0.0f;
    }
  }

  const int* table = args.blockTables + i64(blockIdx.z) * args.tableStride;
  int begin = context.first + blockIdx.x * context.share;
  int end = min(context.end, begin + context.share);
  constexpr int STEP = L::TEAMS * L::KEYS;
  for (int step = begin; step < end; step += STEP) {
    int key = step + int(threadIdx.x) / L::LANES * L::KEYS;
    alignas(16) Act keys[L::KEYS][L::ELEMENTS];
    alignas(16) Act values[L::KEYS][L::ELEMENTS];
#pragma unroll
    for (int k = 0; k < L::KEYS; k++) {
      // Keys that the split does not have are those of its first, without weight.
      int at = key + k < end ? key + k : begin;
      i64 block = table[at >> args.blockShift];
      int offset = at & ((1 << args.blockShift) - 1);
      i64 head = ((block * args.kvHeads + kvHead) << args.blockShift) + offset;
      readHead<L>(args.keys + head * headDim, team.lane, headDim, whole, keys[k]);
      readHead<L>(args.values + head * headDim, team.lane, headDim, whole, values[k]);
    }
    float scores[L::KEYS * HEADS];
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
#pragma unroll
      for (int k = 0; k < L::KEYS; k++) {
        float score = 0.0f;
#pragma unroll
        for (int i = 0; i < L::ELEMENTS; i++) {
          score += team.query[h][i] * toFloat(keys[k][i]);
        }
        scores[h * L::KEYS + k] = score;
      }
    }
    team.soften(args, scores, end - key);
#pragma unroll
    for (int k = 0; k < L::KEYS; k++) {
#pragma unroll
      for (int h = 0; h < HEADS; h++) {
#pragma unroll
        for (int i = 0; i < L::ELEMENTS; i++) {
          team.out[h][i] += scores[h * L::KEYS + k] * toFloat(values[k][i]);
        }
      }
    }
  }
  finish(args, context, team, firstHead, heads);
}

#define DECODE(D, HEADS)                                                                          \
  extern "C" __global__ void __launch_bounds__(THREADS) decode_attention_##D##_##HEADS(DecodeArgs args) { \
    decodeAttention<D, HEADS>(args);                                                              \
  }

DECODE(64, 1)
DECODE(64, 2)
DECODE(64, 4)
DECODE(64, 8)
DECODE(128, 1)
DECODE(128, 2)
DECODE(128, 4)
DECODE(128, 8)
DECODE(256, 1)
DECODE(256, 2)
DECODE(256, 4)
DECODE(256, 8)

// A block for each query head and sequence.
extern "C" __global__ void __launch_bounds__(THREADS) combine_splits(DecodeArgs args) {
  Context context(args, blockIdx.y);
  if (context.skipped() || context.splits == 1) {
    return;
  }
  i64 first = (i64(blockIdx.y) * args.queryHeads + blockIdx.x) * args.splits;
  const float* weights = args.weights + 2 * first;
  const float* sums = args.sums + first * args.headDim;
  Act* out = args.out + (i64(context.row) * args.queryHeads + blockIdx.x) * args.headDim;
  float best = -infinity();
  for (int s = 0; s < context.splits; s++) {
    best = fmaxf(best, weights[2 * s]);
  }
  for (int d = threadIdx.x; d < args.headDim; d += THREADS) {
    float sum = 0.0f;
    float all = 0.0f;
    for (int s = 0; s < context.splits; s++) {
      float factor = exp2Fast(weights[2 * s] - best);
      sum += factor * sums[i64(s) * args.headDim + d];
      all += factor * weights[2 * s + 1];
    }
    out[d] = fromFloat<Act>(sum / all);
  }
}
