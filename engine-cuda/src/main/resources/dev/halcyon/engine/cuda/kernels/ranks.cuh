// What scans of rows of logits share: the order of rank, how a row is shared out over blocks, and
// the most likely tokens of a row.
//
// A row is cut into parts of SCAN_PART elements, one block each. A thread of it has a group of
// SCAN_EACH elements, of which it notes the best. The best k tokens of a row then lie in the k
// groups whose best are best, since each of these k is as good as any token outside: so after one
// pass over a row only k groups of it are read again, whatever the values are.
#pragma once
#include "halcyon.cuh"

constexpr int SCAN_THREADS = 256;
constexpr int SCAN_EACH = 32;
constexpr int SCAN_PART = SCAN_THREADS * SCAN_EACH;

// The longest list that bestOfRow makes, and the most parts of a row that it takes: those of
// 262,144 elements and some.
constexpr int LIST = 128;
constexpr int LIST_PARTS = 36;

constexpr u64 NO_KEY = ~0ull;
constexpr u32 NO_RANK = ~0u;

// The upper half of a key: ascending in the order of rank, the highest logit first. Adding 0 makes
// 0 of -0, which are equal as logits.
__device__ __forceinline__ u32 rankOf(float logit) {
  u32 bits = __float_as_uint(logit + 0.0f);
  return bits >> 31 ? bits : ~bits & 0x7fffffffu;
}

__device__ __forceinline__ float logitOf(u32 rank) {
  return __uint_as_float(rank >> 31 ? rank : ~rank & 0x7fffffffu);
}

// Unique, and ascending in the order of rank: ties by the lower id.
__device__ __forceinline__ u64 keyOf(u32 rank, int id) { return u64(rank) << 32 | u32(id); }

__device__ __forceinline__ float logitOf(u64 key) { return logitOf(u32(key >> 32)); }

__device__ __forceinline__ u64 lesser(u64 a, u64 b) { return a < b ? a : b; }

// A row that begins at any element. Its 16-byte vectors are those of memory: the first one may
// begin before the row, and the last one end behind it.
template <typename T>
struct Row {
  static constexpr int VECTOR = 16 / sizeof(T);

  const T* p;
  int cols;
  int shift;

  __device__ Row(const void* at, int cols) : p(static_cast<const T*>(at)), cols(cols) {
    shift = int(reinterpret_cast<u64>(at) / sizeof(T) % VECTOR);
  }

  __device__ int vectors() const { return (cols + shift + VECTOR - 1) / VECTOR; }

  // The id of a vector's first element; negative before the row.
  __device__ int first(int vector) const { return vector * VECTOR - shift; }

  __device__ bool has(int id) const { return u32(id) < u32(cols); }

  __device__ float at(int id) const { return toFloat(p[id]); }

