// Chooses tokens from rows of logits. A scan of logprobs.cu comes before; then a block for each
// entry settles what it can from the scan (greedy, and filters that keep no more than a list), and
// leaves the rest: filters of any size to a block that selects, the draw to blocks for each part of
// a row.
#include "draw.cuh"
#include "select.cuh"

// What the host asks for: a token, and what is reported of it.
struct Entry {
  u64 raw;     // the row as the model gave it
  u64 row;     // the row to choose from: that, or a copy in float32 with adjustments
  u64 seed;
  u64 result;  // a Result, with room for the keys of the most likely
  u64 lists;   // pairs of id and bias, then ids ruled out, then pairs of id and number generated
  int rawJob;  // the rows' places in the scan
  int job;
  int greedy;
  float temperature;
  int topK;  // 0 for none
  float topP;
  float minP;
  int position;
  int sampleIndex;
  int logprobs;  // the most likely to report, -1 for no logprobs at all
  int biases;
  int bans;
  int penalties;
  float repetition;
  float presence;
  float frequency;

  __device__ bool adjusted() const { return raw != row; }
};

// What is left to do for an entry.
constexpr int FILTER = 1;
constexpr int DRAW = 2;

constexpr int FAILED = 1;

struct State {
  u64 bound;    // the last key that may be drawn
  float max;
  float first;  // about when the clock of the most likely token rings
  int todo;
  int unused;
};

// What rough times may be off by.
constexpr float NEARLY = 1.00003f;

struct Drawn {
  double time;
  int id;
  int unused;
};

// Copies rows that are to be adjusted; blockIdx.x counts parts, blockIdx.y entries.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    copy_adjusted(const Entry* entries, int cols) {
  const Entry& entry = entries[blockIdx.y];
  if (!entry.adjusted()) {
    return;
  }
  const Act* from = reinterpret_cast<const Act*>(entry.raw);
  float* to = reinterpret_cast<float*>(entry.row);
  int first = blockIdx.x * SCAN_PART + threadIdx.x;
#pragma unroll 8
  for (int j = 0; j < SCAN_EACH; j++) {
    int id = first + j * SCAN_THREADS;
    if (id < cols) {
      to[id] = toFloat(from[id]);
    }
  }
}

// Logit bias, then the ban of end ids, then penalties, rounded as the host rounds: no product is
// fused with a sum. Ids of a list are distinct.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS) adjust(const Entry* entries) {
  const Entry& entry = entries[blockIdx.x];
  if (!entry.adjusted()) {
    return;
  }
  float* row = reinterpret_cast<float*>(entry.row);
  const int* list = reinterpret_cast<const int*>(entry.lists);
  for (int i = threadIdx.x; i < entry.biases; i += SCAN_THREADS) {
    row[list[2 * i]] += __int_as_float(list[2 * i + 1]);
  }
  list += 2 * entry.biases;
  __syncthreads();
  for (int i = threadIdx.x; i < entry.bans; i += SCAN_THREADS) {
    row[list[i]] = -infinity();
  }
  list += entry.bans;
  __syncthreads();
  for (int i = threadIdx.x; i < entry.penalties; i += SCAN_THREADS) {
    int generated = list[2 * i + 1];
    float logit = row[list[2 * i]];
    logit = logit > 0.0f ? logit / entry.repetition : __fmul_rn(logit, entry.repetition);
    if (generated > 0) {
      float counted = __fmul_rn(float(generated), entry.frequency);
      logit = __fsub_rn(logit, __fadd_rn(counted, entry.presence));
    }
    row[list[2 * i]] = logit;
  }
}

struct Choice {
  ListScratch list;
  double weights[LIST];
  int kept;
};

// The key of the least likely token that minP keeps.
__device__ __forceinline__ u64 minPBound(const Entry& entry, float max) {
  if (entry.minP <= 0.0f) {
    return NO_KEY;
  }
  double lowest = double(max) + double(entry.temperature) * log(double(entry.minP));
  return keyOf(rankOf(__double2float_ru(lowest)), -1);
}

