// Attention of sequences that have one row in the batch, over paged keys and values, on tensor cores:
// for half-precision activations and the usual sizes of heads. What limits it is reading keys and
// values, and tensor cores leave the rest of the multiprocessor free to do so: a tile of 16 query heads
// of a KV head, those that are missing being zeros, costs less than the arithmetic of one would
// elsewhere.
//
// Contexts are split (Flash-Decoding, Dao et al., 2023), into parts whose length depends on the
// context's own. A block takes one part after another, of whatever sequence: long contexts beside short
// ones keep all of the device busy, and a launch has no blocks without work however long contexts may
// become. Of a split context the block that is done last adds up the parts, always in their order.
//
// In a block, each warp has a ring of tiles of keys and values in shared memory of its own, and waits
// for no other until its keys are done.
#include "softmax.cuh"
#include "tensor.cuh"

#if HALCYON_ACT != 0

constexpr int TILE_KEYS = 16;
constexpr int TILE_HEADS = 16;
// Tiles of a warp's ring.
constexpr int STAGES = 3;

// Parts have 2^8 keys in contexts of up to 2^12, 2^9 up to 2^16, and are at most 2^7 in longer ones.
constexpr int SHORT_PART = 8;
constexpr int SHORT_CONTEXT = 1 << 12;
constexpr int MOST_PARTS = 7;

// A key that is loaded from nowhere: zeros take its place.
constexpr u32 NOWHERE = 0xffffffffu;

// As TensorDecodeAttentionOp passes it.
struct DecodeArgs {
  // [rows, queryHeads + 2 * kvHeads, D], queries rotated.
  const Act* qkv;
  // [rows, queryHeads, D]
  Act* out;
  // One layer's, [blocks, kvHeads, blockSize, D].
  const Act* keys;
  const Act* values;
  const int* rowStart;
  const int* contextLength;
  const int* blockTables;
  // For each part of a context that is split, tile of heads, and head in it: values times weights,
  // added up, [D]; the largest score, as a power of two, and the sum of weights, [2].
  float* sums;
  float* weights;
  // [sequences, tiles of heads]: how many parts are done; zero between launches.
  int* done;
  int tableStride;
  int sequences;
  int queryHeads;
  int kvHeads;
  int blockShift;
  // More than any context where there is none.
  int window;
  float scale;
  float softcap;
  // How many parts sums and weights have room for.
  int slots;
};

// The tiles of query heads: those of a KV head are next to each other.
struct Heads {
  int group;
  // Tiles of a KV head, and of all.
  int tilesOfGroup;
  int tiles;
  // The most heads of a tile.
  int most;

  __device__ explicit Heads(const DecodeArgs& args) {
    group = args.queryHeads / args.kvHeads;
    tilesOfGroup = (group + TILE_HEADS - 1) / TILE_HEADS;
    tiles = tilesOfGroup * args.kvHeads;
    most = min(group, TILE_HEADS);
  }
};

// The keys that a sequence's row sees; negative if the sequence has not one row.
__device__ __forceinline__ int keysSeen(const DecodeArgs& args, int sequence) {
  bool single = args.rowStart[sequence + 1] - args.rowStart[sequence] == 1;
  return single ? min(args.contextLength[sequence], args.window) : -1;
}

// The keys of a part, as a power of two.
__device__ __forceinline__ int partShift(int seen, int longer) {
  int shift = seen <= SHORT_CONTEXT ? SHORT_PART : SHORT_PART + 1;
  while (max(0, seen - 1) >> (shift + MOST_PARTS)) {
    shift++;
  }
  return shift + longer;
}

// A context that no key is seen of has a part too: its row's zeros are to be written.
__device__ __forceinline__ int partsOf(int seen, int longer) {
  return seen < 0 ? 0 : seen == 0 ? 1 : ((seen - 1) >> partShift(seen, longer)) + 1;
}

// The parts of THREADS sequences, shared out among blocks.
template <int THREADS>
struct Schedule {
  // Where the parts of each sequence end, and where its slots do.
  int partEnd[THREADS];
  int slotEnd[THREADS];
  int warpParts[THREADS / 32];
  int warpSlots[THREADS / 32];
  // Whether this block is the one that adds up.
  int last;