  // Negative infinity where the row has no element.
  __device__ void load(int vector, float (&x)[VECTOR]) const {
    int id = first(vector);
    if (id >= 0 && id <= cols - VECTOR) {
      Bytes16 raw = *reinterpret_cast<const Bytes16*>(p + id);
      const T* values = reinterpret_cast<const T*>(&raw);
#pragma unroll
      for (int i = 0; i < VECTOR; i++) {
        x[i] = toFloat(values[i]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < VECTOR; i++) {
        x[i] = has(id + i) ? at(id + i) : -infinity();
      }
    }
  }

  // A vector as it lies in memory, with the same in its gaps.
  __device__ Bytes16 raw(int vector) const {
    int id = first(vector);
    if (id >= 0 && id <= cols - VECTOR) {
      return *reinterpret_cast<const Bytes16*>(p + id);
    }
    Bytes16 gathered;
    T* values = reinterpret_cast<T*>(&gathered);
#pragma unroll
    for (int i = 0; i < VECTOR; i++) {
      values[i] = has(id + i) ? p[id + i] : fromFloat<T>(-infinity());
    }
    return gathered;
  }

  // The vectors of a thread's group in a part.
  static constexpr int EACH = SCAN_EACH / VECTOR;

  __device__ int vectorOf(int part, int thread, int j) const {
    return part * (SCAN_PART / VECTOR) + j * SCAN_THREADS + thread;
  }

  // The id of an element of a group.
  __device__ int idOf(int part, int thread, int element) const {
    return first(vectorOf(part, thread, element / VECTOR)) + element % VECTOR;
  }

  // The part and the thread whose group holds an id.
  __device__ int partOf(int id) const { return (id + shift) / SCAN_PART; }
  __device__ int threadOf(int id) const { return (id + shift) / VECTOR % SCAN_THREADS; }
};

// Calls body(row) with a row of float32, or of activations.
template <typename Body>
__device__ __forceinline__ void withRow(const void* at, bool wide, int cols, Body body) {
  if constexpr (sizeof(Act) == sizeof(float)) {
    body(Row<float>(at, cols));
  } else if (wide) {
    body(Row<float>(at, cols));
  } else {
    body(Row<Act>(at, cols));
  }
}

// Reduces over a block of whole warps, 1024 threads at most; the result is in every thread. All
// threads call it.
template <typename T, typename F>
__device__ __forceinline__ T blockReduce(T x, F combine) {
  __shared__ T warps[32];
  int lane = threadIdx.x & 31;
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) {
    x = combine(x, __shfl_xor_sync(FULL_WARP, x, step));
  }
  if (lane == 0) {
    warps[threadIdx.x >> 5] = x;
  }
  __syncthreads();
  int count = blockDim.x >> 5;
  x = warps[0];
  for (int i = 1; i < count; i++) {
    x = combine(x, warps[i]);
  }
  // A second call must not overwrite what a slower warp still reads.
  __syncthreads();
  return x;
}

__device__ __forceinline__ double blockTotal(double x) {
  return blockReduce(x, [](double a, double b) { return a + b; });
}

__device__ __forceinline__ double blockLeast(double x) {
  return blockReduce(x, [](double a, double b) { return a < b ? a : b; });
}

__device__ __forceinline__ int blockLeast(int x) {
  return blockReduce(x, [](int a, int b) { return a < b ? a : b; });
}

__device__ __forceinline__ int blockTotal(int x) {
  return blockReduce(x, [](int a, int b) { return a + b; });
}

__device__ __forceinline__ u64 blockLeast(u64 x) {
  return blockReduce(x, [](u64 a, u64 b) { return lesser(a, b); });
}

// The row is of float32, where activations need not be.
constexpr int WIDE = 1;
// The sum of exp(x - max) is wanted.
constexpr int SUM = 2;

// What is to be found out about a row.
struct Job {
  u64 row;
  int flags;          // WIDE, SUM
  float temperature;  // of the second sum, or 0 for none
};

// What a block found out about a part of a row.
struct Part {
  double sum;     // of exp(x - max)
  double heated;  // of exp((x - max) / temperature)
  u64 best;       // the part's best key
  int before;     // how many elements are before the target in rank
  int nan;        // whether there is a NaN
};

// What the host reads; behind it the keys of the most likely.
struct Result {
  double sum;
  float max;
  float logit;  // of the target
  int before;
  int token;
  int status;
  int count;  // of keys
};

// What other blocks of the same launch wrote, which the first cache may not know of yet.
__device__ __forceinline__ u64 fresh(const u64* p) {
  u64 x;
  asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
  return x;
}

__device__ __forceinline__ Part fresh(const Part* p) {
  static_assert(sizeof(Part) == 4 * sizeof(u64), "as it is read");
  const u64* words = reinterpret_cast<const u64*>(p);
  u64 counts = fresh(words + 3);
  return Part{
      __longlong_as_double(i64(fresh(words))), __longlong_as_double(i64(fresh(words + 1))),
      fresh(words + 2), int(u32(counts)), int(counts >> 32)};
}

// The statistics of a whole row, in every thread of a block.
struct Totals {
  double sum;
  double heated;
  u64 best;
  float max;
  int before;
  bool usable;  // whether a token can be chosen: no NaN, and the highest logit finite
};

