// Rows of logits to logprobs as reduce.cu does, for rows of 16 bits that never lie in memory whole: a
// tile of the vocabulary after the other, with what is known of each row kept between them.
//
// The rank of a token is counted by its logit, which a later tile may have. So bounds of it are
// computed before, by another product of the same vectors. Nearly always they are one value, or two
// neighbours, for each of which is counted; a few wide ones, which are near zero where elements lie
// close together, have few logits within them, and these are noted. The tile of the token says
// whether its logit is within its bounds; where not, the host has the row reduced in another way.
#include "pairs.cuh"
#include "scan.cuh"

// There are none for float32, whose bounds would never be one value.
#if HALCYON_ACT != 0

constexpr int TILE_THREADS = 256;
constexpr int WARPS = TILE_THREADS / 32;
constexpr int VECTOR = 16 / sizeof(Act);

// The vectors that a thread works on at once.
constexpr int EACH = 4;

// The longest list of most likely tokens, and the most that one tile proposes for it.
constexpr int TILE_LIST = 64;
constexpr int PROPOSED = 512;

// The most logits within wide bounds.
constexpr int NEAR = 27;

// What is known of a target's logit: it is still to come; it is the lower or the upper bound; it is
// within wide ones; it is none of these.
enum Known : int { AHEAD, LOWER, UPPER, WITHIN, OUTSIDE };

// What is known of a row.
struct State {
  double sum;  // of exp(x - max)
  float max;
  float logit;  // of the target
  int known;
  int before[2];  // how many are before the target in rank, if it is the lower or the upper bound
  int near;       // logits within wide bounds; those of keys, and perhaps more
  u64 keys[NEAR];
};

static_assert(sizeof(State) == 248, "as TileReductionOp has it");

struct Tile {
  u64 logits;   // [rows, columns], written to where skip is not 0
  u64 outside;  // how many rows are found to be OUTSIDE, 0 at first; [rows] targets, -1 for none
  u64 bounds;   // [2, rows]
  u64 states;   // [rows]
  u64 results;
  int resultBytes;
  int columns;  // whole vectors
  int id;       // of the first column
  int skip;     // columns that an earlier tile had
  int top;      // at most TILE_LIST
  int isFirst;
  int isLast;
};

// A row of a tile.
struct TileRow {
  const Bytes16* p;
  int vectors;
  int id;
  int skip;

  // Negative infinity behind its end.
  __device__ __forceinline__ Bytes16 at(int vector) const {
    constexpr u32 NONE = HALCYON_ACT == 1 ? 0xfc00fc00u : 0xff80ff80u;
    return vector < vectors ? p[vector] : Bytes16{NONE, NONE, NONE, NONE};
  }

  // Calls body(x, column) with the elements of a vector that are this tile's.
  template <typename Body>
  __device__ __forceinline__ void each(int vector, Body body) const {
    Bytes16 v = p[vector];
    const Act* values = reinterpret_cast<const Act*>(&v);
#pragma unroll
    for (int i = 0; i < VECTOR; i++) {
      int column = vector * VECTOR + i;
      if (column >= skip) {
        body(toFloat(values[i]), column);
      }
    }
  }
};

// Ascending as values are; 0 and -0 are one.
__device__ __forceinline__ int order(u16 bits) {
  return (bits & 0x8000) != 0 ? -(bits & 0x7fff) : bits;
}

// The next lower value.
__device__ __forceinline__ u16 below(u16 bits) {
  int lower = order(bits) - 1;
  return lower < 0 ? 0x8000 | -lower : lower;
}

// Bounds of a target's logit, and what is counted by them: elements above limits, which differ for
// vectors before its own, where equal ones come before it, and for those from it on.
struct Bounds {
  float lower;
  float upper;
  int column;  // the target's; outside of the tile if negative or too large
  bool wide;
  bool single;
  u32 before[2];
  u32 after[2];

  __device__ Bounds(u16 low, u16 high, int column) : column(column) {
    lower = toFloat(Act{low});
    upper = toFloat(Act{high});
    int apart = order(high) - order(low);
    single = apart == 0;
    wide = apart > 1;
    before[0] = twice(below(low));
    before[1] = twice(wide ? high : below(high));
    after[0] = wide ? before[0] : twice(low);
    after[1] = twice(high);
  }

  __device__ __forceinline__ int vector() const { return max(column, 0) / VECTOR; }
};

// What a thread has seen of a row.
struct Seen {
  float max;
  double sum;
  float before[2];
};

// exp(x) for x up to 0.
__device__ __forceinline__ float expOf(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
  return y;
}

