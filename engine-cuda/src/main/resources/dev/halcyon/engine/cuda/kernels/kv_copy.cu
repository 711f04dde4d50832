// Keys and values of a sequence's tokens from the pages of one cache to those of another, over some
// layers. A chunk is as many tokens as the smaller block has, and begins where positions are
// multiples of that: a head's keys of a chunk lie in one run in either cache, whatever the sizes of
// their blocks. A warp copies such a run, in units of 16 bytes, or of 2 where heads are not whole
// units of that.
#include "halcyon.cuh"

// As KvCopyOp passes it.
struct KvCopyArgs {
  // The first layer's keys, [blocks, heads, blockSize, headDim]; its values, then the keys of the
  // next layer lie a plane behind.
  const u8* from;
  u8* to;
  // Where the tokens lie, from the block of the first token on.
  const int* fromBlocks;
  const int* toBlocks;
  // Units of a plane.
  i64 fromPlane;
  i64 toPlane;
  int firstToken;
  int tokens;
  int heads;
  // Units of a head.
  int headUnits;
  int fromShift;
  int toShift;
  int chunks;
};

// Loads that a thread has under way at once.
static constexpr int AT_ONCE = 4;

// Where a token's keys of a head begin, in units from the plane's beginning.
__device__ __forceinline__ i64 place(const KvCopyArgs& args, const int* blocks, int shift, int token,
                                     int head) {
  int block = blocks[(token >> shift) - (args.firstToken >> shift)];
  return (((i64(block) * args.heads + head) << shift) + (token & ((1 << shift) - 1))) *
         args.headUnits;
}

template <typename Unit>
__device__ __forceinline__ void copyChunk(const KvCopyArgs& args) {
  int warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  int chunk = warp / args.heads;
  if (chunk >= args.chunks) {
    return;
  }
  int shift = min(args.fromShift, args.toShift);
  int begin = ((args.firstToken >> shift) + chunk) << shift;
  int end = min(begin + (1 << shift), args.firstToken + args.tokens);
  begin = max(begin, args.firstToken);
  int head = warp % args.heads;
  int plane = blockIdx.y;
  const Unit* from = reinterpret_cast<const Unit*>(args.from) + plane * args.fromPlane +
                     place(args, args.fromBlocks, args.fromShift, begin, head);
  Unit* to = reinterpret_cast<Unit*>(args.to) + plane * args.toPlane +
             place(args, args.toBlocks, args.toShift, begin, head);
  int units = (end - begin) * args.headUnits;
  int i = lane;
  for (; i + 32 * (AT_ONCE - 1) < units; i += 32 * AT_ONCE) {
    Unit held[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      held[k] = from[i + 32 * k];
    }
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      to[i + 32 * k] = held[k];
    }
  }
  for (; i < units; i += 32) {
    to[i] = from[i];
  }
}

extern "C" __global__ void __launch_bounds__(256) kv_copy(KvCopyArgs args) {
  copyChunk<Bytes16>(args);
}

extern "C" __global__ void __launch_bounds__(256) kv_copy_narrow(KvCopyArgs args) {
  copyChunk<u16>(args);
}