__device__ __forceinline__ Totals combine(const Part* parts, int count, float temperature) {
  u64 best = NO_KEY;
  int before = 0;
  int nan = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    Part part = fresh(parts + i);
    best = lesser(best, part.best);
    before += part.before;
    nan |= part.nan;
  }
  Totals t;
  t.best = blockLeast(best);
  t.before = blockTotal(before);
  nan = blockTotal(nan);
  t.max = logitOf(t.best);
  t.usable = nan == 0 && t.max > -infinity() && t.max < infinity();
  double sum = 0.0;
  double heated = 0.0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    Part part = fresh(parts + i);
    double below = double(logitOf(part.best)) - t.max;
    sum += part.sum == 0.0 ? 0.0 : part.sum * exp(below);
    heated += part.heated == 0.0 ? 0.0 : part.heated * exp(below / temperature);
  }
  t.sum = blockTotal(sum);
  t.heated = blockTotal(heated);
  return t;
}

// Shared memory of bestOfRow.
struct ListScratch {
  u64 keys[LIST * LIST_PARTS];
  u64 threads[SCAN_THREADS];
  u64 groups[LIST];
  u64 top[LIST];  // the list
  u64 bound;
  int count;
  int kept;
};

static_assert(SCAN_EACH == 32 && LIST * SCAN_EACH <= LIST * LIST_PARTS, "a warp reads a group");

__device__ __forceinline__ int countBefore(const u64* keys, int count, u64 key) {
  int before = 0;
#pragma unroll 8
  for (int i = 0; i < count; i++) {
    before += keys[i] < key;
  }
  return before;
}

// Makes s.top the first k keys of a row, sorted, k from 1 to LIST; returns how many there are. For
// blocks of SCAN_THREADS, all of whose threads call it.
template <typename T>
__device__ __forceinline__ int bestOfRow(
    const Row<T>& row, const u64* groups, int parts, int k, ListScratch& s) {
  int thread = threadIdx.x;
  u64 own = NO_KEY;
  for (int part = 0; part < parts; part++) {
    own = lesser(own, fresh(groups + part * SCAN_THREADS + thread));
  }
  s.threads[thread] = own;
  if (thread == 0) {
    s.bound = NO_KEY;
    s.count = 0;
    s.kept = 0;
  }
  __syncthreads();
  // The k-th best of threads bounds the k-th best of groups.
  if (own != NO_KEY && countBefore(s.threads, SCAN_THREADS, own) == k - 1) {
    s.bound = own;
  }
  __syncthreads();
  u64 bound = s.bound;
  if (own <= bound && own != NO_KEY) {
    for (int part = 0; part < parts; part++) {
      u64 group = fresh(groups + part * SCAN_THREADS + thread);
      if (group <= bound && group != NO_KEY) {
        s.keys[atomicAdd(&s.count, 1)] = group;
      }
    }
  }
  __syncthreads();
  int near = s.count;
  for (int i = thread; i < near; i += SCAN_THREADS) {
    int before = countBefore(s.keys, near, s.keys[i]);
    if (before < k) {
      s.groups[before] = s.keys[i];
    }
  }
  __syncthreads();
  // The k-th best of groups bounds the k-th best of elements, and these k groups hold all of them.
  int found = near < k ? near : k;
  bound = near < k ? NO_KEY : s.groups[k - 1];
  if (thread == 0) {
    s.count = 0;
  }
  __syncthreads();
  for (int i = thread >> 5; i < found; i += SCAN_THREADS >> 5) {
    int best = int(u32(s.groups[i]));
    int id = row.idOf(row.partOf(best), row.threadOf(best), thread & 31);
    if (row.has(id)) {
      u64 key = keyOf(rankOf(row.at(id)), id);
      if (key <= bound) {
        s.keys[atomicAdd(&s.count, 1)] = key;
      }
    }
  }
  __syncthreads();
  int candidates = s.count;
  for (int i = thread; i < candidates; i += SCAN_THREADS) {
    int before = countBefore(s.keys, candidates, s.keys[i]);
    if (before < k) {
      s.top[before] = s.keys[i];
    }
  }
  __syncthreads();
  return candidates < k ? candidates : k;
}
