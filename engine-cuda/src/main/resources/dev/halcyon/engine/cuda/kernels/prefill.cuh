// What the kernels for the rows of prompts share: their arguments, the packed rows of a block, and
// copies to shared memory.
//
// A block takes a tile of queries that share a KV head. The rows of a tile are the sequence's rows of
// this step, each with all query heads of the KV head behind one another: packed row p is the
// sequence's row p / group and the group's head p % group. So a short chunk fills a tile as well as
// a long one does, and keys and values are read once for all heads of a group. blockIdx.x is the KV
// head.
//
// Tiles of keys begin at fixed positions, and a tile that a row sees nothing of changes nothing of
// it, to the bit: how a prompt was cut into chunks has no part in the result, but for the rounding
// where the keys of a tile of rows are cut into parts.
#pragma once
#include "softmax.cuh"
#include "tensor.cuh"

// What a block does: packed rows from firstRow on of a sequence, over keys from firstKey up to endKey,
// both multiples of a tile. A tile of rows can be cut into parts by its keys; then each has a slot of
// its own for what it found, and else -1. A block that joins parts has their first slot, the slot
// behind the last one, and -1.
struct Work {
  int sequence;
  int firstRow;
  int firstKey;
  int endKey;
  int slot;
};

// As PrefillAttentionOp passes it.
struct PrefillArgs {
  const Act* qkv;
  Act* out;
  // One layer's, [blocks, kvHeads, blockSize, headDim].
  const Act* keys;
  const Act* values;
  const int* rowStart;
  const int* contextLength;
  const int* blockTables;
  // For each blockIdx.y.
  const Work* work;
  // For tiles in parts: [slots, kvHeads, rows of a tile, headDim + 2].
  float* parts;
  int tableStride;
  int queryHeads;
  int kvHeads;
  int headDim;
  int blockShift;
  // More than any context where there is none.
  int window;
  float scale;
  float softcap;
};

// Waits for the thread's own copies.
__device__ __forceinline__ void awaitCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// What a block works on.
struct Queries {
  // The tile's first packed row, and the end of the sequence's.
  int first;
  int end;
  int group;
  // The sequence's first row in the batch and its position.
  int rowStart;
  int position;
  const int* table;

  __device__ int positionOf(int packedRow) const { return position + packedRow / group; }

  // The batch's heads of the KV head, counted through all rows: of [rows, headsOfARow] heads.
  __device__ i64 headOf(int packedRow, int headsOfARow, int firstHead) const {
    return i64(rowStart + packedRow / group) * headsOfARow + firstHead + packedRow % group;
  }
};

// Asked for where it is needed: registers are too few to hold it throughout.
__device__ __forceinline__ Queries queriesOf(const PrefillArgs& args) {
  int sequence = args.work[blockIdx.y].sequence;
  Queries q;
  q.first = args.work[blockIdx.y].firstRow;
  q.group = args.queryHeads / args.kvHeads;
  q.rowStart = args.rowStart[sequence];
  int rows = args.rowStart[sequence + 1] - q.rowStart;
  q.end = rows * q.group;
  q.position = args.contextLength[sequence] - rows;
  q.table = args.blockTables + i64(sequence) * args.tableStride;
  return q;
}
