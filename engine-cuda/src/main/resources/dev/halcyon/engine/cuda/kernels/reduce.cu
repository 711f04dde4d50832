// Rows of logits to logprobs: log-softmax, the rank of a token and the most likely tokens. One pass
// over each row by a few blocks, each of which takes several parts of it and has the next one on its
// way while it works on one. The last block of a row to be done puts the parts together.
#include "pairs.cuh"
#include "scan.cuh"
#include "select.cuh"

// The most rows that one launch reduces.
constexpr int MOST_ROWS = 512;

// Rows that lie at equal distances, as do their results.
struct Rows {
  u64 first;
  u64 bytes;  // from row to row
  u64 results;
  int resultBytes;
  int cols;
  int top;
  int targets[MOST_ROWS];

  __device__ const void* at(int row) const {
    return reinterpret_cast<const void*>(first + row * bytes);
  }

  __device__ Result* result(int row) const {
    return reinterpret_cast<Result*>(results + u64(row) * resultBytes);
  }
};

// A thread's elements of a part, as they lie in memory.
template <typename T>
struct Held {
  Bytes16 vectors[Row<T>::EACH];

  __device__ __forceinline__ void load(const Row<T>& row, int part) {
#pragma unroll
    for (int j = 0; j < Row<T>::EACH; j++) {
      vectors[j] = row.raw(row.vectorOf(part, threadIdx.x, j));
    }
  }

  __device__ __forceinline__ void widen(float (&x)[SCAN_EACH]) const {
#pragma unroll
    for (int j = 0; j < Row<T>::EACH; j++) {
      const T* values = reinterpret_cast<const T*>(&vectors[j]);
#pragma unroll
      for (int i = 0; i < Row<T>::VECTOR; i++) {
        x[j * Row<T>::VECTOR + i] = toFloat(values[i]);
      }
    }
  }
};

// The highest of a thread's elements.
__device__ __forceinline__ float maxOf(const Held<float>& held) {
  float max = -infinity();
#pragma unroll
  for (int j = 0; j < Row<float>::EACH; j++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      max = fmaxf(max, __uint_as_float(held.vectors[j].words[i]));
    }
  }
  return max;
}

template <typename T>
__device__ __forceinline__ float maxOf(const Held<T>& held) {
  u32 pair = held.vectors[0].words[0];
#pragma unroll
  for (int j = 0; j < Row<T>::EACH; j++) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      pair = maxOfPairs(T{}, pair, held.vectors[j].words[i]);
    }
  }
  return fmaxf(lowOf(T{}, pair), highOf(T{}, pair));
}