// How many of the first `within` tokens of the list topP keeps; 0 if their probability, of
// `total`, doesn't reach it. A total of 0 stands for theirs.
__device__ __forceinline__ int keptByTopP(float topP, double total, int within, Choice& s) {
  double before = 0.0;
  double upTo = 0.0;
  double all = 0.0;
  for (int i = 0; i < within; i++) {
    before = i == int(threadIdx.x) ? all : before;
    all += s.weights[i];
    upTo = i == int(threadIdx.x) ? all : upTo;
  }
  double target = double(topP) * (total == 0.0 ? all : total);
  if (threadIdx.x == 0) {
    s.kept = 0;
  }
  __syncthreads();
  if (threadIdx.x < within && before < target && target <= upTo) {
    s.kept = threadIdx.x + 1;
  }
  __syncthreads();
  return s.kept;
}

// Filters and draws among the most likely tokens alone; -1 if more could be kept than the list has.
template <typename T>
__device__ __forceinline__ int drawFromList(
    const Row<T>& row, const Entry& entry, const Totals& totals, u64 bound, const u64* groups,
    int parts, Choice& s) {
  bool byNumber = entry.topK > 0 && entry.topK <= LIST;
  int found = bestOfRow(row, groups, parts, byNumber ? entry.topK : LIST, s.list);
  int i = threadIdx.x;
  u64 key = i < found ? s.list.top[i] : NO_KEY;
  int within = blockTotal(i < found && key <= bound ? 1 : 0);
  // Whether topP looks at tokens of the list alone.
  bool all = byNumber || within < found || found == row.cols;
  if (!all && (entry.topP >= 1.0f || entry.topK > 0 || entry.minP > 0.0f)) {
    return -1;
  }
  if (i < within) {
    s.weights[i] = exp((double(logitOf(key)) - totals.max) / double(entry.temperature));
  }
  __syncthreads();
  int kept = within;
  if (entry.topP < 1.0f) {
    kept = keptByTopP(entry.topP, all ? 0.0 : totals.heated, within, s);
    if (kept == 0 && !all) {
      return -1;
    }
    kept = kept == 0 ? within : kept;
  }
  Stream stream{entry.seed, entry.position, entry.sampleIndex};
  int id = i < kept ? int(u32(key)) : -1;
  double time = infinity();
  if (i < kept) {
    time = clockOf(stream.word(id), logitOf(key), totals.max, entry.temperature);
  }
  return winner(time, id);
}

