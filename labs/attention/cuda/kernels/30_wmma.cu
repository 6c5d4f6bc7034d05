// O = softmax(scale Q Kᵀ) V, both products on the tensor cores through the WMMA API.
// Layout: q, k, v, o are B,H,S,D row-major, 16-bit. With a causal mask query i sees the keys 0..i. Serves every S.
// Changed since 20_warp: a warp has 16 rows, and its two products are 16 x 16 x 16 fragments. The API does not say
// which lane holds which element, so the scores pass through shared memory to become weights, two lanes a row. The
// output stays in fragments all the same: a fragment that was loaded with row numbers tells each element's row,
// and so what to correct it by. The loads are the API's too: ldmatrix for f16, but plain 4-byte loads for bf16.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include "ptx/math.cuh"

using namespace nvcuda;

constexpr int kBlockN = BLOCK_N;
constexpr int kWarps = NUM_WARPS;
constexpr int kHeadDim = D;
constexpr bool kCausal = CAUSAL;

constexpr int kTile = 16; // each side of a fragment
constexpr int kThreads = kWarps * 32;
constexpr int kBlockM = kWarps * kTile;
constexpr int kPiece = 8; // elements in 16 bytes
constexpr int kPieces = kHeadDim / kPiece;
// Rows are padded by 16 or 32 bytes, so that neighbouring rows begin in different banks.
constexpr int kRowStride = kHeadDim + 8;
constexpr int kScoreStride = kBlockN + 8;
static_assert(kBlockN % 16 == 0, "a tile of keys is whole fragments");
static_assert(kBlockN * kPieces % kThreads == 0 && kBlockM * kPieces % kThreads == 0, "loads have no remainder");

#if BF16
typedef __nv_bfloat16 Element;
__device__ __forceinline__ Element to_element(float x) { return __float2bfloat16_rn(x); }
#else
typedef __half Element;
__device__ __forceinline__ Element to_element(float x) { return __float2half_rn(x); }
#endif

typedef wmma::fragment<wmma::matrix_a, kTile, kTile, kTile, Element, wmma::row_major> Left;
typedef wmma::fragment<wmma::matrix_b, kTile, kTile, kTile, Element, wmma::col_major> Keys;   // (D, key) of K
typedef wmma::fragment<wmma::matrix_b, kTile, kTile, kTile, Element, wmma::row_major> Values; // (key, D) of V
typedef wmma::fragment<wmma::accumulator, kTile, kTile, kTile, float> Sums;

// For each of a lane's elements of an output fragment, its row.
struct RowNumbers {
    int at[Sums::num_elements];
};

struct alignas(16) Piece {
    Element at[kPiece];
};

// What a warp keeps to itself.
struct WarpPlan {
    float scores[kTile][kScoreStride];
    Element weights[kTile][kScoreStride];
    float factors[kTile]; // of the rows of the output
};

struct SharedPlan {
    Element q[kBlockM][kRowStride];
    Element k[kBlockN][kRowStride];
    Element v[kBlockN][kRowStride];
    WarpPlan warps[kWarps];
};

// --- Steps ---------------------------------------------------------------------------------------------------

// Copies rows `first` to `first + kRows` of a head, zeros where the head has ended.
template <int kRows>
__device__ __forceinline__ void load(Element (&tile)[kRows][kRowStride], const Element *head, int first, int s) {
#pragma unroll
    for (int i = threadIdx.x; i < kRows * kPieces; i += kThreads) {
        int row = i / kPieces;
        int piece = i % kPieces;
        Piece zero = {};
        *reinterpret_cast<Piece *>(&tile[row][piece * kPiece]) =
            first + row < s ? reinterpret_cast<const Piece *>(head)[static_cast<size_t>(first + row) * kPieces + piece]
                            : zero;
    }
}

__device__ __forceinline__ void multiply_qk(WarpPlan &plan, const Left (&queries)[kHeadDim / kTile],
                                            const SharedPlan &shared) {
#pragma unroll
    for (int n = 0; n < kBlockN / kTile; n++) {
        Sums scores;
        wmma::fill_fragment(scores, 0.0f);
#pragma unroll
        for (int step = 0; step < kHeadDim / kTile; step++) {
            Keys keys;
            wmma::load_matrix_sync(keys, &shared.k[n * kTile][step * kTile], kRowStride);
            wmma::mma_sync(scores, queries[step], keys, scores);
        }
        wmma::store_matrix_sync(&plan.scores[0][n * kTile], scores, kScoreStride, wmma::mem_row_major);
    }
}

// Turns scores into weights, two lanes a row, each with every other group of 4 keys. `n_seen` is how many keys of
// the tile the row sees. Key 0 is seen by every query and comes in the first tile, so the maximum is finite from
// then on.
__device__ __forceinline__ void softmax(WarpPlan &plan, float &largest, float &sum, int lane, int n_seen,
                                        float factor) {
    int row = lane / 2;
    float weights[kBlockN / 2];
    float before = largest;
#pragma unroll
    for (int i = 0; i < kBlockN / 8; i++) {
        int key = (2 * i + lane % 2) * 4;
        float4 four = *reinterpret_cast<const float4 *>(&plan.scores[row][key]);
        weights[4 * i] = key < n_seen ? four.x * factor : -ws::infinity();
        weights[4 * i + 1] = key + 1 < n_seen ? four.y * factor : -ws::infinity();
        weights[4 * i + 2] = key + 2 < n_seen ? four.z * factor : -ws::infinity();
        weights[4 * i + 3] = key + 3 < n_seen ? four.w * factor : -ws::infinity();
    }
#pragma unroll
    for (int i = 0; i < kBlockN / 2; i++) {
        largest = fmaxf(largest, weights[i]);
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFF, largest, 1));
    float correction = ws::exp2_approx(before - largest);
    sum *= correction; // of this lane's keys alone