// 1 or 0: sums of them need no integer addition, of which there is half the rate.
__device__ __forceinline__ float isAbove(float x, float limit) {
  float y;
  asm("set.gt.f32.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(limit));
  return y;
}

__device__ __forceinline__ float isAtLeast(float x, float limit) {
  float y;
  asm("set.ge.f32.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(limit));
  return y;
}

// A token whose rank is wanted; id -1 for none.
struct Target {
  int id;
  int part;
  float logit;
};

// How many of a thread's elements are before the target in rank, ties by the lower id.
template <typename T>
__device__ __forceinline__ int countBefore(
    const Row<T>& row, const float (&x)[SCAN_EACH], int part, const Target& target) {
  float before = 0.0f;
  if (part == target.part || part == 0 && row.shift > 0) {
#pragma unroll
    for (int e = 0; e < SCAN_EACH; e++) {
      bool lower = u32(row.idOf(part, threadIdx.x, e)) < u32(target.id);
      before += x[e] > target.logit || x[e] == target.logit && lower ? 1.0f : 0.0f;
    }
  } else if (part < target.part) {
#pragma unroll
    for (int e = 0; e < SCAN_EACH; e++) {
      before += isAtLeast(x[e], target.logit);
    }
  } else {
#pragma unroll
    for (int e = 0; e < SCAN_EACH; e++) {
      before += isAbove(x[e], target.logit);
    }
  }
  return int(before);
}

// exp(x - base) for a thread's elements, added up.
__device__ __forceinline__ float sumOfExp(float (&x)[SCAN_EACH], float base) {
#pragma unroll
  for (int e = 0; e < SCAN_EACH; e++) {
    x[e] = expf(x[e] - base);
  }
  return pairwise<SCAN_EACH>(x);
}

// What a thread has found out about its elements so far. A NaN among them makes one of the sum.
struct Found {
  float max;
  double sum;  // of exp(x - max)
  int before;
};

template <typename T>
__device__ __forceinline__ void scanPart(
    const Row<T>& row, const Held<T>& held, int part, const Target& target, u64* groups, Found& f) {
  float x[SCAN_EACH];
  held.widen(x);
  float own = maxOf(held);
  if (groups != nullptr) {
    groups[part * SCAN_THREADS + threadIdx.x] = bestKey(row, x, part, own);
  }
  if (target.id >= 0) {
    f.before += countBefore(row, x, part, target);
  }
  float max = fmaxf(f.max, own);
  // Where all are negative infinity, so that they add nothing; as does what the row lacks.
  float base = max == -infinity() ? 0.0f : max;
  f.sum = f.sum * expf(f.max - base) + sumOfExp(x, base);
  f.max = max;
}

// A block's parts, [first, end). All threads call it.
template <typename T>
__device__ __forceinline__ void scanParts(
    const Row<T>& row, int first, int end, const Target& target, u64* groups, Part* out) {
  Found f{-infinity(), 0.0, 0};
  Held<T> next;
  if (first < end) {
    next.load(row, first);
  }
  for (int part = first; part < end; part++) {
    Held<T> held = next;
    if (part + 1 < end) {
      next.load(row, part + 1);
    }
    scanPart(row, held, part, target, groups, f);
  }
  float max = blockReduce(f.max, [](float a, float b) { return fmaxf(a, b); });
  double sum = f.max == -infinity() ? f.sum : f.sum * expf(f.max - max);
  writeSums(sum, 0.0, f.before, false, keyOf(rankOf(max), 0), out);
}

// Puts the parts of a row together, count of them scanned by gridDim.x blocks. All threads of a
// block call it.
template <typename T>
__device__ __forceinline__ void writeResult(
    const Row<T>& row, float logit, int top, const Part* parts, const u64* groups, int count,
    Result* result, ListScratch& scratch) {
  Totals totals = combine(parts, gridDim.x, 1.0f);
  if (threadIdx.x == 0) {
    *result = Result{totals.sum, totals.max, logit, totals.before, -1, 0, 0};
  }
  if (groups != nullptr) {
    int found = bestOfRow(row, groups, count, top, scratch);
    u64* keys = reinterpret_cast<u64*>(result + 1);
    if (threadIdx.x < found) {
      keys[threadIdx.x] = scratch.top[threadIdx.x];
    }
    if (threadIdx.x == 0) {
      result->count = found;
    }
  }
}

// blockIdx.y counts rows; the blocks of a row share out its parts. groups is
// [rows, groupParts, SCAN_THREADS]. done is a 0 for each row, and is left so. Lists of up to LIST are
// sorted, longer ones left to lists.
template <typename T>
__device__ __forceinline__ void reduceRow(
    const Rows& rows, Part* parts, u64* groups, int groupParts, u32* done) {
  __shared__ ListScratch scratch;
  __shared__ bool last;
  int index = blockIdx.y;
  Row<T> row(rows.at(index), rows.cols);
  int id = rows.targets[index];
  Target target = id < 0 ? Target{-1, -1, 0.0f} : Target{id, row.partOf(id), row.at(id)};
  int count = (rows.cols + row.shift + SCAN_PART - 1) / SCAN_PART;
  int each = (count + gridDim.x - 1) / gridDim.x;
  int first = blockIdx.x * each;
  bool listed = rows.top > 0 && rows.top <= LIST && groupParts <= LIST_PARTS;
  u64* own = listed ? groups + u64(index) * groupParts * SCAN_THREADS : nullptr;
  Part* ofRow = parts + u64(index) * gridDim.x;
  scanParts(row, first, min(count, first + each), target, own, ofRow + blockIdx.x);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(done + index, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last) {
    __threadfence();
    writeResult(row, target.logit, rows.top, ofRow, own, count, rows.result(index), scratch);
    if (threadIdx.x == 0) {
      done[index] = 0;
    }
  }
}

// Lists that reduceRow leaves, in no order; a block for each row.
template <typename T>
__device__ __forceinline__ void listOf(const Rows& rows) {
  __shared__ SelectScratch scratch;
  Result* result = rows.result(blockIdx.x);
  Weighing counting{result->max, 1.0f, false};
  Row<T> row(rows.at(blockIdx.x), rows.cols);
  u64 bound = selectBound(row, counting, rows.top, NO_KEY, scratch);
  int found = collect(row, bound, reinterpret_cast<u64*>(result + 1), scratch);
  if (threadIdx.x == 0) {
    result->count = found;
  }
}

// Rows of activations.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS, 4)
    reduce_rows(const __grid_constant__ Rows rows, Part* parts, u64* groups, int groupParts, u32* done) {
  reduceRow<Act>(rows, parts, groups, groupParts, done);
}

extern "C" __global__ void __launch_bounds__(SELECT_THREADS, 1)
    row_lists(const __grid_constant__ Rows rows) {
  listOf<Act>(rows);
}

// Rows of float32.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS, 2)
    reduce_wide_rows(
        const __grid_constant__ Rows rows, Part* parts, u64* groups, int groupParts, u32* done) {
  reduceRow<float>(rows, parts, groups, groupParts, done);
}

extern "C" __global__ void __launch_bounds__(SELECT_THREADS, 1)
    wide_row_lists(const __grid_constant__ Rows rows) {
  listOf<float>(rows);
}
