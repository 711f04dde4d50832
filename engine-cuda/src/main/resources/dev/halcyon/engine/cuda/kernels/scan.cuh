// What passes over rows of logits do with the elements that a thread holds of a part.
#pragma once
#include "ranks.cuh"

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

// The best key of a thread's elements, NO_KEY if the row has none of them.
template <typename T>
__device__ __forceinline__ u64 bestKey(
    const Row<T>& row, const float (&x)[SCAN_EACH], int part, float max) {
  int at = -1;
#pragma unroll
  for (int e = SCAN_EACH - 1; e >= 0; e--) {
    // Ids ascend, so the first of equal ones stays.
    at = x[e] == max ? e : at;
  }
  // Where the row ends, what it lacks may stand before its own negative infinities.
  if (max == -infinity()) {
    for (int e = SCAN_EACH - 1; e >= 0; e--) {
      at = row.has(row.idOf(part, threadIdx.x, e)) ? e : at;
    }
  }
  int id = row.idOf(part, threadIdx.x, at);
  return at >= 0 && row.has(id) ? keyOf(rankOf(max), id) : NO_KEY;
}
