// Keys and values of a sequence's tokens in one layer, between pages and pinned host memory, where
// they lie as [keys or values, token, head, headDim]. A thread copies one unit, whatever elements it
// holds: 16 bytes, or 2 where heads are not whole units of that. Threads that follow each other have
// units that follow each other on the host, so that a warp's transfer is one run.
#include "halcyon.cuh"

// As KvTurns passes it.
struct KvTransferArgs {
  // The layer's, [blocks, heads, blockSize, headDim].
  u8* keys;
  u8* values;
  // Where the tokens lie, from the block of the first token on.
  const int* blocks;
  // What is copied now: `units` units of host memory, which begin `firstUnit` units behind the
  // first token's keys.
  u8* host;
  int firstUnit;
  int units;
  // The first token's place in its block.
  int firstOffset;
  int tokens;
  int heads;
  // Units of a head.
  int headUnits;
  int blockShift;
};

// The unit of the cache that belongs to unit i of the host.
template <typename Unit>
__device__ __forceinline__ Unit* place(const KvTransferArgs& args, int i) {
  int unit = args.firstUnit + i;
  int plane = args.tokens * args.heads * args.headUnits;
  u8* base = args.keys;
  if (unit >= plane) {
    unit -= plane;
    base = args.values;
  }
  int row = unit / args.headUnits;
  int slot = args.firstOffset + row / args.heads;
  int offset = slot & ((1 << args.blockShift) - 1);
  i64 head = i64(args.blocks[slot >> args.blockShift]) * args.heads + row % args.heads;
  return reinterpret_cast<Unit*>(base) +
         ((head << args.blockShift) + offset) * args.headUnits + unit % args.headUnits;
}

template <typename Unit, bool EXPORT>
__device__ __forceinline__ void copyUnit(const KvTransferArgs& args) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < args.units) {
    Unit* cache = place<Unit>(args, i);
    Unit* host = reinterpret_cast<Unit*>(args.host) + i;
    if constexpr (EXPORT) {
      *host = *cache;
    } else {
      *cache = *host;
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) kv_export(KvTransferArgs args) {
  copyUnit<Bytes16, true>(args);
}

extern "C" __global__ void __launch_bounds__(256) kv_export_narrow(KvTransferArgs args) {
  copyUnit<u16, true>(args);
}

extern "C" __global__ void __launch_bounds__(256) kv_import(KvTransferArgs args) {
  copyUnit<Bytes16, false>(args);
}

extern "C" __global__ void __launch_bounds__(256) kv_import_narrow(KvTransferArgs args) {
  copyUnit<u16, false>(args);
}
