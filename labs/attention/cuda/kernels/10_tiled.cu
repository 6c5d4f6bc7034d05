// O = softmax(scale Q Kᵀ) V, one block a tile of queries, with an online softmax.
// Layout: q, k, v, o are B,H,S,D row-major, 16-bit. With a causal mask query i sees the keys 0..i. Serves every S.
// Changed since 00_naive: a block holds BLOCK_M queries and walks the keys once, in tiles of BLOCK_N that it keeps
// in shared memory, so K and V are read BLOCK_M times less often. The largest score and the sum are kept as they
// stand after each tile, and what was summed before is corrected when the maximum moves. Floats, not doubles.
// One thread does a row's softmax from end to end, while the rest of the block waits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ptx/math.cuh"

constexpr int kBlockM = BLOCK_M;
constexpr int kBlockN = BLOCK_N;
constexpr int kThreads = BLOCK_THREADS;
constexpr int kHeadDim = D;
constexpr bool kCausal = CAUSAL;
constexpr int kPairs = kHeadDim / 2;
constexpr int kOutputs = kBlockM * kPairs / kThreads; // pairs of output elements a thread
static_assert(kThreads % kPairs == 0, "a thread keeps its columns of the output");
static_assert(kBlockM * kPairs % kThreads == 0, "every thread has the same number of outputs");
static_assert(kBlockM <= kThreads, "a row has a thread for its softmax");

#if BF16
typedef __nv_bfloat16 Element;
typedef __nv_bfloat162 Pair;
__device__ __forceinline__ float2 to_floats(Pair x) { return __bfloat1622float2(x); }
__device__ __forceinline__ Pair to_pair(float x, float y) { return __floats2bfloat162_rn(x, y); }
#else
typedef __half Element;
typedef __half2 Pair;
__device__ __forceinline__ float2 to_floats(Pair x) { return __half22float2(x); }
__device__ __forceinline__ Pair to_pair(float x, float y) { return __floats2half2_rn(x, y); }
#endif

struct SharedPlan {
    Pair q[kBlockM][kPairs];
    Pair k[kBlockN][kPairs + 1]; // lanes read the same pair of different keys: the odd stride spreads the banks
    Pair v[kBlockN][kPairs];
    float weights[kBlockM][kBlockN + 1]; // scores first, in powers of two
    float correction[kBlockM];
    float sum[kBlockM];
};

// --- Tiles ---------------------------------------------------------------------------------------------------

// Copies rows `first` to `first + kRows` of a head, zeros where the head has ended.
template <int kRows, int kStride>
__device__ __forceinline__ void load(Pair (&tile)[kRows][kStride], const Pair *head, int first, int s) {
    for (int i = threadIdx.x; i < kRows * kPairs; i += kThreads) {
        int row = i / kPairs;
        int pair = i % kPairs;
        tile[row][pair] = first + row < s ? head[static_cast<size_t>(first + row) * kPairs + pair] : to_pair(0, 0);
    }
}

__device__ __forceinline__ float dot(const Pair *query, const Pair *key) {
    float score = 0;
#pragma unroll 8
    for (int i = 0; i < kPairs; i++) {
        float2 a = to_floats(query[i]);
        float2 b = to_floats(key[i]);
        score += a.x * b.x;
        score += a.y * b.y;
    }
    return score;
}

// --- Kernel --------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(kThreads)
    attention_fwd(const Pair *q, const Pair *k, const Pair *v, Pair *o, int b, int h, int s, int d_runtime,
                  int causal_runtime, int bf16_runtime, float scale) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    SharedPlan &shared = *reinterpret_cast<SharedPlan *>(shared_bytes);

    int first_query = blockIdx.x * kBlockM;
    size_t head_start = (static_cast<size_t>(blockIdx.z) * h + blockIdx.y) * s * kPairs;
    int n_keys = kCausal ? min(s, first_query + kBlockM) : s;
    int pair = threadIdx.x % kPairs;
    int first_row = threadIdx.x / kPairs;
    constexpr int kRowStep = kThreads / kPairs;

    float largest = -ws::infinity(); // of row threadIdx.x
    float sum = 0;
    float2 out[kOutputs] = {}; // of rows first_row, first_row + kRowStep, ...
    load(shared.q, q + head_start, first_query, s);

    for (int first_key = 0; first_key < n_keys; first_key += kBlockN) {
        load(shared.k, k + head_start, first_key, s);
        load(shared.v, v + head_start, first_key, s);
        __syncthreads();

        // Scores. Key 0 is seen by every query and comes in the first tile, so that a maximum is never of nothing.
        for (int i = threadIdx.x; i < kBlockM * kBlockN; i += kThreads) {
            int row = i / kBlockN;
            int key = i % kBlockN;
            bool seen = first_key + key < s && (!kCausal || first_key + key <= first_query + row);
            float score = dot(shared.q[row], shared.k[key]) * (scale * ws::kLog2E);
            shared.weights[row][key] = seen ? score : -ws::infinity();
        }
        __syncthreads();

        // Softmax, a row a thread.
        if (threadIdx.x < kBlockM) {
            float *row = shared.weights[threadIdx.x];
            float before = largest;
            for (int key = 0; key < kBlockN; key++) {
                largest = fmaxf(largest, row[key]);
            }
            float correction = exp2f(before - largest);
            sum *= correction;
            for (int key = 0; key < kBlockN; key++) {
                row[key] = exp2f(row[key] - largest);
                sum += row[key];
            }
            shared.correction[threadIdx.x] = correction;
        }
        __syncthreads();

        // Output.
        for (int i = 0; i < kOutputs; i++) {
            float correction = shared.correction[first_row + i * kRowStep];
            out[i].x *= correction;
            out[i].y *= correction;
        }
        for (int key = 0; key < kBlockN; key++) {
            float2 value = to_floats(shared.v[key][pair]);
            for (int i = 0; i < kOutputs; i++) {
                float weight = shared.weights[first_row + i * kRowStep][key];
                out[i].x += weight * value.x;
                out[i].y += weight * value.y;
            }
        }
        __syncthreads();
    }

    if (threadIdx.x < kBlockM) {
        shared.sum[threadIdx.x] = sum;
    }
    __syncthreads();
    for (int i = 0; i < kOutputs; i++) {
        int row = first_row + i * kRowStep;
        if (first_query + row < s) {
            float factor = 1.0f / shared.sum[row];
            o[head_start + static_cast<size_t>(first_query + row) * kPairs + pair] =
                to_pair(out[i].x * factor, out[i].y * factor);
        }
    }
}