// A block for each entry. parts and groups are those of the scan, with `count` parts of a row.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS, 2)
    choose(const Entry* entries, int cols, const Part* parts, const u64* groups, int count,
           State* states) {
  __shared__ Choice scratch;
  const Entry& entry = entries[blockIdx.x];
  float temperature = entry.greedy ? 1.0f : entry.temperature;
  Totals raw = combine(parts + i64(entry.rawJob) * count, count, temperature);
  Totals from = raw;
  if (entry.adjusted()) {
    from = combine(parts + i64(entry.job) * count, count, temperature);
  }
  bool usable = raw.usable && from.usable;
  Result* result = reinterpret_cast<Result*>(entry.result);
  State& state = states[blockIdx.x];
  if (threadIdx.x == 0) {
    int token = int(u32(from.best));
    *result = Result{raw.sum, raw.max, 0.0f, 0, token, usable ? 0 : FAILED, 0};
    state = State{NO_KEY, from.max, 0.0f, 0, 0};
  }
  if (!usable) {
    return;
  }
  bool listed = count <= LIST_PARTS;
  if (listed && entry.logprobs > 0 && entry.logprobs <= LIST) {
    Row<Act> row(reinterpret_cast<const void*>(entry.raw), cols);
    const u64* own = groups + i64(entry.rawJob) * count * SCAN_THREADS;
    int found = bestOfRow(row, own, count, entry.logprobs, scratch.list);
    if (threadIdx.x < found) {
      reinterpret_cast<u64*>(result + 1)[threadIdx.x] = scratch.list.top[threadIdx.x];
    }
    if (threadIdx.x == 0) {
      result->count = found;
    }
    __syncthreads();
  }
  if (entry.greedy) {
    return;
  }
  u64 bound = minPBound(entry, from.max);
  bool byNumber = entry.topK > 0;
  bool byMass = entry.topP < 1.0f;
  int token = -1;
  if (listed && (byMass || (byNumber && entry.topK <= LIST))) {
    const u64* own = groups + i64(entry.job) * count * SCAN_THREADS;
    withRow(reinterpret_cast<const void*>(entry.row), entry.adjusted(), cols, [&](auto row) {
      token = drawFromList(row, entry, from, bound, own, count, scratch);
    });
  }
  if (threadIdx.x == 0) {
    if (token >= 0) {
      result->token = token;
    } else {
      Stream stream{entry.seed, entry.position, entry.sampleIndex};
      float first = roughClock(stream.word(int(u32(from.best))));
      state = State{bound, from.max, first, DRAW | (byNumber || byMass ? FILTER : 0), 0};
    }
  }
}

// Filters and lists of any size; a block for each entry.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS, 1)
    choose_wide(const Entry* entries, int cols, int count, State* states) {
  __shared__ SelectScratch scratch;
  const Entry& entry = entries[blockIdx.x];
  Result* result = reinterpret_cast<Result*>(entry.result);
  if (result->status != 0) {
    return;
  }
  if (entry.logprobs > LIST || (entry.logprobs > 0 && count > LIST_PARTS)) {
    Row<Act> row(reinterpret_cast<const void*>(entry.raw), cols);
    Weighing counting{result->max, 1.0f, false};
    u64 bound = selectBound(row, counting, entry.logprobs, NO_KEY, scratch);
    int found = collect(row, bound, reinterpret_cast<u64*>(result + 1), scratch);
    if (threadIdx.x == 0) {
      result->count = found;
    }
  }
  State state = states[blockIdx.x];
  if ((state.todo & FILTER) == 0) {
    return;
  }
  withRow(reinterpret_cast<const void*>(entry.row), entry.adjusted(), cols, [&](auto row) {
    u64 bound = state.bound;
    if (entry.topK > 0) {
      Weighing counting{state.max, entry.temperature, false};
      bound = selectBound(row, counting, entry.topK, bound, scratch);
    }
    if (entry.topP < 1.0f) {
      Weighing mass{state.max, entry.temperature, true};
      bound = selectBound(row, mass, entry.topP, bound, scratch);
    }
    if (threadIdx.x == 0) {
      states[blockIdx.x].bound = bound;
    }
  });
}

