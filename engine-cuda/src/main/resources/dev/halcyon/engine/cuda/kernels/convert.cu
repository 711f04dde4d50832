// Conversions between element types, of any number of elements.
#include "halcyon.cuh"

template <typename From, typename To>
__device__ __forceinline__ void convert(const From* from, i64 count, To* to) {
  // Eight elements a thread: the loads of all of them are under way before the first one is stored.
  constexpr int EACH = 8;
  i64 first = i64(blockIdx.x) * blockDim.x * EACH + threadIdx.x;
  float x[EACH];
#pragma unroll
  for (int j = 0; j < EACH; j++) {
    i64 i = first + i64(j) * blockDim.x;
    x[j] = i < count ? toFloat(from[i]) : 0.0f;
  }
#pragma unroll
  for (int j = 0; j < EACH; j++) {
    i64 i = first + i64(j) * blockDim.x;
    if (i < count) {
      to[i] = fromFloat<To>(x[j]);
    }
  }
}

extern "C" __global__ void widen_f16(const f16* from, i64 count, float* to) {
  convert(from, count, to);
}

extern "C" __global__ void widen_bf16(const bf16* from, i64 count, float* to) {
  convert(from, count, to);
}

extern "C" __global__ void narrow(const float* from, i64 count, Act* to) {
  convert(from, count, to);
}
