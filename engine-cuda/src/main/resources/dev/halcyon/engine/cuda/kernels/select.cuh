// Finds the last token of a prefix in the order of rank, by number or by probability, in a row of
// any size and with any ties: a radix select, most significant digit first. The first digit is the
// band of the logit's distance from the highest one, which spreads logits evenly; then come the 32
// bits of its rank in three digits, then ids. Each digit is a pass over the row, which a block of
// SELECT_THREADS makes alone. Sums are of integers, so their order plays no part.
#pragma once
#include "ranks.cuh"

constexpr int SELECT_THREADS = 1024;
constexpr int SELECT_BINS = 2 * SELECT_THREADS;
constexpr int BANDS = 1024;
constexpr float BANDS_PER_UNIT = 32.0f;

// Probabilities relative to the most likely token's are counted in steps of 2^-44: the sum of 2^19
// of them fits 64 bits, and what is rounded off is below float32's own error.
constexpr float MASS_UNIT = 17592186044416.0f;

// Shared memory of selection. 64-bit sums lie in two halves, to be added to without a loop.
struct SelectScratch {
  u32 low[SELECT_BINS];
  u32 high[SELECT_BINS];
  u64 warps[SELECT_THREADS / 32];
  u64 before;
  int bin;
  int count;
};

// What tokens weigh: 1 each, or their probability.
struct Weighing {
  float max;
  float temperature;
  bool mass;

  __device__ float scaled(float logit) const { return (logit - max) / temperature; }

  __device__ int band(float logit) const {
    return int(fminf(BANDS - 1, scaled(logit) * -BANDS_PER_UNIT));
  }

  __device__ u64 of(float logit) const {
    return mass ? __float2ull_rn(expf(scaled(logit)) * MASS_UNIT) : 1;
  }
};

// Calls body(logit, id) for each element of a row.
template <typename T, typename Body>
__device__ __forceinline__ void forElements(const Row<T>& row, Body body) {
  int vectors = row.vectors();
  for (int v = threadIdx.x; v < vectors; v += blockDim.x) {
    float x[Row<T>::VECTOR];
    row.load(v, x);
#pragma unroll
    for (int i = 0; i < Row<T>::VECTOR; i++) {
      if (row.has(row.first(v) + i)) {
        body(x[i], row.first(v) + i);
      }
    }
  }
}

__device__ __forceinline__ void clearBins(SelectScratch& s) {
  for (int i = threadIdx.x; i < SELECT_BINS; i += SELECT_THREADS) {
    s.low[i] = 0;
    s.high[i] = 0;
  }
  __syncthreads();
}

__device__ __forceinline__ void addToBin(SelectScratch& s, int bin, u64 weight) {
  u32 low = u32(weight);
  u32 high = u32(weight >> 32) + (atomicAdd(&s.low[bin], low) + low < low ? 1 : 0);
  if (high != 0) {
    atomicAdd(&s.high[bin], high);
  }
}

// The sum of bins up to a thread's second one, and the thread's own.
struct BinSums {
  u64 first;
  u64 second;
  u64 upTo;
  u64 total;
};

__device__ __forceinline__ BinSums sumBins(SelectScratch& s) {
  __syncthreads();
  int bin = 2 * threadIdx.x;
  BinSums sums;
  sums.first = u64(s.high[bin]) << 32 | s.low[bin];
  sums.second = u64(s.high[bin + 1]) << 32 | s.low[bin + 1];
  u64 x = sums.first + sums.second;
  int lane = threadIdx.x & 31;
#pragma unroll
  for (int step = 1; step < 32; step <<= 1) {
    u64 left = __shfl_up_sync(FULL_WARP, x, step);
    x += lane >= step ? left : 0;
  }
  if (lane == 31) {
    s.warps[threadIdx.x >> 5] = x;
  }
  __syncthreads();
  sums.total = 0;
  for (int i = 0; i < SELECT_THREADS / 32; i++) {
    x += i < int(threadIdx.x >> 5) ? s.warps[i] : 0;
    sums.total += s.warps[i];
  }
  sums.upTo = x;
  return sums;
}

// Finds the bin in which the sum reaches target, from 1 to the total: s.bin, and s.before for the
// sum of those before it.
__device__ __forceinline__ void findBin(SelectScratch& s, const BinSums& sums, u64 target) {
  u64 before = sums.upTo - sums.second - sums.first;
  if (before < target && target <= sums.upTo) {
    bool inFirst = target <= before + sums.first;
    s.bin = 2 * threadIdx.x + (inFirst ? 0 : 1);
    s.before = inFirst ? before : before + sums.first;
  }
  __syncthreads();
}

