// RMS and layer norms. A block takes a row; its threads keep their first groups in registers and
// read what is beyond again.
#include "halcyon.cuh"

// Groups of a thread in registers: with 512 threads, rows of 16,384 half-precision elements.
constexpr int KEPT = 4;

// A row as the threads of a block share it out.
struct Row {
  i64 cols;
  bool whole;

  __device__ i64 first(int group) const {
    return (i64(group) * blockDim.x + threadIdx.x) * GROUP;
  }
};

template <typename W>
__device__ __forceinline__ void writeNormed(
    const Row& row, i64 col, const float (&x)[GROUP], float mean, float factor, const W* weight,
    float weightOffset, Act* out) {
  float w[GROUP];
  loadGroup(weight, col, row.cols, row.whole, w);
  float y[GROUP];
#pragma unroll
  for (int j = 0; j < GROUP; j++) {
    y[j] = (x[j] - mean) * factor * (w[j] + weightOffset);
  }
  storeGroup(out, col, row.cols, row.whole, y);
}

// Reads a group of the row; with ADD, delta is added to it first, and the sum written and used as
// it was rounded.
template <bool ADD>
__device__ __forceinline__ void readGroup(
    const Row& row, i64 col, Act* x, const Act* delta, float (&v)[GROUP]) {
  loadGroup(x, col, row.cols, row.whole, v);
  if (ADD) {
    float d[GROUP];
    loadGroup(delta, col, row.cols, row.whole, d);
#pragma unroll
    for (int j = 0; j < GROUP; j++) {
      v[j] = toFloat(fromFloat<Act>(v[j] + d[j]));
    }
    storeGroup(x, col, row.cols, row.whole, v);
  }
}

__device__ __forceinline__ float squares(const float (&v)[GROUP]) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < GROUP; j++) {
    sum += v[j] * v[j];
  }
  return sum;
}

__device__ __forceinline__ float total(const float (&v)[GROUP]) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < GROUP; j++) {
    sum += v[j];
  }
  return sum;
}

// Of a ragged row the elements beyond its end don't count.
__device__ __forceinline__ float squaresAround(
    const Row& row, i64 col, const float (&v)[GROUP], float mean) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < GROUP; j++) {
    float d = v[j] - mean;
    sum += col + j < row.cols ? d * d : 0.0f;
  }
  return sum;
}

template <typename W, bool ADD>
__device__ __forceinline__ void rmsNormRow(
    Act* x, const Act* delta, const W* weight, float weightOffset, float eps, int cols, Act* out) {
  i64 at = i64(blockIdx.x) * cols;
  x += at;
  out += at;
  delta = ADD ? delta + at : delta;
  Row row{cols, cols % GROUP == 0 && aligned16(x) && aligned16(out) && aligned16(weight) &&
                    (!ADD || aligned16(delta))};
  float kept[KEPT][GROUP];
  float sum = 0.0f;
#pragma unroll
  for (int g = 0; g < KEPT; g++) {
    if (row.first(g) < cols) {
      readGroup<ADD>(row, row.first(g), x, delta, kept[g]);
      sum += squares(kept[g]);
    }
  }
  for (int g = KEPT; row.first(g) < cols; g++) {
    float v[GROUP];
    readGroup<ADD>(row, row.first(g), x, delta, v);
    sum += squares(v);
  }
  float factor = rsqrtf(blockSum(sum) / cols + eps);
#pragma unroll
  for (int g = 0; g < KEPT; g++) {
    if (row.first(g) < cols) {
      writeNormed(row, row.first(g), kept[g], 0.0f, factor, weight, weightOffset, out);
    }
  }
  for (int g = KEPT; row.first(g) < cols; g++) {
    float v[GROUP];
    loadGroup(x, row.first(g), cols, row.whole, v);
    writeNormed(row, row.first(g), v, 0.0f, factor, weight, weightOffset, out);
  }
}

