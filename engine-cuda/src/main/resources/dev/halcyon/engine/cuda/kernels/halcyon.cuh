// What every kernel file includes: types, conversions and wide accesses. It includes nothing itself,
// so that compiling needs no CUDA headers on the machine.
#pragma once

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

constexpr u32 FULL_WARP = 0xffffffffu;

struct bf16 {
  u16 bits;
};

struct f16 {
  u16 bits;
};

// The type of activations and of the KV cache: 0 float, 1 f16, 2 bf16.
#ifndef HALCYON_ACT
#define HALCYON_ACT 2
#endif
#if HALCYON_ACT == 0
using Act = float;
#elif HALCYON_ACT == 1
using Act = f16;
#else
using Act = bf16;
#endif

__device__ __forceinline__ float infinity() { return __uint_as_float(0x7f800000u); }

__device__ __forceinline__ float toFloat(float x) { return x; }

__device__ __forceinline__ float toFloat(bf16 x) { return __uint_as_float(u32(x.bits) << 16); }

__device__ __forceinline__ float toFloat(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

// To the nearest, the even one of two.
template <typename T>
__device__ __forceinline__ T fromFloat(float x);

template <>
__device__ __forceinline__ float fromFloat<float>(float x) {
  return x;
}

template <>
__device__ __forceinline__ bf16 fromFloat<bf16>(float x) {
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}

template <>
__device__ __forceinline__ f16 fromFloat<f16>(float x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}

// The elements of a group: 16 bytes of activations, what a thread reads or writes at once.
constexpr int GROUP = 16 / sizeof(Act);

struct alignas(16) Bytes16 {
  u32 words[4];
};

// Whether groups of a row may be read and written whole: rows are whole groups, and begin at one.
__device__ __forceinline__ bool aligned16(const void* p) { return (reinterpret_cast<u64>(p) & 15) == 0; }

// Reads GROUP elements from p[i]; of a ragged row those below `end`, zero beyond.
template <typename T>
__device__ __forceinline__ void loadGroup(const T* p, i64 i, i64 end, bool whole, float (&x)[GROUP]) {
  if (whole) {
    constexpr int PER_ACCESS = 16 / sizeof(T);
    constexpr int ACCESSES = GROUP * sizeof(T) <= 16 ? 1 : GROUP * sizeof(T) / 16;
    if constexpr (GROUP * sizeof(T) >= 16) {
#pragma unroll
      for (int a = 0; a < ACCESSES; a++) {
        Bytes16 raw = *reinterpret_cast<const Bytes16*>(p + i + a * PER_ACCESS);
        const T* values = reinterpret_cast<const T*>(&raw);
#pragma unroll
        for (int j = 0; j < PER_ACCESS; j++) {
          x[a * PER_ACCESS + j] = toFloat(values[j]);
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < GROUP; j++) {
        x[j] = toFloat(p[i + j]);
      }
    }
  } else {
#pragma unroll
    for (int j = 0; j < GROUP; j++) {
      x[j] = i + j < end ? toFloat(p[i + j]) : 0.0f;
    }
  }
}

// Writes GROUP activations to p[i]; of a ragged row those below `end`.
__device__ __forceinline__ void storeGroup(Act* p, i64 i, i64 end, bool whole, const float (&x)[GROUP]) {
  if (whole) {
    Bytes16 raw;
    Act* values = reinterpret_cast<Act*>(&raw);
#pragma unroll
    for (int j = 0; j < GROUP; j++) {
      values[j] = fromFloat<Act>(x[j]);
    }
    *reinterpret_cast<Bytes16*>(p + i) = raw;
  } else {
#pragma unroll
    for (int j = 0; j < GROUP; j++) {
      if (i + j < end) {
        p[i + j] = fromFloat<Act>(x[j]);
      }
    }
  }
}

__device__ __forceinline__ float warpSum(float x) {
#pragma unroll
  for (int lane = 16; lane > 0; lane >>= 1) {
    x += __shfl_xor_sync(FULL_WARP, x, lane);
  }
  return x;
}

__device__ __forceinline__ float warpMax(float x) {
#pragma unroll
  for (int lane = 16; lane > 0; lane >>= 1) {
    x = fmaxf(x, __shfl_xor_sync(FULL_WARP, x, lane));
  }
  return x;
}

// The sum over a block of whole warps, in every thread. All threads call it.
__device__ __forceinline__ float blockSum(float x) {
  __shared__ float sums[32];
  int warps = blockDim.x >> 5;
  x = warpSum(x);
  if ((threadIdx.x & 31) == 0) {
    sums[threadIdx.x >> 5] = x;
  }
  __syncthreads();
  x = warpSum((threadIdx.x & 31) < warps ? sums[threadIdx.x & 31] : 0.0f);
  // A second call must not overwrite what a slower warp still reads.
  __syncthreads();
  return x;
}