__device__ __forceinline__ float maxOf(const Bytes16 (&held)[EACH]) {
  u32 pair = held[0].words[0];
#pragma unroll
  for (int j = 0; j < EACH; j++) {
#pragma unroll
    for (int w = 0; w < 4; w++) {
      pair = maxOfPairs(Act{}, pair, held[j].words[w]);
    }
  }
  return fmaxf(lowOf(Act{}, pair), highOf(Act{}, pair));
}

// exp(x - base), added up.
__device__ __forceinline__ float sumOfExp(const Bytes16& v, float base) {
  float x[VECTOR];
#pragma unroll
  for (int w = 0; w < 4; w++) {
    x[2 * w] = expOf(lowOf(Act{}, v.words[w]) - base);
    x[2 * w + 1] = expOf(highOf(Act{}, v.words[w]) - base);
  }
  return pairwise<VECTOR>(x);
}

// LIMITS is how many of the bounds differ.
template <int LIMITS>
__device__ __forceinline__ void see(
    const TileRow& row, const Bytes16 (&held)[EACH], int first, const Bounds& bounds, State* state,
    Seen& seen) {
  float own = maxOf(held);
  if (own > seen.max) {
    seen.sum *= double(expOf(seen.max - own));
    seen.max = own;
  }
  // Where all are negative infinity, so that they add nothing.
  float base = seen.max == -infinity() ? 0.0f : seen.max;
  float sums[EACH];
  float counts[LIMITS] = {};
#pragma unroll
  for (int j = 0; j < EACH; j++) {
    bool before = first + j * TILE_THREADS < bounds.vector();
#pragma unroll
    for (int n = 0; n < LIMITS; n++) {
      counts[n] +=
          countAbove(Act{}, held[j].words, before ? bounds.before[n] : bounds.after[n]);
    }
    sums[j] = sumOfExp(held[j], base);
  }
  seen.sum += double(pairwise<EACH>(sums));
#pragma unroll
  for (int n = 0; n < LIMITS; n++) {
    seen.before[n] += counts[n];
  }
  if (LIMITS == 2 && bounds.wide && counts[0] != counts[1]) {
    for (int j = 0; j < EACH && first + j * TILE_THREADS < row.vectors; j++) {
      row.each(first + j * TILE_THREADS, [&](float x, int column) {
        if (x >= bounds.lower && x <= bounds.upper) {
          int at = atomicAdd(&state->near, 1);
          if (at < NEAR) {
            state->keys[at] = keyOf(rankOf(x), row.id + column);
          }
        }
      });
    }
  }
}

template <int LIMITS>
__device__ __forceinline__ Seen seeAll(const TileRow& row, const Bounds& bounds, State* state) {
  Seen seen{-infinity(), 0.0, {0.0f, 0.0f}};
  Bytes16 next[EACH];
#pragma unroll
  for (int j = 0; j < EACH; j++) {
    next[j] = row.at(threadIdx.x + j * TILE_THREADS);
  }
  for (int i = threadIdx.x; i < row.vectors; i += EACH * TILE_THREADS) {
    Bytes16 held[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++) {
      held[j] = next[j];
    }
    if (i + EACH * TILE_THREADS < row.vectors) {
#pragma unroll
      for (int j = 0; j < EACH; j++) {
        next[j] = row.at(i + (j + EACH) * TILE_THREADS);
      }
    }
    see<LIMITS>(row, held, i, bounds, state, seen);
  }
  return seen;
}

// What all threads have seen, in the first one. All call it.
__device__ __forceinline__ Seen together(Seen seen) {
  __shared__ Seen warps[WARPS];
  float max = blockReduce(seen.max, [](float a, float b) { return fmaxf(a, b); });
  if (seen.max > -infinity()) {
    seen.sum *= double(expOf(seen.max - max));
  }
  seen.max = max;
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) {
    seen.sum += __shfl_xor_sync(FULL_WARP, seen.sum, step);
    seen.before[0] += __shfl_xor_sync(FULL_WARP, seen.before[0], step);
    seen.before[1] += __shfl_xor_sync(FULL_WARP, seen.before[1], step);
  }
  if ((threadIdx.x & 31) == 0) {
    warps[threadIdx.x >> 5] = seen;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < WARPS; i++) {
      seen.sum += warps[i].sum;
      seen.before[0] += warps[i].before[0];
      seen.before[1] += warps[i].before[1];
    }
  }
  return seen;
}

// Adds a tile to the state of its row; for one thread.
__device__ __forceinline__ void extend(State& state, const Seen& seen) {
  float max = fmaxf(state.max, seen.max);
  if (max > -infinity()) {
    state.sum = state.sum * double(expf(state.max - max)) + seen.sum * double(expf(seen.max - max));
  } else {
    state.sum += seen.sum;
  }
  state.max = max;
  state.before[0] += int(seen.before[0]);
  state.before[1] += int(seen.before[1]);
}