  // The sum of x over the threads of a warp up to this one.
  static __device__ __forceinline__ int sumUpTo(int x) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int apart = 1; apart < 32; apart *= 2) {
      int before = __shfl_up_sync(FULL_WARP, x, apart);
      x += lane >= apart ? before : 0;
    }
    return x;
  }

  // For the sequences from first on. All threads call it; what it holds is complete on return.
  __device__ void fill(const DecodeArgs& args, int first, int longer) {
    int sequence = first + threadIdx.x;
    int parts = sequence < args.sequences ? partsOf(keysSeen(args, sequence), longer) : 0;
    int partSum = sumUpTo(parts);
    int slotSum = sumUpTo(parts > 1 ? parts : 0);
    if ((threadIdx.x & 31) == 31) {
      warpParts[threadIdx.x >> 5] = partSum;
      warpSlots[threadIdx.x >> 5] = slotSum;
    }
    __syncthreads();
    for (int w = 0; w < threadIdx.x >> 5; w++) {
      partSum += warpParts[w];
      slotSum += warpSlots[w];
    }
    partEnd[threadIdx.x] = partSum;
    slotEnd[threadIdx.x] = slotSum;
    __syncthreads();
  }

  // The sequence, less the first one, that has a part.
  __device__ int sequenceOf(int part) const {
    int low = 0;
    int high = THREADS - 1;
    while (low < high) {
      int middle = (low + high) / 2;
      if (partEnd[middle] > part) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  // How often all parts are to be doubled so that those of split contexts have slots. That alone of
  // what is split how depends on other sequences, when there are very many.
  __device__ int doublings(const DecodeArgs& args) {
    for (int longer = 0;; longer++) {
      int used = 0;
      for (int s = threadIdx.x; s < args.sequences; s += THREADS) {
        int parts = partsOf(keysSeen(args, s), longer);
        used += parts > 1 ? parts : 0;
      }
      used = sumUpTo(used);
      if ((threadIdx.x & 31) == 31) {
        warpSlots[threadIdx.x >> 5] = used;
      }
      __syncthreads();
      used = 0;
      for (int w = 0; w < THREADS / 32; w++) {
        used += warpSlots[w];
      }
      // Before they are written again.
      __syncthreads();
      if (used <= args.slots) {
        return longer;
      }
    }
  }
};

// What a block works on: a part of a context, for a tile of heads.
struct Part {
  int sequence;
  int row;
  // The tile's number, its KV head, its first query head and how many it has.
  int tile;
  int kvHead;
  int firstHead;
  int heads;
  // Its keys, and where the context's parts begin in sums and weights.
  int begin;
  int end;
  int number;
  int parts;
  int firstSlot;

  __device__ void locate(
      const DecodeArgs& args, const Heads& of, int whose, int part, int longer, int tileNumber) {
    sequence = whose;
    row = args.rowStart[sequence];
    int seen = keysSeen(args, sequence);
    int first = args.contextLength[sequence] - seen;
    int shift = partShift(seen, longer);
    parts = partsOf(seen, longer);
    number = part;
    begin = first + (part << shift);
    end = min(args.contextLength[sequence], begin + (1 << shift));
    tile = tileNumber;
    kvHead = tile / of.tilesOfGroup;
    int firstOfGroup = tile % of.tilesOfGroup * TILE_HEADS;
    firstHead = kvHead * of.group + firstOfGroup;
    heads = min(TILE_HEADS, of.group - firstOfGroup);
  }
};

// Shapes for heads of D elements, a multiple of 16, so that a row is an even number of 16-byte chunks.
template <int D>
struct Shape {
  static constexpr int WARPS = D <= 128 ? 4 : 2;
  static constexpr int THREADS = 32 * WARPS;
  // Blocks that a multiprocessor is to run at once, where its shared memory has room.
  static constexpr int BLOCKS = D <= 80 ? 4 : D <= 96 ? 3 : 2;
  static constexpr int CHUNKS = D / 8;
  // The eight rows of a matrix load must lie in different banks: chunks change places within their
  // eight by the row's number, or rows are a chunk longer.
  static constexpr bool SWAPS = D % 64 == 0;
  static constexpr int STRIDE = 2 * D + (SWAPS ? 0 : 16);
  static constexpr int TILE = TILE_KEYS * STRIDE;
  static constexpr int RING = STAGES * 2 * TILE;
  static constexpr int SHARED = WARPS * RING;
  static_assert(WARPS * TILE_HEADS * D * 4 <= SHARED, "sums take the place of the rings");

  static __device__ __forceinline__ int at(int row, int chunk) {
    return row * STRIDE + (SWAPS ? chunk ^ (row & 7) : chunk) * 16;
  }
};

__device__ __forceinline__ void endGroup() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most MORE of the thread's last groups of copies are under way.
template <int MORE>
__device__ __forceinline__ void awaitGroups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(MORE) : "memory");
}

