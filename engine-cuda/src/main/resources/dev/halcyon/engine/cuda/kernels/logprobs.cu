// Log-softmax, ranks and the most likely tokens of rows of logits: one pass over each row, by as
// many blocks as it has parts. Of a row that is reduced, the last block to be done puts the parts
// together.
#include "select.cuh"

// The most rows that one launch reduces.
constexpr int MOST_ROWS = 512;

// A part's sums, in the first thread of a block. All threads call it.
__device__ __forceinline__ void writeSums(
    double sum, double heated, int before, bool nan, u64 best, Part* out) {
  __shared__ Part warps[SCAN_THREADS / 32];
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) {
    sum += __shfl_xor_sync(FULL_WARP, sum, step);
    heated += __shfl_xor_sync(FULL_WARP, heated, step);
    before += __shfl_xor_sync(FULL_WARP, before, step);
  }
  bool anyNan = __any_sync(FULL_WARP, nan);
  if ((threadIdx.x & 31) == 0) {
    warps[threadIdx.x >> 5] = Part{sum, heated, best, before, anyNan};
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < SCAN_THREADS / 32; i++) {
      sum += warps[i].sum;
      heated += warps[i].heated;
      before += warps[i].before;
      anyNan |= warps[i].nan != 0;
    }
    *out = Part{sum, heated, best, before, anyNan};
  }
}

// The sum of a thread's elements, rounded as often as it has levels.
template <int N>
__device__ __forceinline__ float pairwise(const float* x) {
  if constexpr (N == 1) {
    return *x;
  } else {
    return pairwise<N / 2>(x) + pairwise<N / 2>(x + N / 2);
  }
}

// exp(x) for x up to 0. The argument's rounding tells where exp(x) is small against the 1 that the
// highest logit adds to a sum: at -11.8, of which 2^17 add up to as much, it is 2e-7 of each.
__device__ __forceinline__ float expBelow(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
  return y;
}

// How many of a thread's elements are before the target in rank, ties by the lower id.
template <typename T>
__device__ __forceinline__ int countBefore(
    const Row<T>& row, const float (&x)[SCAN_EACH], int part, int target) {
  float logit = row.at(target);
  int before = 0;
  bool tie = false;
#pragma unroll
  for (int e = 0; e < SCAN_EACH; e++) {
    before += x[e] > logit;
    tie |= x[e] == logit;
  }
  if (tie) {
#pragma unroll
    for (int e = 0; e < SCAN_EACH; e++) {
      int id = row.idOf(part, threadIdx.x, e);
      before += x[e] == logit && u32(id) < u32(target);
    }
  }
  return before;
}

// A part's statistics, and unless groups is null the best key of each thread. Without groups the
// best key's id is not found out, only its logit.
template <typename T>
__device__ __forceinline__ void scanPart(
    const Row<T>& row, const Job& job, int part, Part* out, u64* groups) {
  float x[SCAN_EACH];
#pragma unroll
  for (int j = 0; j < Row<T>::EACH; j++) {
    float v[Row<T>::VECTOR];
    row.load(row.vectorOf(part, threadIdx.x, j), v);
#pragma unroll
    for (int i = 0; i < Row<T>::VECTOR; i++) {
      x[j * Row<T>::VECTOR + i] = v[i];
    }
  }
  float own = -infinity();
  bool nan = false;
#pragma unroll
  for (int e = 0; e < SCAN_EACH; e++) {
    own = fmaxf(own, x[e]);
    nan |= x[e] != x[e];
  }
  u64 best;
  if (groups == nullptr) {
    best = keyOf(rankOf(own), 0);
  } else {
    int at = -1;
#pragma unroll
    for (int e = SCAN_EACH - 1; e >= 0; e--) {
      // Ids ascend, so the first of equal ones stays.
      at = x[e] == own ? e : at;
    }
    // Where the row ends, what it lacks may stand before its own negative infinities.
    if (own == -infinity()) {
      for (int e = SCAN_EACH - 1; e >= 0; e--) {
        at = row.has(row.idOf(part, threadIdx.x, e)) ? e : at;
      }
    }
    int id = row.idOf(part, threadIdx.x, at);
    best = at >= 0 && row.has(id) ? keyOf(rankOf(own), id) : NO_KEY;
    groups[threadIdx.x] = best;
  }
  best = blockLeast(best);
  float max = logitOf(best);
  float sum = 0.0f;
  double heated = 0.0;
  if (max > -infinity()) {
    if (job.temperature > 0.0f) {
#pragma unroll
      for (int e = 0; e < SCAN_EACH; e++) {
        heated += expf((x[e] - max) / job.temperature);
      }
    }
    if ((job.flags & SUM) != 0) {
      float each[SCAN_EACH];
#pragma unroll
      for (int e = 0; e < SCAN_EACH; e++) {
        // What the row lacks is negative infinity, and adds nothing.
        each[e] = expBelow(x[e] - max);
      }
      sum = pairwise<SCAN_EACH>(each);
    }
  }
  int before = job.target >= 0 ? countBefore(row, x, part, job.target) : 0;
  writeSums(sum, heated, before, nan, best, out);
}