// Takes notice of the target in its own tile; for one thread.
__device__ __forceinline__ void meet(State& state, const TileRow& row, const Bounds& bounds) {
  const Act* logits = reinterpret_cast<const Act*>(row.p);
  float logit = toFloat(logits[bounds.column]);
  state.logit = logit;
  if (logit != logit) {
    // As nothing compares with it, nothing is before it.
    state.known = LOWER;
    state.before[0] = 0;
  } else if (logit == -infinity()) {
    // Limits have nothing below it.
    state.known = OUTSIDE;
  } else if (bounds.wide) {
    state.known = logit >= bounds.lower && logit <= bounds.upper ? WITHIN : OUTSIDE;
  } else {
    state.known = logit == bounds.lower ? LOWER : logit == bounds.upper ? UPPER : OUTSIDE;
    // Its own vector counts with those behind it.
    for (int c = max(bounds.vector() * VECTOR, row.skip); c < bounds.column; c++) {
      float x = toFloat(logits[c]);
      state.before[0] += x == bounds.lower;
      state.before[1] += x == bounds.upper;
    }
  }
}

// How many are before the target; OUTSIDE becomes of what can't be told.
__device__ __forceinline__ int countOf(State& state, int target) {
  switch (state.known) {
    case LOWER:
      return state.before[0];
    case UPPER:
      return state.before[1];
    case WITHIN: {
      if (state.near > NEAR) {
        state.known = OUTSIDE;
      }
      u64 own = keyOf(rankOf(state.logit), target);
      int before = state.before[1];
      for (int i = 0; i < state.near && i < NEAR; i++) {
        before += state.keys[i] < own;
      }
      return before;
    }
    default:
      return 0;
  }
}

// Shared memory of the lists.
struct TileList {
  u64 keys[PROPOSED + TILE_LIST];
  float groups[TILE_THREADS];
  float bound;
  int count;
};

// Bounds the k-th best element of a tile: by the k-th best of the highest of at least 2 k groups of
// threads. All threads call it.
__device__ __forceinline__ float boundOf(float own, int k, TileList& s) {
  int groups = WARPS;
  while (groups < 2 * k && groups < TILE_THREADS) {
    groups *= 2;
  }
  int each = TILE_THREADS / groups;
  for (int step = 1; step < each; step *= 2) {
    own = fmaxf(own, __shfl_xor_sync(FULL_WARP, own, step));
  }
  if (threadIdx.x % each == 0) {
    s.groups[threadIdx.x / each] = own;
  }
  __syncthreads();
  int group = threadIdx.x;
  if (group < groups) {
    float mine = s.groups[group];
    int before = 0;
    for (int i = 0; i < groups; i++) {
      before += s.groups[i] > mine || s.groups[i] == mine && i < group;
    }
    if (before == k - 1) {
      s.bound = mine;
    }
  }
  __syncthreads();
  return s.bound;
}

// Proposes elements from a bound on, or those above it. A warp reads what each of its threads that
// has any has seen.
__device__ __forceinline__ void propose(
    const TileRow& row, float own, float bound, bool inclusive, TileList& s) {
  u32 threads = __ballot_sync(FULL_WARP, inclusive ? own >= bound : own > bound);
  int lane = threadIdx.x & 31;
  for (; threads != 0; threads &= threads - 1) {
    int thread = (threadIdx.x & ~31) + __ffs(threads) - 1;
    for (int i = thread + lane * TILE_THREADS; i < row.vectors; i += 32 * TILE_THREADS) {
      row.each(i, [&](float x, int column) {
        if (inclusive ? x >= bound : x > bound) {
          int at = atomicAdd(&s.count, 1);
          if (at < PROPOSED) {
            s.keys[at] = keyOf(rankOf(x), row.id + column);
          }
        }
      });
    }
  }
}

// Proposes the first k elements, one after the other: where so many are equal that there is no room
// for all of them. All threads call it.
__device__ __forceinline__ void proposeFirst(const TileRow& row, int k, TileList& s) {
  u64 last = 0;
  for (int n = 0; n < k; n++) {
    u64 best = NO_KEY;
    for (int i = threadIdx.x; i < row.vectors; i += TILE_THREADS) {
      row.each(i, [&](float x, int column) {
        u64 key = keyOf(rankOf(x), row.id + column);
        best = n == 0 || key > last ? lesser(best, key) : best;
      });
    }
    last = blockLeast(best);
    if (threadIdx.x == 0) {
      s.keys[n] = last;
    }
  }
  if (threadIdx.x == 0) {
    s.count = k;
  }
}

