// What is done to rows element by element: embedding, adding, gathering, the gated activation and
// the transform of logits. A thread takes one group of 16 bytes; blockIdx.x counts the groups of a
// row by blockDim.x, blockIdx.y the rows, in strides of gridDim.y.
#include "halcyon.cuh"

// Calls body(row, first column of a group) for each group of each row.
template <typename Body>
__device__ __forceinline__ void forGroups(int rows, int cols, Body body) {
  i64 col = (i64(blockIdx.x) * blockDim.x + threadIdx.x) * GROUP;
  if (col < cols) {
    for (int row = blockIdx.y; row < rows; row += gridDim.y) {
      body(row, col);
    }
  }
}

template <typename W>
__device__ __forceinline__ void embedRows(
    const W* table, const int* ids, float scale, int rows, int cols, Act* out) {
  bool whole = cols % GROUP == 0 && aligned16(table) && aligned16(out);
  forGroups(rows, cols, [&](int row, i64 col) {
    float x[GROUP];
    loadGroup(table + i64(ids[row]) * cols, col, cols, whole, x);
#pragma unroll
    for (int j = 0; j < GROUP; j++) {
      x[j] *= scale;
    }
    storeGroup(out + i64(row) * cols, col, cols, whole, x);
  });
}

extern "C" __global__ void embed(
    const Act* table, const int* ids, float scale, int rows, int cols, Act* out) {
  embedRows(table, ids, scale, rows, cols, out);
}

extern "C" __global__ void embed_f32(
    const float* table, const int* ids, float scale, int rows, int cols, Act* out) {
  embedRows(table, ids, scale, rows, cols, out);
}

extern "C" __global__ void add(Act* residual, const Act* delta, int rows, int cols) {
  bool whole = cols % GROUP == 0 && aligned16(residual) && aligned16(delta);
  forGroups(rows, cols, [&](int row, i64 col) {
    float x[GROUP];
    float y[GROUP];
    loadGroup(residual + i64(row) * cols, col, cols, whole, x);
    loadGroup(delta + i64(row) * cols, col, cols, whole, y);
#pragma unroll
    for (int j = 0; j < GROUP; j++) {
      x[j] += y[j];
    }
    storeGroup(residual + i64(row) * cols, col, cols, whole, x);
  });
}

// bias is a row of float or of Act.
template <typename B>
__device__ __forceinline__ void addBiasRows(Act* x, const B* bias, int rows, int cols) {
  bool whole = cols % GROUP == 0 && aligned16(x) && aligned16(bias);
  forGroups(rows, cols, [&](int row, i64 col) {
    float v[GROUP];
    float b[GROUP];
    loadGroup(x + i64(row) * cols, col, cols, whole, v);
    loadGroup(bias, col, cols, whole, b);
#pragma unroll
    for (int j = 0; j < GROUP; j++) {
      v[j] += b[j];
    }
    storeGroup(x + i64(row) * cols, col, cols, whole, v);
  });
}

extern "C" __global__ void add_bias(Act* x, const Act* bias, int rows, int cols) {
  addBiasRows(x, bias, rows, cols);
}

extern "C" __global__ void add_bias_f32(Act* x, const float* bias, int rows, int cols) {
  addBiasRows(x, bias, rows, cols);
}

extern "C" __global__ void gather_rows(
    const Act* x, const int* indices, int count, int cols, Act* out) {
  bool whole = cols % GROUP == 0 && aligned16(x) && aligned16(out);
  forGroups(count, cols, [&](int row, i64 col) {
    float v[GROUP];
    loadGroup(x + i64(indices[row]) * cols, col, cols, whole, v);
    storeGroup(out + i64(row) * cols, col, cols, whole, v);
  });
}

struct Silu {
  __device__ static float apply(float x) { return x / (1.0f + expf(-x)); }
};

struct Gelu {
  // erfc keeps its precision far down the left tail, where 1 + erf has none.
  __device__ static float apply(float x) { return 0.5f * x * erfcf(x * -0.70710678f); }
};

struct GeluTanh {
  __device__ static float apply(float x) {
    // (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), which keeps its precision where tanh is near -1.
    float u = 0.79788456f * (x + 0.044715f * x * x * x);
    return x / (1.0f + expf(-2.0f * u));
  }
};

template <typename F>
__device__ __forceinline__ void gatedRows(const Act* gateUp, int rows, int inner, Act* out) {
  bool whole = inner % GROUP == 0 && aligned16(gateUp) && aligned16(out);
  forGroups(rows, inner, [&](int row, i64 col) {
    float gate[GROUP];
    float up[GROUP];
    const Act* from = gateUp + i64(row) * 2 * inner;
    loadGroup(from, col, inner, whole, gate);
    loadGroup(from + inner, col, inner, whole, up);
#pragma unroll
    for (int j = 0; j < GROUP; j++) {
      gate[j] = F::apply(gate[j]) * up[j];
    }
    storeGroup(out + i64(row) * inner, col, inner, whole, gate);
  });
}

extern "C" __global__ void gated_silu(const Act* gateUp, int rows, int inner, Act* out) {
  gatedRows<Silu>(gateUp, rows, inner, out);
}

extern "C" __global__ void gated_gelu(const Act* gateUp, int rows, int inner, Act* out) {
  gatedRows<Gelu>(gateUp, rows, inner, out);
}

extern "C" __global__ void gated_gelu_tanh(const Act* gateUp, int rows, int inner, Act* out) {
  gatedRows<GeluTanh>(gateUp, rows, inner, out);
}

// softcap 0 for none.
extern "C" __global__ void transform_logits(
    Act* logits, int rows, int cols, float scale, float softcap) {
  bool whole = cols % GROUP == 0 && aligned16(logits);
  forGroups(rows, cols, [&](int row, i64 col) {
    float x[GROUP];
    loadGroup(logits + i64(row) * cols, col, cols, whole, x);
#pragma unroll
    for (int j = 0; j < GROUP; j++) {
      x[j] *= scale;
      if (softcap != 0.0f) {
        x[j] = softcap * tanhf(x[j] / softcap);
      }
    }
    storeGroup(logits + i64(row) * cols, col, cols, whole, x);
  });
}