// One digit: adds what each element weighs to a bin, digit(logit, id) or -1 for none, and descends
// into the one in which target is reached. Takes what is before it from target.
template <typename T, typename Digit>
__device__ __forceinline__ int descend(
    const Row<T>& row, const Weighing& weighing, u64& target, SelectScratch& s, Digit digit) {
  clearBins(s);
  forElements(row, [&](float x, int id) {
    int bin = digit(x, id);
    if (bin >= 0) {
      addToBin(s, bin, weighing.of(x));
    }
  });
  findBin(s, sumBins(s), target);
  target -= s.before;
  int bin = s.bin;
  __syncthreads();
  return bin;
}

// The n-th id, from 1, among the elements of one rank up to a bound.
template <typename T>
__device__ __forceinline__ int idOfRank(
    const Row<T>& row, u32 rank, u64 bound, u64 n, SelectScratch& s) {
  int step = (row.cols + SELECT_BINS - 1) / SELECT_BINS;
  Weighing counting{0.0f, 1.0f, false};
  int bin = descend(row, counting, n, s, [&](float x, int id) {
    return rankOf(x) == rank && keyOf(rank, id) <= bound ? id / step : -1;
  });
  if (threadIdx.x < 32) {
    u64 left = n;
    for (int id = bin * step; id < bin * step + step; id += 32) {
      int own = id + threadIdx.x;
      bool is = own < bin * step + step && row.has(own) && rankOf(row.at(own)) == rank &&
                keyOf(rank, own) <= bound;
      u32 all = __ballot_sync(FULL_WARP, is);
      u64 upTo = __popc(all & (2u << threadIdx.x) - 1);
      if (is && upTo == left) {
        s.count = own;
      }
      left -= __popc(all) < left ? __popc(all) : left;
    }
  }
  __syncthreads();
  int id = s.count;
  __syncthreads();
  return id;
}

// The last key of the shortest prefix that reaches a target among the keys up to a bound; the last
// one of all if none does. The target is a number of tokens, or, of weighing.mass, the part of all
// probability that the prefix must have. All threads of a block of SELECT_THREADS call it.
template <typename T>
__device__ __forceinline__ u64 selectBound(
    const Row<T>& row, const Weighing& weighing, double part, u64 bound, SelectScratch& s) {
  clearBins(s);
  forElements(row, [&](float x, int id) {
    if (keyOf(rankOf(x), id) <= bound) {
      addToBin(s, weighing.band(x), weighing.of(x));
    }
  });
  BinSums sums = sumBins(s);
  double wanted = weighing.mass ? ceil(part * double(sums.total)) : part;
  u64 target = wanted < 1.0 ? 1 : u64(wanted);
  target = lesser(target, sums.total);
  findBin(s, sums, target);
  target -= s.before;
  int band = s.bin;
  __syncthreads();
  auto inBand = [&](float x, int id) {
    return keyOf(rankOf(x), id) <= bound && weighing.band(x) == band;
  };
  u32 rank = descend(row, weighing, target, s, [&](float x, int id) {
    return inBand(x, id) ? int(rankOf(x) >> 21) : -1;
  });
  rank = rank << 11 | descend(row, weighing, target, s, [&](float x, int id) {
    return rankOf(x) >> 21 == rank && inBand(x, id) ? int(rankOf(x) >> 10 & 2047) : -1;
  });
  rank = rank << 10 | descend(row, weighing, target, s, [&](float x, int id) {
    return rankOf(x) >> 10 == rank && inBand(x, id) ? int(rankOf(x) & 1023) : -1;
  });
  u64 each = weighing.of(logitOf(rank));
  return keyOf(rank, idOfRank(row, rank, bound, (target + each - 1) / each, s));
}

// Puts the keys up to a bound into a list, in no order.
template <typename T>
__device__ __forceinline__ int collect(
    const Row<T>& row, u64 bound, u64* keys, SelectScratch& s) {
  if (threadIdx.x == 0) {
    s.count = 0;
  }
  __syncthreads();
  forElements(row, [&](float x, int id) {
    u64 key = keyOf(rankOf(x), id);
    if (key <= bound) {
      keys[atomicAdd(&s.count, 1)] = key;
    }
  });
  __syncthreads();
  int count = s.count;
  __syncthreads();
  return count;
}