// Makes list the first k of itself and of the tile, sorted. All threads call it.
__device__ __forceinline__ void extendList(
    const TileRow& row, float own, int k, bool isFirst, u64* list, TileList& s) {
  if (threadIdx.x == 0) {
    s.count = 0;
  }
  if (isFirst && threadIdx.x < k) {
    list[threadIdx.x] = NO_KEY;
  }
  // Ids ascend, so what equals the last of the list comes behind it.
  float bound = isFirst ? boundOf(own, k, s) : logitOf(list[k - 1]);
  __syncthreads();
  propose(row, own, bound, isFirst, s);
  __syncthreads();
  if (s.count > PROPOSED) {
    __syncthreads();
    proposeFirst(row, k, s);
    __syncthreads();
  }
  int proposed = s.count;
  if (proposed == 0) {
    return;
  }
  int listed = isFirst ? 0 : k;
  if (threadIdx.x < listed) {
    s.keys[proposed + threadIdx.x] = list[threadIdx.x];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < proposed + listed; i += TILE_THREADS) {
    u64 key = s.keys[i];
    int before = countBefore(s.keys, proposed + listed, key);
    if (before < k) {
      list[before] = key;
    }
  }
}

// A block for each row.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 4)
    reduce_tile(const __grid_constant__ Tile tile) {
  __shared__ TileList lists;
  int index = blockIdx.x;
  Act* logits = reinterpret_cast<Act*>(tile.logits) + i64(index) * tile.columns;
  State* state = reinterpret_cast<State*>(tile.states) + index;
  Result* result = reinterpret_cast<Result*>(tile.results + u64(index) * tile.resultBytes);
  int* outside = reinterpret_cast<int*>(tile.outside);
  int target = outside[1 + index];
  const u16* bits = reinterpret_cast<const u16*>(tile.bounds);
  for (int i = threadIdx.x; i < tile.skip; i += TILE_THREADS) {
    logits[i] = fromFloat<Act>(-infinity());
  }
  if (tile.isFirst != 0 && threadIdx.x == 0) {
    state->sum = 0.0;
    state->max = -infinity();
    state->known = AHEAD;
    state->before[0] = 0;
    state->before[1] = 0;
    state->near = 0;
  }
  __syncthreads();
  TileRow row{
      reinterpret_cast<const Bytes16*>(logits), tile.columns / VECTOR, tile.id, tile.skip};
  Bounds bounds(bits[index], bits[gridDim.x + index], target - tile.id);
  Seen own = bounds.single ? seeAll<1>(row, bounds, state) : seeAll<2>(row, bounds, state);
  Seen all = together(own);
  if (threadIdx.x == 0) {
    // What other threads noted is there: together waited for them.
    extend(*state, all);
    if (target >= 0 && bounds.column >= tile.skip && bounds.column < tile.columns) {
      meet(*state, row, bounds);
    }
    if (tile.isLast != 0) {
      int before = countOf(*state, target);
      *result = Result{state->sum, state->max, state->logit, before, -1, state->known, 0};
      if (state->known == OUTSIDE) {
        atomicAdd(outside, 1);
      }
    }
  }
  if (tile.top > 0) {
    u64* list = reinterpret_cast<u64*>(result + 1);
    extendList(row, own.max, tile.top, tile.isFirst != 0, list, lists);
    if (tile.isLast != 0) {
      __syncthreads();
      // Rows of NaN have fewer.
      int listed = __syncthreads_count(threadIdx.x < tile.top && list[threadIdx.x] != NO_KEY);
      if (threadIdx.x == 0) {
        result->count = listed;
      }
    }
  }
}

// Bounds of a row's product with one of weight's, as any order of sums gives it and as it is rounded
// then. A warp for each row. out is [2, rows].
extern "C" __global__ void __launch_bounds__(TILE_THREADS)
    bound_products(
        const Act* x, const Act* weight, int cols, const int* targets, int rows, Act* out) {
  int row = blockIdx.x * WARPS + (threadIdx.x >> 5);
  if (row >= rows) {
    return;
  }
  int lane = threadIdx.x & 31;
  int target = targets[row];
  float sum = 0.0f;
  float size = 0.0f;
  if (target >= 0) {
    const Act* a = x + i64(row) * cols;
    const Act* b = weight + i64(target) * cols;
    bool whole = cols % GROUP == 0 && aligned16(a) && aligned16(b);
#pragma unroll 4
    for (int i = lane * GROUP; i < cols; i += 32 * GROUP) {
      float u[GROUP];
      float v[GROUP];
      loadGroup(a, i, cols, whole, u);
      loadGroup(b, i, cols, whole, v);
#pragma unroll
      for (int j = 0; j < GROUP; j++) {
        sum += u[j] * v[j];
        size += fabsf(u[j] * v[j]);
      }
    }
    sum = warpSum(sum);
    size = warpSum(size);
  }
  if (lane == 0) {
    // Several times what products of random vectors were seen to differ by.
    float error = size * 0x1p-20f;
    out[row] = fromFloat<Act>(sum - error);
    out[rows + row] = fromFloat<Act>(sum + error);
  }
}

#endif