#pragma unroll
    for (int i = 0; i < kBlockN / 8; i++) {
        struct alignas(8) Four {
            Element at[4];
        } four;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float weight = ws::exp2_approx(weights[4 * i + j] - largest);
            sum += weight;
            four.at[j] = to_element(weight);
        }
        *reinterpret_cast<Four *>(&plan.weights[row][(2 * i + lane % 2) * 4]) = four;
    }
    if (lane % 2 == 0) {
        plan.factors[row] = correction;
    }
}

// Finds the rows by loading a fragment from a tile of row numbers.
__device__ __forceinline__ RowNumbers find_rows(WarpPlan &plan, int lane) {
    for (int i = lane; i < kTile * kTile; i += 32) {
        plan.scores[i / kTile][i % kTile] = static_cast<float>(i / kTile);
    }
    __syncwarp();
    Sums loaded;
    wmma::load_matrix_sync(loaded, &plan.scores[0][0], kScoreStride, wmma::mem_row_major);
    __syncwarp();
    RowNumbers rows;
#pragma unroll
    for (int i = 0; i < Sums::num_elements; i++) {
        rows.at[i] = static_cast<int>(loaded.x[i]);
    }
    return rows;
}

// Multiplies every row of the output by its factor.
__device__ __forceinline__ void scale_rows(Sums (&out)[kHeadDim / kTile], const RowNumbers &rows,
                                           const WarpPlan &plan) {
#pragma unroll
    for (int i = 0; i < Sums::num_elements; i++) {
        float factor = plan.factors[rows.at[i]];
#pragma unroll
        for (int n = 0; n < kHeadDim / kTile; n++) {
            out[n].x[i] *= factor;
        }
    }
}

__device__ __forceinline__ void multiply_pv(Sums (&out)[kHeadDim / kTile], const WarpPlan &plan,
                                            const SharedPlan &shared) {
#pragma unroll
    for (int step = 0; step < kBlockN / kTile; step++) {
        Left weights;
        wmma::load_matrix_sync(weights, &plan.weights[0][step * kTile], kScoreStride);
#pragma unroll
        for (int n = 0; n < kHeadDim / kTile; n++) {
            Values values;
            wmma::load_matrix_sync(values, &shared.v[step * kTile][n * kTile], kRowStride);
            wmma::mma_sync(out[n], weights, values, out[n]);
        }
    }
}

// --- Kernel --------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(kThreads)
    attention_fwd(const Element *q, const Element *k, const Element *v, Element *o, int b, int h, int s, int d_runtime,
                  int causal_runtime, int bf16_runtime, float scale) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    SharedPlan &shared = *reinterpret_cast<SharedPlan *>(shared_bytes);

    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int first_query = blockIdx.x * kBlockM;
    int warp_query = first_query + warp * kTile;
    size_t head_start = (static_cast<size_t>(blockIdx.z) * h + blockIdx.y) * s * kHeadDim;
    int n_keys = kCausal ? min(s, first_query + kBlockM) : s;
    int row_keys = kCausal ? min(s, warp_query + lane / 2 + 1) : s; // that this lane's row sees
    WarpPlan &plan = shared.warps[warp];

    RowNumbers rows = find_rows(plan, lane);

    // Queries.
    load(shared.q, q + head_start, first_query, s);
    __syncthreads();
    Left queries[kHeadDim / kTile];
    Sums out[kHeadDim / kTile];
#pragma unroll
    for (int i = 0; i < kHeadDim / kTile; i++) {
        wmma::load_matrix_sync(queries[i], &shared.q[warp * kTile][i * kTile], kRowStride);
        wmma::fill_fragment(out[i], 0.0f);
    }
    float largest = -ws::infinity(); // of row lane / 2, in powers of two
    float sum = 0.0f;

    for (int first_key = 0; first_key < n_keys; first_key += kBlockN) {
        __syncthreads(); // everybody is done with the tiles before
        load(shared.k, k + head_start, first_key, s);
        load(shared.v, v + head_start, first_key, s);
        __syncthreads();

        if (!kCausal || first_key < warp_query + kTile) { // else the mask hides the tile from the whole warp
            multiply_qk(plan, queries, shared);
            __syncwarp();
            softmax(plan, largest, sum, lane, row_keys - first_key, scale * ws::kLog2E);
            __syncwarp();
            scale_rows(out, rows, plan);
            multiply_pv(out, plan, shared);
            __syncwarp(); // the weights and factors have been read
        }
    }

    // Divide by the sums, and store one fragment after the other through shared memory.
    sum += __shfl_xor_sync(0xFFFFFFFF, sum, 1);
    if (lane % 2 == 0) {
        plan.factors[lane / 2] = 1.0f / sum;
    }
    __syncwarp();
    scale_rows(out, rows, plan);
    int query = warp_query + lane / 2;
#pragma unroll
    for (int n = 0; n < kHeadDim / kTile; n++) {
        wmma::store_matrix_sync(&plan.scores[0][0], out[n], kScoreStride, wmma::mem_row_major);
        __syncwarp();
        if (query < s) {
            Piece piece;
#pragma unroll
            for (int i = 0; i < kPiece; i++) {
                piece.at[i] = to_element(plan.scores[lane / 2][lane % 2 * kPiece + i]);
            }
            *reinterpret_cast<Piece *>(o + head_start + static_cast<size_t>(query) * kHeadDim + n * kTile +
                                       lane % 2 * kPiece) = piece;
        }
        __syncwarp();
    }
}