// blockIdx.x counts parts, blockIdx.y jobs. groups is [jobs, parts, SCAN_THREADS].
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    scan_rows(const Job* jobs, int cols, Part* parts, u64* groups) {
  const Job& job = jobs[blockIdx.y];
  int part = blockIdx.x;
  u64 at = u64(blockIdx.y) * gridDim.x + part;
  withRow(reinterpret_cast<const void*>(job.row), (job.flags & WIDE) != 0, cols, [&](auto row) {
    scanPart(row, job, part, parts + at, groups + at * SCAN_THREADS);
  });
}

// Puts the parts of a row together. All threads of a block call it.
template <typename T>
__device__ __forceinline__ void writeResult(
    const Row<T>& row, const Job& job, const Part* parts, const u64* groups, ListScratch& scratch) {
  int count = gridDim.x;
  Totals totals = combine(parts, count, 1.0f);
  Result* result = reinterpret_cast<Result*>(job.result);
  if (threadIdx.x == 0) {
    float logit = job.target >= 0 ? row.at(job.target) : 0.0f;
    *result = Result{totals.sum, totals.max, logit, totals.before, -1, 0, 0};
  }
  if (groups != nullptr) {
    int found = bestOfRow(row, groups, count, job.top, scratch);
    u64* keys = reinterpret_cast<u64*>(result + 1);
    if (threadIdx.x < found) {
      keys[threadIdx.x] = scratch.top[threadIdx.x];
    }
    if (threadIdx.x == 0) {
      result->count = found;
    }
  }
}

// Rows to reduce that lie at equal distances, as do their results.
struct Rows {
  u64 first;
  u64 bytes;  // from row to row
  u64 results;
  int resultBytes;
  int cols;
  int wide;  // whether they are of float32 in any case
  int top;
  int targets[MOST_ROWS];

  __device__ Job job(int row) const {
    return Job{
        first + row * bytes, (wide ? WIDE : 0) | SUM,     targets[row], top, 0.0f,
        results + u64(row) * resultBytes};
  }
};

// As scan_rows; lists of up to LIST are sorted, longer ones left to row_lists. done is a 0 for each
// row, and is left so.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS, 4)
    reduce_rows(const __grid_constant__ Rows rows, Part* parts, u64* groups, u32* done) {
  __shared__ ListScratch scratch;
  __shared__ bool last;
  Job job = rows.job(blockIdx.y);
  u64 first = u64(blockIdx.y) * gridDim.x;
  bool listed = job.top > 0 && job.top <= LIST && gridDim.x <= LIST_PARTS;
  u64* own = listed ? groups + first * SCAN_THREADS : nullptr;
  withRow(reinterpret_cast<const void*>(job.row), rows.wide, rows.cols, [&](auto row) {
    int part = blockIdx.x;
    scanPart(row, job, part, parts + first + part, listed ? own + part * SCAN_THREADS : nullptr);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      last = atomicAdd(done + blockIdx.y, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
      __threadfence();
      writeResult(row, job, parts + first, own, scratch);
      if (threadIdx.x == 0) {
        done[blockIdx.y] = 0;
      }
    }
  });
}

// Lists that reduce_rows leaves, in no order; a block for each row.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS, 1)
    row_lists(const __grid_constant__ Rows rows) {
  __shared__ SelectScratch scratch;
  Job job = rows.job(blockIdx.x);
  Result* result = reinterpret_cast<Result*>(job.result);
  Weighing counting{result->max, 1.0f, false};
  withRow(reinterpret_cast<const void*>(job.row), rows.wide, rows.cols, [&](auto row) {
    u64 bound = selectBound(row, counting, job.top, NO_KEY, scratch);
    int found = collect(row, bound, reinterpret_cast<u64*>(result + 1), scratch);
    if (threadIdx.x == 0) {
      result->count = found;
    }
  });
}
