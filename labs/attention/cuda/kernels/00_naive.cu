// O = softmax(scale Q Kᵀ) V, one block a query row, in double precision.
// Layout: q, k, v, o are B,H,S,D row-major, 16-bit. With a causal mask query i sees the keys 0..i.
// Serves every S. It is the oracle for the rest of the ladder, so it is accurate before it is quick: the keys are
// visited twice, first for the largest score, then for the weights, and everything is a double until the end.
// Nothing is stored but kThreads weights at a time. With WS_ORACLE the output is float.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ptx/math.cuh"

#ifndef WS_ORACLE
#define WS_ORACLE 0
#endif

constexpr int kThreads = BLOCK_THREADS;
constexpr int kHeadDim = D;
constexpr bool kCausal = CAUSAL;
constexpr int kParts = kThreads / kHeadDim; // threads that share one element of the output
constexpr int kVector = 8;                  // elements in a 16-byte load
static_assert(kThreads % kHeadDim == 0, "the threads are a whole number of output rows");
static_assert((kThreads & (kThreads - 1)) == 0, "the reductions halve the threads");
static_assert(kHeadDim % kVector == 0, "a row is a whole number of 16-byte vectors");

#if BF16
typedef __nv_bfloat16 Element;
__device__ __forceinline__ double to_double(Element x) { return __bfloat162float(x); }
__device__ __forceinline__ void store(Element *at, double x) { *at = __double2bfloat16(x); }
#else
typedef __half Element;
__device__ __forceinline__ double to_double(Element x) { return __half2float(x); }
__device__ __forceinline__ void store(Element *at, double x) { *at = __double2half(x); }
#endif
__device__ __forceinline__ void store(float *at, double x) { *at = static_cast<float>(x); }

#if WS_ORACLE
typedef float Output;
#else
typedef Element Output;
#endif

struct alignas(16) Vector {
    Element elements[kVector];
};

struct SharedPlan {
    double query[kHeadDim]; // times scale
    double weights[kThreads];
    double reduced[kThreads];
};

// --- Score and reductions ------------------------------------------------------------------------------------

__device__ __forceinline__ double dot(const double *query, const Element *key) {
    double score = 0;
#pragma unroll 4
    for (int i = 0; i < kHeadDim; i += kVector) {
        Vector vector = *reinterpret_cast<const Vector *>(key + i);
#pragma unroll
        for (int j = 0; j < kVector; j++) {
            score += query[i + j] * to_double(vector.elements[j]);
        }
    }
    return score;
}

struct Max {
    __device__ double operator()(double a, double b) const { return a > b ? a : b; }
};

struct Sum {
    __device__ double operator()(double a, double b) const { return a + b; }
};

// Combines what threads i, i + stop, i + 2 stop, ... give; thread i < stop gets its result, in a fixed order.
template <typename Combine>
__device__ double reduce(double *reduced, double value, int stop, Combine combine) {
    reduced[threadIdx.x] = value;
    __syncthreads();
    for (int half = kThreads / 2; half >= stop; half /= 2) {
        if (threadIdx.x < half) {
            reduced[threadIdx.x] = combine(reduced[threadIdx.x], reduced[threadIdx.x + half]);
        }
        __syncthreads();
    }
    double result = reduced[threadIdx.x % stop];
    __syncthreads();
    return result;
}

// --- Kernel --------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(kThreads)
    attention_fwd(const Element *q, const Element *k, const Element *v, Output *o, int b, int h, int s, int d_runtime,
                  int causal_runtime, int bf16_runtime, float scale) {
    __shared__ SharedPlan shared;
    int query_row = blockIdx.x;
    size_t head_start = (static_cast<size_t>(blockIdx.z) * h + blockIdx.y) * s * kHeadDim;
    const Element *head_k = k + head_start; // (s, D)
    const Element *head_v = v + head_start; // (s, D)
    size_t query_start = head_start + static_cast<size_t>(query_row) * kHeadDim;
    int n_keys = kCausal ? query_row + 1 : s;

    for (int i = threadIdx.x; i < kHeadDim; i += kThreads) {
        shared.query[i] = static_cast<double>(scale) * to_double(q[query_start + i]);
    }
    __syncthreads();

    // Largest score.
    double largest = -ws::infinity();
    for (int key = threadIdx.x; key < n_keys; key += kThreads) {
        largest = Max()(largest, dot(shared.query, head_k + static_cast<size_t>(key) * kHeadDim));
    }
    largest = reduce(shared.reduced, largest, 1, Max());

    // Weights, one key a thread; then the output, one element (and one part of the keys) a thread.
    int dim = threadIdx.x % kHeadDim;
    int part = threadIdx.x / kHeadDim;
    double sum = 0;
    double out = 0;
    for (int first_key = 0; first_key < n_keys; first_key += kThreads) {
        int n_here = min(kThreads, n_keys - first_key);
        if (threadIdx.x < n_here) {
            const Element *key = head_k + static_cast<size_t>(first_key + threadIdx.x) * kHeadDim;
            double weight = exp(dot(shared.query, key) - largest);
            shared.weights[threadIdx.x] = weight;
            sum += weight;
        }
        __syncthreads();
#pragma unroll 8
        for (int key = part; key < n_here; key += kParts) {
            out += shared.weights[key] * to_double(head_v[static_cast<size_t>(first_key + key) * kHeadDim + dim]);
        }
        __syncthreads();
    }
    sum = reduce(shared.reduced, sum, 1, Sum());
    out = reduce(shared.reduced, out, kHeadDim, Sum());

    if (threadIdx.x < kHeadDim) {
        store(o + query_start + dim, out / sum);
    }
}
