// Elements of 16 bits two at a time, as they lie in a word.
#pragma once
#include "halcyon.cuh"

__device__ __forceinline__ u32 twice(u16 bits) { return u32(bits) << 16 | bits; }

__device__ __forceinline__ float lowOf(bf16, u32 pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float highOf(bf16, u32 pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ __forceinline__ float lowOf(f16, u32 pair) { return toFloat(f16{u16(pair)}); }
__device__ __forceinline__ float highOf(f16, u32 pair) { return toFloat(f16{u16(pair >> 16)}); }

__device__ __forceinline__ u32 maxOfPairs(bf16, u32 a, u32 b) {
  asm("max.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
}

__device__ __forceinline__ u32 maxOfPairs(f16, u32 a, u32 b) {
  asm("max.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
}

// How many elements of words are above a limit, which each half of `limit` holds; N words at most
// hold as many as a bf16 counts.
template <int N>
__device__ __forceinline__ float countAbove(f16, const u32 (&words)[N], u32 limit) {
  static_assert(N <= 128, "a bf16 counts to 256");
  u32 count = 0;
#pragma unroll
  for (int w = 0; w < N; w++) {
    u32 above;
    asm("set.gt.f16x2.f16x2 %0, %1, %2;" : "=r"(above) : "r"(words[w]), "r"(limit));
    asm("add.f16x2 %0, %0, %1;" : "+r"(count) : "r"(above));
  }
  return lowOf(f16{}, count) + highOf(f16{}, count);
}

template <int N>
__device__ __forceinline__ float countAbove(bf16, const u32 (&words)[N], u32 limit) {
  static_assert(N <= 128, "a bf16 counts to 256");
#if __CUDA_ARCH__ >= 900
  u32 count = 0;
#pragma unroll
  for (int w = 0; w < N; w++) {
    u32 above;
    asm("set.gt.bf16x2.bf16x2 %0, %1, %2;" : "=r"(above) : "r"(words[w]), "r"(limit));
    asm("add.bf16x2 %0, %0, %1;" : "+r"(count) : "r"(above));
  }
  return lowOf(bf16{}, count) + highOf(bf16{}, count);
#else
  float single = lowOf(bf16{}, limit);
  float count = 0.0f;
#pragma unroll
  for (int w = 0; w < N; w++) {
    count += lowOf(bf16{}, words[w]) > single ? 1.0f : 0.0f;
    count += highOf(bf16{}, words[w]) > single ? 1.0f : 0.0f;
  }
  return count;
#endif
}