// A warp's way through its keys: tiles of a part, WARPS tiles apart.
template <int D>
struct Tiles {
  using S = Shape<D>;
  const int* table;
  u32 ring;
  int first;
  int end;
  int count;
  // Where the lane's key of the next tile to load lies, in heads from the start of the layer.
  u32 next;

  __device__ Tiles(const DecodeArgs& args, const Part& part, u32 rings) {
    int warp = threadIdx.x >> 5;
    table = args.blockTables + i64(part.sequence) * args.tableStride;
    ring = rings + warp * S::RING;
    first = part.begin + warp * TILE_KEYS;
    end = part.end;
    count = first < end ? (end - first - 1) / (S::WARPS * TILE_KEYS) + 1 : 0;
  }

  __device__ int keyOf(int tile) const { return first + tile * S::WARPS * TILE_KEYS; }

  __device__ void locate(const DecodeArgs& args, const Part& part, int tile) {
    int key = keyOf(tile) + (threadIdx.x & (TILE_KEYS - 1));
    next = NOWHERE;
    if (key < end) {
      u32 block = table[key >> args.blockShift];
      u32 offset = key & ((1 << args.blockShift) - 1);
      next = ((block * args.kvHeads + part.kvHead) << args.blockShift) + offset;
    }
  }

  // Starts to load the tile that was located last. Keys beyond the end become zeros: what lies there
  // may be anything, and even a weight of zero would not make infinities harmless.
  __device__ void load(const DecodeArgs& args, int stage) const {
    u32 to = ring + stage * 2 * S::TILE;
#pragma unroll
    for (int i = 0; i < TILE_KEYS * S::CHUNKS / 32; i++) {
      int number = i * 32 + (threadIdx.x & 31);
      int row = number / S::CHUNKS;
      int chunk = number % S::CHUNKS;
      u32 head = __shfl_sync(FULL_WARP, next, row);
      bool read = head != NOWHERE;
      u64 from = (read ? u64(head) * D : 0) + chunk * 8;
      copy16(to + S::at(row, chunk), args.keys + from, read);
      copy16(to + S::TILE + S::at(row, chunk), args.values + from, read);
    }
  }
};

// A warp's queries and their running softmax. A thread has the heads lane / 4 and lane / 4 + 8 of the
// tile, and of these the columns lane % 4 * 2 and the next one of every 8.
template <int D>
struct Rows {
  using S = Shape<D>;
  u32 query[D / 16][4];
  float out[D / 8][4] = {};
  float max[2] = {-infinity(), -infinity()};
  // Over the thread's own columns.
  float sum[2] = {};

