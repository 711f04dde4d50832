// What sampling needs to know of rows of logits: one pass over each row, by as many blocks as it has
// parts.
#include "scan.cuh"

// A part's statistics, and the best key of each thread.
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
  u64 best = bestKey(row, x, part, own);
  groups[threadIdx.x] = best;
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
        each[e] = expf(x[e] - max);
      }
      sum = pairwise<SCAN_EACH>(each);
    }
  }
  writeSums(sum, heated, 0, nan, best, out);
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