template <typename W>
__device__ __forceinline__ void layerNormRow(
    const Act* x, const W* weight, float eps, int cols, Act* out) {
  i64 at = i64(blockIdx.x) * cols;
  x += at;
  out += at;
  Row row{cols, cols % GROUP == 0 && aligned16(x) && aligned16(out) && aligned16(weight)};
  float kept[KEPT][GROUP];
  float sum = 0.0f;
#pragma unroll
  for (int g = 0; g < KEPT; g++) {
    if (row.first(g) < cols) {
      loadGroup(x, row.first(g), cols, row.whole, kept[g]);
      sum += total(kept[g]);
    }
  }
  for (int g = KEPT; row.first(g) < cols; g++) {
    float v[GROUP];
    loadGroup(x, row.first(g), cols, row.whole, v);
    sum += total(v);
  }
  float mean = blockSum(sum) / cols;
  float spread = 0.0f;
#pragma unroll
  for (int g = 0; g < KEPT; g++) {
    if (row.first(g) < cols) {
      spread += squaresAround(row, row.first(g), kept[g], mean);
    }
  }
  for (int g = KEPT; row.first(g) < cols; g++) {
    float v[GROUP];
    loadGroup(x, row.first(g), cols, row.whole, v);
    spread += squaresAround(row, row.first(g), v, mean);
  }
  float factor = rsqrtf(blockSum(spread) / cols + eps);
#pragma unroll
  for (int g = 0; g < KEPT; g++) {
    if (row.first(g) < cols) {
      writeNormed(row, row.first(g), kept[g], mean, factor, weight, 0.0f, out);
    }
  }
  for (int g = KEPT; row.first(g) < cols; g++) {
    float v[GROUP];
    loadGroup(x, row.first(g), cols, row.whole, v);
    writeNormed(row, row.first(g), v, mean, factor, weight, 0.0f, out);
  }
}

// A warp takes a head of cols elements; heads lie behind one another from firstCol in each row.
template <typename W>
__device__ __forceinline__ void rmsNormHead(
    Act* x, int rowCols, int firstCol, int heads, const W* weight, float weightOffset, float eps,
    int cols, int rows) {
  i64 head = (i64(blockIdx.x) * blockDim.x + threadIdx.x) >> 5;
  if (head >= i64(rows) * heads) {
    return;
  }
  Act* from = x + head / heads * rowCols + firstCol + head % heads * cols;
  bool whole = cols % GROUP == 0 && aligned16(from) && aligned16(weight);
  int lane = threadIdx.x & 31;
  float sum = 0.0f;
  for (i64 col = lane * GROUP; col < cols; col += 32 * GROUP) {
    float v[GROUP];
    loadGroup(from, col, cols, whole, v);
    sum += squares(v);
  }
  float factor = rsqrtf(warpSum(sum) / cols + eps);
  Row row{cols, whole};
  for (i64 col = lane * GROUP; col < cols; col += 32 * GROUP) {
    float v[GROUP];
    loadGroup(from, col, cols, whole, v);
    writeNormed(row, col, v, 0.0f, factor, weight, weightOffset, from);
  }
}

#define NORMS(SUFFIX, W)                                                                          \
  extern "C" __global__ void rms_norm##SUFFIX(                                                    \
      Act* x, const W* weight, float weightOffset, float eps, int cols, Act* out) {               \
    rmsNormRow<W, false>(x, nullptr, weight, weightOffset, eps, cols, out);                       \
  }                                                                                               \
  extern "C" __global__ void add_rms_norm##SUFFIX(                                                \
      Act* residual, const Act* delta, const W* weight, float weightOffset, float eps, int cols,  \
      Act* out) {                                                                                 \
    rmsNormRow<W, true>(residual, delta, weight, weightOffset, eps, cols, out);                   \
  }                                                                                               \
  extern "C" __global__ void layer_norm##SUFFIX(                                                  \
      const Act* x, const W* weight, float eps, int cols, Act* out) {                             \
    layerNormRow<W>(x, weight, eps, cols, out);                                                   \
  }                                                                                               \
  extern "C" __global__ void rms_norm_heads##SUFFIX(                                              \
      Act* x, int rowCols, int firstCol, int heads, const W* weight, float weightOffset,          \
      float eps, int cols, int rows) {                                                            \
    rmsNormHead<W>(x, rowCols, firstCol, heads, weight, weightOffset, eps, cols, rows);           \
  }

NORMS(, Act)
NORMS(_f32, float)