  __device__ Rows(const DecodeArgs& args, const Part& part) {
    int lane = threadIdx.x & 31;
    i64 headsBefore = i64(part.row) * (args.queryHeads + 2 * args.kvHeads) + part.firstHead;
    const Act* row = args.qkv + headsBefore * D;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int head = lane / 4 + 8 * half;
      const u32* from = reinterpret_cast<const u32*>(row + head * D + lane % 4 * 2);
#pragma unroll
      for (int i = 0; i < D / 16; i++) {
        query[i][half] = head < part.heads ? from[i * 8] : 0;
        query[i][half + 2] = head < part.heads ? from[i * 8 + 4] : 0;
      }
    }
  }

  // From products to weights, of one of the thread's two heads; `left` keys of the tile exist.
  __device__ void soften(const DecodeArgs& args, float (&scores)[2][4], int half, int left) {
    int column = (threadIdx.x & 3) * 2;
    float best = max[half];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float& score = scores[i / 2][half * 2 + i % 2];
      float power = score * args.scale;
      power = LOG2E * (args.softcap == 0.0f ? power : args.softcap * tanhFast(power / args.softcap));
      score = i / 2 * 8 + column + i % 2 < left ? power : -infinity();
      best = fmaxf(best, score);
    }
    best = quadMax(best);
    // Nothing but scores of minus infinity has no max to subtract.
    float less = best == -infinity() ? 0.0f : best;
    float change = exp2Fast(max[half] - less);
    max[half] = best;
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float& score = scores[i / 2][half * 2 + i % 2];
      score = exp2Fast(score - less);
      total += score;
    }
    sum[half] = sum[half] * change + total;
    if (__any_sync(FULL_WARP, change != 1.0f)) {
#pragma unroll
      for (int i = 0; i < D / 8; i++) {
        out[i][half * 2] *= change;
        out[i][half * 2 + 1] *= change;
      }
    }
  }

  // Takes a tile of keys and values from shared memory.
  __device__ void take(const DecodeArgs& args, const Part& part, u32 tile, int left) {
    int lane = threadIdx.x & 31;
    int matrix = lane / 8;
    float scores[2][4] = {};
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
      u32 keys[4];
      load4(keys, tile + S::at(matrix / 2 * 8 + lane % 8, 2 * i + matrix % 2));
      multiply(scores[0], query[i], keys[0], keys[1]);
      multiply(scores[1], query[i], keys[2], keys[3]);
    }
    soften(args, scores, 0, left);
    if (part.heads > 8) {
      soften(args, scores, 1, left);
    }
    u32 weights[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      weights[i] = pack2(scores[i / 2][i % 2 * 2], scores[i / 2][i % 2 * 2 + 1]);
    }
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
      u32 values[4];
      load4Transposed(values, tile + S::TILE + S::at(matrix % 2 * 8 + lane % 8, 2 * i + matrix / 2));
      multiply(out[2 * i], weights, values[0], values[1]);
      multiply(out[2 * i + 1], weights, values[2], values[3]);
    }
  }

  // Writes what the warp found to shared memory: outs [TILE_HEADS, D], and its max and sum of weights.
  __device__ void leave(const Part& part, float* outs, float (*stats)[2]) const {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int head = lane / 4 + 8 * half;
      float total = quadSum(sum[half]);
      if (head < part.heads) {
        stats[head][0] = max[half];
        stats[head][1] = total;
#pragma unroll
        for (int i = 0; i < D / 8; i++) {
          outs[head * D + i * 8 + lane % 4 * 2] = out[i][half * 2];
          outs[head * D + i * 8 + lane % 4 * 2 + 1] = out[i][half * 2 + 1];
        }
      }
    }
  }
};

// Past the cache of the multiprocessor, which may hold what was there before.
__device__ __forceinline__ float readWritten(const float* p) {
  float x;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(p) : "memory");
  return x;
}

// Where a head's sums are among those of parts; slots in between have the other tiles.
__device__ __forceinline__ i64 sumOf(const Heads& of, const Part& part, int number, int head) {
  return (i64(part.firstSlot + number) * of.tiles + part.tile) * of.most + head;
}

// A warp adds up the parts of a head, and writes its result.
template <int D>
__device__ __forceinline__ void addParts(
    const DecodeArgs& args, const Heads& of, const Part& part, int head) {
  constexpr int COLUMNS = (D + 31) / 32;
  int lane = threadIdx.x & 31;
  float best = -infinity();
  for (int p = lane; p < part.parts; p += 32) {
    best = fmaxf(best, readWritten(args.weights + 2 * sumOf(of, part, p, head)));
  }
  best = warpMax(best);
  float less = best == -infinity() ? 0.0f : best;
  float total = 0.0f;
  float sums[COLUMNS] = {};
#pragma unroll 4
  for (int p = 0; p < part.parts; p++) {
    i64 at = sumOf(of, part, p, head);
    float factor = exp2Fast(readWritten(args.weights + 2 * at) - less);
    total += factor * readWritten(args.weights + 2 * at + 1);
#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
      int d = i * 32 + lane;
      sums[i] += d < D ? factor * readWritten(args.sums + at * D + d) : 0.0f;
    }
  }
  Act* out = args.out + (i64(part.row) * args.queryHeads + part.firstHead + head) * D;
#pragma unroll
  for (int i = 0; i < COLUMNS; i++) {
    int d = i * 32 + lane;
    if (d < D) {
      out[d] = fromFloat<Act>(sums[i] / total);
    }
  }
}