// The first clock of a part of a row. Times of float32 tell which may be the first; those are
// computed again as the host computes them.
template <typename T>
__device__ __forceinline__ int drawPart(
    const Row<T>& row, const Entry& entry, const State& state, int part, double& time) {
  Stream stream{entry.seed, entry.position, entry.sampleIndex};
  float x[SCAN_EACH];
  float rough[SCAN_EACH];
  u32 open = 0;
  float first = state.first;
  // A product in place of a quotient: near enough to tell who may be first.
  float perDegree = fminf(1.0f / entry.temperature, 1e38f);
  u32 words[4];
  int wordsOf = -1;
#pragma unroll
  for (int j = 0; j < Row<T>::EACH; j++) {
    float v[Row<T>::VECTOR];
    row.load(row.vectorOf(part, threadIdx.x, j), v);
#pragma unroll
    for (int i = 0; i < Row<T>::VECTOR; i++) {
      int e = j * Row<T>::VECTOR + i;
      int id = row.idOf(part, threadIdx.x, e);
      x[e] = v[i];
      rough[e] = infinity();
      float scaled = (v[i] - state.max) * perDegree;
      if (scaled >= HOPELESS) {
        if (wordsOf != id >> 2) {
          wordsOf = id >> 2;
          stream.block(wordsOf, words);
        }
        // A clock rings after its uniform number, so most are out before a logarithm is taken.
        u32 word = Stream::pick(words, id);
        float slowness = expf(-scaled);
        if (uniformOf(word) * slowness <= first * NEARLY && row.has(id) &&
            keyOf(rankOf(v[i]), id) <= state.bound) {
          rough[e] = roughClock(word) * slowness;
          open |= 1u << e;
          first = fminf(first, rough[e]);
        }
      }
    }
  }
  first = blockReduce(first, [](float a, float b) { return fminf(a, b); });
  float last = first * NEARLY;
  time = infinity();
  int won = -1;
#pragma unroll
  for (int e = 0; e < SCAN_EACH; e++) {
    if ((open >> e & 1) != 0 && rough[e] <= last) {
      int id = row.idOf(part, threadIdx.x, e);
      double exact = clockOf(stream.word(id), x[e], state.max, entry.temperature);
      if (exact < time) {
        time = exact;
        won = id;
      }
    }
  }
  return winner(time, won);
}

// blockIdx.x counts parts, blockIdx.y entries; drawn is [entries, parts].
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    draw(const Entry* entries, int cols, const State* states, Drawn* drawn) {
  State state = states[blockIdx.y];
  if ((state.todo & DRAW) == 0) {
    return;
  }
  const Entry& entry = entries[blockIdx.y];
  int part = blockIdx.x;
  withRow(reinterpret_cast<const void*>(entry.row), entry.adjusted(), cols, [&](auto row) {
    double time;
    int id = drawPart(row, entry, state, part, time);
    if (threadIdx.x == 0) {
      drawn[i64(blockIdx.y) * gridDim.x + part] = Drawn{time, id, 0};
    }
  });
}

// The token of what was drawn from parts, in every block of an entry, and its rank in the row as
// the model gave it; blocks as those of draw.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    settle(const Entry* entries, int cols, const State* states, const Drawn* drawn) {
  const Entry& entry = entries[blockIdx.y];
  Result* result = reinterpret_cast<Result*>(entry.result);
  bool draws = (states[blockIdx.y].todo & DRAW) != 0;
  if (result->status != 0 || (!draws && entry.logprobs < 0)) {
    return;
  }
  int token = -1;
  if (draws) {
    const Drawn* own = drawn + i64(blockIdx.y) * gridDim.x;
    double time = infinity();
    for (int i = threadIdx.x; i < gridDim.x; i += SCAN_THREADS) {
      // Parts come in the order of ids.
      if (own[i].time < time) {
        time = own[i].time;
        token = own[i].id;
      }
    }
    token = winner(time, token);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      result->token = token;
    }
  } else {
    token = result->token;
  }
  if (entry.logprobs < 0) {
    return;
  }
  Row<Act> row(reinterpret_cast<const void*>(entry.raw), cols);
  float logit = row.at(token);
  u64 target = keyOf(rankOf(logit), token);
  int before = 0;
#pragma unroll
  for (int j = 0; j < Row<Act>::EACH; j++) {
    int vector = row.vectorOf(blockIdx.x, threadIdx.x, j);
    float v[Row<Act>::VECTOR];
    row.load(vector, v);
#pragma unroll
    for (int i = 0; i < Row<Act>::VECTOR; i++) {
      int id = row.first(vector) + i;
      before += row.has(id) && keyOf(rankOf(v[i]), id) < target;
    }
  }
  before = blockTotal(before);
  if (threadIdx.x == 0) {
    if (before > 0) {
      atomicAdd(&result->before, before);
    }
    if (blockIdx.x == 0) {
      result->logit = logit;
    }
  }
}
