// O = softmax(scale Q Kᵀ) V, a few query rows a warp.
// Layout: q, k, v, o are B,H,S,D row-major, 16-bit. With a causal mask query i sees the keys 0..i. Serves every S.
// Changed since 10_tiled: a row belongs to one warp from its scores to its output. In the scores a lane is a key, so
// a maximum is five shuffles, and no thread works alone; in the output a lane is a few columns. All of a warp's rows
// go together, so each vector of K or V that it loads serves all of them. Loads are VEC_WIDTH elements wide.
// What one warp writes only that warp reads, so SYNC_POLICY may be lighter than a barrier of the block: 0 is
// __syncthreads, 1 is __syncwarp, 2 passes the weights by shuffles and needs neither. The tiles of K and V are
// everybody's, and keep their two barriers in every policy: the race of a lighter barrier there is no speed-up.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ptx/math.cuh"

constexpr int kBlockM = BLOCK_M;
constexpr int kBlockN = BLOCK_N;
constexpr int kWarps = NUM_WARPS;
constexpr int kVector = VEC_WIDTH;
constexpr int kHeadDim = D;
constexpr bool kCausal = CAUSAL;
enum class SyncPolicy { kBlock = 0, kWarp = 1, kShuffle = 2 };
constexpr SyncPolicy kSyncPolicy = static_cast<SyncPolicy>(SYNC_POLICY);

constexpr int kThreads = kWarps * 32;
constexpr int kRows = kBlockM / kWarps;       // of a warp
constexpr int kKeys = kBlockN / 32;           // of a lane, 32 apart
constexpr int kColumns = kHeadDim / 32;       // of a lane, adjacent
constexpr int kVectors = kHeadDim / kVector;  // of a row
constexpr unsigned kAllLanes = 0xFFFFFFFF;
static_assert(kBlockM % kWarps == 0, "every warp has the same number of rows");
static_assert(kBlockN % 32 == 0, "every lane has the same number of keys");
static_assert(kVector == 2 || kVector == 4 || kVector == 8, "a load is 4, 8 or 16 bytes");
static_assert(kBlockN * kVectors % kThreads == 0, "loads of a tile have no remainder");

#if BF16
typedef __nv_bfloat16 Element;
__device__ __forceinline__ float to_float(Element x) { return __bfloat162float(x); }
__device__ __forceinline__ Element to_element(float x) { return __float2bfloat16_rn(x); }
#else
typedef __half Element;
__device__ __forceinline__ float to_float(Element x) { return __half2float(x); }
__device__ __forceinline__ Element to_element(float x) { return __float2half_rn(x); }
#endif

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
    T at[kCount];
};
typedef Pack<Element, kVector> Vector;
typedef Pack<Element, kColumns> Columns;
typedef Pack<float, 4> Floats;

struct SharedPlan {
    float q[kBlockM][kHeadDim];        // times scale and log2 e
    float weights[kBlockM][kBlockN];   // not used when they pass by shuffles
    Vector k[kBlockN][kVectors + 1];   // lanes read one vector each, of different keys: padding spreads the banks
    Vector v[kBlockN][kVectors];
};

__device__ __forceinline__ Vector load_row(const Element *head, int row, int vector, int s) {
    Vector zero = {};
    return row < s ? reinterpret_cast<const Vector *>(head)[static_cast<size_t>(row) * kVectors + vector] : zero;
}

// --- One warp's rows against one tile ------------------------------------------------------------------------

struct Rows {
    float largest[kRows];
    float sum[kRows];              // of this lane's keys alone
    float out[kRows][kColumns];
};

typedef float Scores[kRows][kKeys];

__device__ __forceinline__ void score(Scores &scores, const SharedPlan &shared, int first_row, int lane) {
#pragma unroll
    for (int i = 0; i < kRows * kKeys; i++) {
        scores[i / kKeys][i % kKeys] = 0.0f;
    }
#pragma unroll 2
    for (int vector = 0; vector < kVectors; vector++) {
        Vector key[kKeys];
#pragma unroll
        for (int i = 0; i < kKeys; i++) {
            key[i] = shared.k[lane + i * 32][vector];
        }
#pragma unroll
        for (int row = 0; row < kRows; row++) {
            const float *query = &shared.q[first_row + row][vector * kVector]; // the same for all lanes
#pragma unroll
            for (int j = 0; j < kVector; j++) {
#pragma unroll
                for (int i = 0; i < kKeys; i++) {
                    scores[row][i] += query[j] * to_float(key[i].at[j]);
                }
            }
        }
    }
}

// Turns scores, in powers of two, into weights. Key 0 is seen by every query and comes in the first tile, so the
// maximum is finite from then on.
__device__ __forceinline__ void softmax(Scores &scores, Rows &rows, int first_query, int first_key, int s) {
#pragma unroll
    for (int row = 0; row < kRows; row++) {
        int n_seen = (kCausal ? min(s, first_query + row + 1) : s) - first_key;
        float largest = rows.largest[row];
#pragma unroll
        for (int i = 0; i < kKeys; i++) {
            scores[row][i] = i * 32 < n_seen ? scores[row][i] : -ws::infinity();
            largest = fmaxf(largest, scores[row][i]);
        }
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) {
            largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, distance));
        }
        float correction = ws::exp2_approx(rows.largest[row] - largest);
        rows.largest[row] = largest;
        rows.sum[row] *= correction;