// Adds up a block's warps, and writes results, or the sums of a part.
template <int D>
__device__ __forceinline__ void addWarps(
    const DecodeArgs& args, const Heads& of, const Part& part, const float* outs,
    const float (*stats)[TILE_HEADS][2]) {
  using S = Shape<D>;
  for (int i = threadIdx.x; i < part.heads * D; i += S::THREADS) {
    int head = i / D;
    int d = i % D;
    float best = -infinity();
#pragma unroll
    for (int w = 0; w < S::WARPS; w++) {
      best = fmaxf(best, stats[w][head][0]);
    }
    float less = best == -infinity() ? 0.0f : best;
    float sum = 0.0f;
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < S::WARPS; w++) {
      float factor = exp2Fast(stats[w][head][0] - less);
      sum += factor * outs[w * TILE_HEADS * D + i];
      total += factor * stats[w][head][1];
    }
    if (part.parts == 1) {
      // A sequence of padding sees nothing.
      float result = part.begin == part.end ? 0.0f : sum / total;
      args.out[(i64(part.row) * args.queryHeads + part.firstHead) * D + i] = fromFloat<Act>(result);
    } else {
      i64 at = sumOf(of, part, part.number, head);
      args.sums[at * D + d] = sum;
      if (d == 0) {
        args.weights[2 * at] = best;
        args.weights[2 * at + 1] = total;
      }
    }
  }
}

template <int D>
__device__ __forceinline__ void attend(
    const DecodeArgs& args, const Heads& of, const Part& part, Schedule<Shape<D>::THREADS>& schedule,
    u8* shared) {
  using S = Shape<D>;
  __shared__ float stats[S::WARPS][TILE_HEADS][2];
  int warp = threadIdx.x >> 5;
  {
    Tiles<D> tiles(args, part, sharedAddress(shared));
    tiles.locate(args, part, 0);
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
      if (i < tiles.count) {
        tiles.load(args, i);
      }
      endGroup();
      tiles.locate(args, part, i + 1);
    }
    Rows<D> rows(args, part);
    int stage = 0;
    for (int i = 0; i < tiles.count; i++) {
      // All lanes are done with the tile before this one, whose place the next to load takes.
      __syncwarp();
      if (i + STAGES - 1 < tiles.count) {
        tiles.load(args, stage == 0 ? STAGES - 1 : stage - 1);
      }
      endGroup();
      tiles.locate(args, part, i + STAGES);
      awaitGroups<STAGES - 1>();
      __syncwarp();
      rows.take(args, part, tiles.ring + stage * 2 * S::TILE, part.end - tiles.keyOf(i));
      stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    // The rings give way to sums.
    __syncthreads();
    rows.leave(part, reinterpret_cast<float*>(shared) + warp * TILE_HEADS * D, stats[warp]);
  }
  __syncthreads();
  addWarps<D>(args, of, part, reinterpret_cast<const float*>(shared), stats);
  if (part.parts > 1) {
    __threadfence();
    __syncthreads();
    int* done = args.done + part.sequence * of.tiles + part.tile;
    if (threadIdx.x == 0) {
      schedule.last = atomicAdd(done, 1) == part.parts - 1;
    }
    __syncthreads();
    if (schedule.last) {
      __threadfence();
      for (int head = warp; head < part.heads; head += S::WARPS) {
        addParts<D>(args, of, part, head);
      }
      if (threadIdx.x == 0) {
        *done = 0;
      }
    }
  }
  __syncthreads();
}

template <int D>
__device__ __forceinline__ void decodeAttention(const DecodeArgs& args) {
  using S = Shape<D>;
  extern __shared__ __align__(16) u8 shared[];
  __shared__ Schedule<S::THREADS> schedule;
  Heads of(args);
  int longer = schedule.doublings(args);
  int unit = blockIdx.x;
  int partsBefore = 0;
  int slotsBefore = 0;
  for (int first = 0; first < args.sequences; first += S::THREADS) {
    schedule.fill(args, first, longer);
    int parts = schedule.partEnd[S::THREADS - 1];
    for (; unit < (partsBefore + parts) * of.tiles; unit += gridDim.x) {
      int part = unit / of.tiles - partsBefore;
      int s = schedule.sequenceOf(part);
      Part own;
      own.locate(
          args, of, first + s, part - (s == 0 ? 0 : schedule.partEnd[s - 1]), longer, unit % of.tiles);
      own.firstSlot = slotsBefore + (s == 0 ? 0 : schedule.slotEnd[s - 1]);
      attend<D>(args, of, own, schedule, shared);
    }
    partsBefore += parts;
    slotsBefore += schedule.slotEnd[S::THREADS - 1];
    __syncthreads();
  }
}

#define DECODE(D)                                                                     \
  extern "C" __global__ void __launch_bounds__(Shape<D>::THREADS, Shape<D>::BLOCKS)   \
      tensor_decode_attention_##D(DecodeArgs args) {                                  \
    decodeAttention<D>(args);                                                         \
  }

DECODE(64)
DECODE(80)
DECODE(96)
DECODE(112)
DECODE(128)
DECODE(192)
DECODE(256)

#endif
