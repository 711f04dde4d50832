// The draw of a token as the class TokenDraw defines it: a race of exponential clocks, whose
// numbers come from Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011), keyed by the seed and counted by position, sample and token.
#pragma once
#include "ranks.cuh"

// A token with a lower logarithm of its weight never wins: no clock rings before 2^-33, and that of
// the most likely token, of weight 1, rings before 33 ln 2 = 22.9; ln(2^-33 / 22.9) = -26.0.
constexpr float HOPELESS = -27.0f;

struct Stream {
  u64 seed;
  int position;
  int sampleIndex;

  // The words of four neighbouring ids.
  __device__ void block(int block, u32 (&c)[4]) const {
    c[0] = position;
    c[1] = sampleIndex;
    c[2] = block;
    c[3] = 0;
    u32 k0 = u32(seed);
    u32 k1 = u32(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
      u32 high0 = __umulhi(0xD2511F53u, c[0]);
      u32 low0 = 0xD2511F53u * c[0];
      u32 high1 = __umulhi(0xCD9E8D57u, c[2]);
      u32 low1 = 0xCD9E8D57u * c[2];
      c[0] = high1 ^ c[1] ^ k0;
      c[1] = low1;
      c[2] = high0 ^ c[3] ^ k1;
      c[3] = low0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
  }

  __device__ u32 word(int id) const {
    u32 words[4];
    block(id >> 2, words);
    return pick(words, id);
  }

  __device__ static u32 pick(const u32 (&words)[4], int id) {
    u32 low = id & 1 ? words[1] : words[0];
    u32 high = id & 1 ? words[3] : words[2];
    return id & 2 ? high : low;
  }
};

// The uniform number of a word, rounded.
__device__ __forceinline__ float uniformOf(u32 word) { return (float(word) + 0.5f) * 0x1p-32f; }

// An exponential number within a few float32 roundings: near 1 of what is left to 1.
__device__ __forceinline__ float roughClock(u32 word) {
  float left = (float(word < 0x80000000u ? word : ~word) + 0.5f) * 0x1p-32f;
  return word < 0x80000000u ? -log1pf(-left) : -logf(left);
}

// When a token's clock rings, as the host computes it.
__device__ __forceinline__ double clockOf(u32 word, float logit, float max, float temperature) {
  double uniform = (double(word) + 0.5) * 0x1p-32;
  double weight = exp((double(logit) - double(max)) / double(temperature));
  return -log1p(-uniform) / weight;
}

// The id of the first clock of a block, ties by the lower id; `time` becomes its time. Ids of no
// clock are negative, their times infinite.
__device__ __forceinline__ int winner(double& time, int id) {
  double first = blockLeast(time);
  int won = blockLeast(id >= 0 && time == first ? id : 0x7fffffff);
  time = first;
  return won;
}
