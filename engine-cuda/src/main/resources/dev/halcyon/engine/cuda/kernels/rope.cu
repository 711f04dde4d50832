// Rotary embedding of packed rows, and the writing of their keys and values to pages, in one pass.
//
// A thread has two runs of WIDTH elements of one head: those that rotate together, or two that lie
// behind the rotary part and stay as they are. Queries stay in the row; keys and values go to the page
// alone.
#include "halcyon.cuh"

// As RopeOp passes it.
struct RopeArgs {
  Act* qkv;
  // One layer's, [blocks, kvHeads, blockSize, headDim].
  Act* keys;
  Act* values;
  const int* positions;
  const int* slots;
  // [positions, rotaryDim / 2]
  const float* cos;
  const float* sin;
  int rows;
  int queryHeads;
  int kvHeads;
  int headDim;
  int rotaryDim;
  int blockShift;
  // Whether elements 2i and 2i + 1 are a pair, not i and i + rotaryDim / 2.
  int interleaved;
};

// Where a thread's two runs begin in a head, and the first of their angles.
struct Runs {
  int first;
  int second;
  int angle;
  bool rotates;
};

template <int WIDTH>
__device__ __forceinline__ Runs runsOf(const RopeArgs& args, int unit, bool value) {
  int first = 2 * WIDTH * unit;
  bool rotates = !value && first < args.rotaryDim;
  bool halves = rotates && !args.interleaved;
  Runs runs;
  runs.rotates = rotates;
  runs.angle = WIDTH * unit;
  runs.first = halves ? WIDTH * unit : first;
  runs.second = halves ? WIDTH * unit + args.rotaryDim / 2 : first + WIDTH;
  return runs;
}

template <int WIDTH>
__device__ __forceinline__ void load(const Act* from, Act (&x)[WIDTH]) {
  if constexpr (WIDTH == GROUP) {
    *reinterpret_cast<Bytes16*>(x) = *reinterpret_cast<const Bytes16*>(from);
  } else {
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
      x[i] = from[i];
    }
  }
}

template <int WIDTH>
__device__ __forceinline__ void store(Act* to, const Act (&x)[WIDTH]) {
  if constexpr (WIDTH == GROUP) {
    *reinterpret_cast<Bytes16*>(to) = *reinterpret_cast<const Bytes16*>(x);
  } else {
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
      to[i] = x[i];
    }
  }
}

__device__ __forceinline__ void rotate(Act& a, Act& b, float cos, float sin) {
  float x = toFloat(a);
  float y = toFloat(b);
  a = fromFloat<Act>(x * cos - y * sin);
  b = fromFloat<Act>(y * cos + x * sin);
}

template <int WIDTH>
__device__ __forceinline__ void rotateRuns(
    const RopeArgs& args, const Runs& runs, int row, Act (&a)[WIDTH], Act (&b)[WIDTH]) {
  i64 angle = i64(args.positions[row]) * (args.rotaryDim / 2) + runs.angle;
  if (!args.interleaved) {
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
      rotate(a[i], b[i], args.cos[angle + i], args.sin[angle + i]);
    }
  } else if constexpr (WIDTH == 1) {
    rotate(a[0], b[0], args.cos[angle], args.sin[angle]);
  } else {
#pragma unroll
    for (int i = 0; i < WIDTH / 2; i++) {
      rotate(a[2 * i], a[2 * i + 1], args.cos[angle + i], args.sin[angle + i]);
      rotate(b[2 * i], b[2 * i + 1], args.cos[angle + WIDTH / 2 + i], args.sin[angle + WIDTH / 2 + i]);
    }
  }
}

template <int WIDTH>
__device__ __forceinline__ void ropeAndWriteKv(const RopeArgs& args) {
  int units = args.headDim / (2 * WIDTH);
  int heads = args.queryHeads + 2 * args.kvHeads;
  int item = blockIdx.x * blockDim.x + threadIdx.x;
  if (item >= heads * units) {
    return;
  }
  int head = item / units;
  bool query = head < args.queryHeads;
  bool value = head >= args.queryHeads + args.kvHeads;
  Runs at = runsOf<WIDTH>(args, item % units, value);
  if (query && !at.rotates) {
    return;
  }
  for (int row = blockIdx.y; row < args.rows; row += gridDim.y) {
    int slot = args.slots[row];
    if (!query && slot < 0) {
      continue;
    }
    Act* from = args.qkv + (i64(row) * heads + head) * args.headDim;
    alignas(16) Act a[WIDTH];
    alignas(16) Act b[WIDTH];
    load(from + at.first, a);
    load(from + at.second, b);
    if (at.rotates) {
      rotateRuns(args, at, row, a, b);
    }
    Act* to = from;
    if (!query) {
      int kvHead = (head - args.queryHeads) % args.kvHeads;
      i64 block = slot >> args.blockShift;
      int offset = slot & ((1 << args.blockShift) - 1);
      to = (value ? args.values : args.keys) +
           (((block * args.kvHeads + kvHead) << args.blockShift) + offset) * args.headDim;
    }
    store(to + at.first, a);
    store(to + at.second, b);
  }
}

// For heads and rotary parts of whole pairs of groups.
extern "C" __global__ void __launch_bounds__(256) rope_and_write_kv(RopeArgs args) {
  ropeAndWriteKv<GROUP>(args);
}

// For any even ones.
extern "C" __global__ void __launch_bounds__(256) rope_and_write_kv_narrow(RopeArgs args) {
  ropeAndWriteKv<1>(args);
}
