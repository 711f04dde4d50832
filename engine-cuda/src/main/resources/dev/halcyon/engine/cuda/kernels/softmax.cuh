// Exponentials for the running softmax of attention.
#pragma once
#include "halcyon.cuh"

constexpr float LOG2E = 1.44269504088896341f;

__device__ __forceinline__ float exp2Fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// To about 2^-22 absolutely, which is what counts in an exponent.
__device__ __forceinline__ float tanhFast(float x) {
  return 1.0f - __fdividef(2.0f, 1.0f + exp2Fast(2.0f * LOG2E * x));
}
