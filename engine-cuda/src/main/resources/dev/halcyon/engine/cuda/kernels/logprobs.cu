// Log-softmax, ranks and the most likely tokens of rows of logits: one pass over each row, by as
// many blocks as it has parts, then a block that puts a row's parts together.
#include "select.cuh"

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
  bool counts = job.target >= 0;
  u64 target = counts ? keyOf(rankOf(row.at(job.target)), job.target) : 0;
  u64 best = NO_KEY;
  int before = 0;
  int nan = 0;
#pragma unroll
  for (int e = 0; e < SCAN_EACH; e++) {
    int id = row.idOf(part, threadIdx.x, e);
    if (row.has(id)) {
      u64 key = keyOf(rankOf(x[e]), id);
      best = lesser(best, key);
      before += key < target;
      nan |= x[e] != x[e];
    }
  }
  groups[threadIdx.x] = best;
  best = blockLeast(best);
  float max = logitOf(best);
  double sum = 0.0;
  double heated = 0.0;
  if (max > -infinity()) {
    if ((job.flags & SUM) != 0) {
#pragma unroll
      for (int e = 0; e < SCAN_EACH; e++) {
        // What the row lacks is negative infinity, and adds nothing.
        sum += expf(x[e] - max);
      }
    }
    if (job.temperature > 0.0f) {
#pragma unroll
      for (int e = 0; e < SCAN_EACH; e++) {
        heated += expf((x[e] - max) / job.temperature);
      }
    }
  }
  sum = blockTotal(sum);
  heated = blockTotal(heated);
  before = blockTotal(before);
  nan = blockTotal(nan);
  if (threadIdx.x == 0) {
    *out = Part{sum, heated, best, before, nan};
  }
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

// A block for each job. Lists of up to LIST are sorted, longer ones left to row_lists.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    row_results(const Job* jobs, int cols, const Part* parts, const u64* groups, int count) {
  __shared__ ListScratch scratch;
  const Job& job = jobs[blockIdx.x];
  Totals totals = combine(parts + u64(blockIdx.x) * count, count, 1.0f);
  Result* result = reinterpret_cast<Result*>(job.result);
  withRow(reinterpret_cast<const void*>(job.row), (job.flags & WIDE) != 0, cols, [&](auto row) {
    if (threadIdx.x == 0) {
      float logit = job.target >= 0 ? row.at(job.target) : 0.0f;
      *result = Result{totals.sum, totals.max, logit, totals.before, -1, 0, 0};
    }
    if (job.top > 0 && job.top <= LIST && count <= LIST_PARTS) {
      const u64* own = groups + u64(blockIdx.x) * count * SCAN_THREADS;
      int found = bestOfRow(row, own, count, job.top, scratch);
      u64* keys = reinterpret_cast<u64*>(result + 1);
      if (threadIdx.x < found) {
        keys[threadIdx.x] = scratch.top[threadIdx.x];
      }
      if (threadIdx.x == 0) {
        result->count = found;
      }
    }
  });
}

// Lists that row_results leaves, in no order; a block for each job.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS, 1) row_lists(const Job* jobs, int cols) {
  __shared__ SelectScratch scratch;
  const Job& job = jobs[blockIdx.x];
  Result* result = reinterpret_cast<Result*>(job.result);
  Weighing counting{result->max, 1.0f, false};
  withRow(reinterpret_cast<const void*>(job.row), (job.flags & WIDE) != 0, cols, [&](auto row) {
    u64 bound = selectBound(row, counting, job.top, NO_KEY, scratch);
    int found = collect(row, bound, reinterpret_cast<u64*>(result + 1), scratch);
    if (threadIdx.x == 0) {
      result->count = found;
    }
  });
}