#pragma unroll
        for (int i = 0; i < kKeys; i++) {
            scores[row][i] = ws::exp2_approx(scores[row][i] - largest);
            rows.sum[row] += scores[row][i];
        }
#pragma unroll
        for (int column = 0; column < kColumns; column++) {
            rows.out[row][column] *= correction;
        }
    }
}

__device__ __forceinline__ Columns load_columns(const SharedPlan &shared, int key, int lane) {
    return reinterpret_cast<const Columns *>(shared.v[key])[lane];
}

__device__ __forceinline__ void add(Rows &rows, int row, float weight, const Columns &value) {
#pragma unroll
    for (int column = 0; column < kColumns; column++) {
        rows.out[row][column] += weight * to_float(value.at[column]);
    }
}

__device__ __forceinline__ void accumulate_by_shuffles(Rows &rows, const Scores &weights, const SharedPlan &shared,
                                                       int lane) {
#pragma unroll
    for (int i = 0; i < kKeys; i++) {
#pragma unroll 4
        for (int from = 0; from < 32; from++) {
            Columns value = load_columns(shared, i * 32 + from, lane);
#pragma unroll
            for (int row = 0; row < kRows; row++) {
                add(rows, row, __shfl_sync(kAllLanes, weights[row][i], from), value);
            }
        }
    }
}

__device__ __forceinline__ void accumulate(Rows &rows, const SharedPlan &shared, int first_row, int lane) {
#pragma unroll 2
    for (int key = 0; key < kBlockN; key += 4) {
        Columns values[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            values[i] = load_columns(shared, key + i, lane);
        }
#pragma unroll
        for (int row = 0; row < kRows; row++) {
            Floats weights = *reinterpret_cast<const Floats *>(&shared.weights[first_row + row][key]);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                add(rows, row, weights.at[i], values[i]);
            }
        }
    }
}

__device__ __forceinline__ void sync_weights() {
    if constexpr (kSyncPolicy == SyncPolicy::kBlock) {
        __syncthreads();
    } else {
        __syncwarp();
    }
}

// --- Kernel --------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(kThreads)
    attention_fwd(const Element *q, const Element *k, const Element *v, Element *o, int b, int h, int s, int d_runtime,
                  int causal_runtime, int bf16_runtime, float scale) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    SharedPlan &shared = *reinterpret_cast<SharedPlan *>(shared_bytes);

    int lane = threadIdx.x % 32;
    int first_row = threadIdx.x / 32 * kRows; // of the warp, in the block
    int block_query = blockIdx.x * kBlockM;
    size_t head_start = (static_cast<size_t>(blockIdx.z) * h + blockIdx.y) * s * kHeadDim;
    int n_keys = kCausal ? min(s, block_query + kBlockM) : s;

    // Queries, as floats.
#pragma unroll 4
    for (int i = threadIdx.x; i < kBlockM * kVectors; i += kThreads) {
        Vector query = load_row(q + head_start, block_query + i / kVectors, i % kVectors, s);
#pragma unroll
        for (int j = 0; j < kVector; j++) {
            shared.q[i / kVectors][i % kVectors * kVector + j] = to_float(query.at[j]) * (scale * ws::kLog2E);
        }
    }
    Rows rows = {};
#pragma unroll
    for (int row = 0; row < kRows; row++) {
        rows.largest[row] = -ws::infinity();
    }

    for (int first_key = 0; first_key < n_keys; first_key += kBlockN) {
        __syncthreads(); // everybody is done with the tiles before
#pragma unroll
        for (int i = threadIdx.x; i < kBlockN * kVectors; i += kThreads) {
            int key = i / kVectors;
            shared.k[key][i % kVectors] = load_row(k + head_start, first_key + key, i % kVectors, s);
            shared.v[key][i % kVectors] = load_row(v + head_start, first_key + key, i % kVectors, s);
        }
        __syncthreads();

        Scores scores;
        score(scores, shared, first_row, lane);
        softmax(scores, rows, block_query + first_row, first_key + lane, s);
        if constexpr (kSyncPolicy == SyncPolicy::kShuffle) {
            accumulate_by_shuffles(rows, scores, shared, lane);
        } else {
            sync_weights(); // the weights of the tile before have been read
#pragma unroll
            for (int i = 0; i < kRows * kKeys; i++) {
                shared.weights[first_row + i / kKeys][i % kKeys * 32 + lane] = scores[i / kKeys][i % kKeys];
            }
            sync_weights();
            accumulate(rows, shared, first_row, lane);
        }
    }

#pragma unroll
    for (int row = 0; row < kRows; row++) {
        float sum = rows.sum[row];
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) {
            sum += __shfl_xor_sync(kAllLanes, sum, distance);
        }
        int query = block_query + first_row + row;
        if (query < s) {
            Columns columns;
#pragma unroll
            for (int column = 0; column < kColumns; column++) {
                columns.at[column] = to_element(rows.out[row][column] / sum);
            }
            reinterpret_cast<Columns *>(o + head_start + static_cast<size_t>(query) * kHeadDim)[lane] = columns;
        }
    }
}
