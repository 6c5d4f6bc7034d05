// O = softmax(scale Q Kᵀ) V with mma.sync, everything between the two products in registers.
// Layout: q, k, v, o are B,H,S,D row-major, 16-bit. With a causal mask query i sees the keys 0..i. Serves every S.
// Changed since 30_wmma: the layout of an mma fragment is known, so the scores become weights in the registers
// where the first product leaves them and the second one wants them; shared memory holds only what was loaded.
// Tiles of K and V arrive by cp.async, STAGES - 1 tiles ahead, in a swizzled order that makes every ldmatrix free
// of bank conflicts. A warp holds 16 or 32 query rows: with 32 each fragment of K and V feeds twice as many
// products, and shared memory is no longer the limit. The softmax is relative to a maximum that may be stale, so
// that the output is rarely corrected, and only the tiles at the edge of the mask are masked.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ptx/async.cuh"
#include "ptx/math.cuh"
#include "ptx/mma.cuh"

constexpr int kBlockM = BM;
constexpr int kBlockN = BN;
constexpr int kWarps = WARPS;
constexpr int kStages = STAGES;
constexpr int kHeadDim = D;
constexpr bool kCausal = CAUSAL;
constexpr bool kBf16 = BF16;

constexpr int kThreads = kWarps * 32;
constexpr int kRowsPerWarp = kBlockM / kWarps;
constexpr int kTilesM = kRowsPerWarp / 16; // mma tiles down a warp's rows
constexpr int kPiece = 8;                  // elements of 16 bytes, the unit of copies and of the swizzle
constexpr int kPieces = kHeadDim / kPiece; // a row
constexpr int kRowBytes = kHeadDim * 2;
static_assert(kBlockM % (16 * kWarps) == 0, "a warp has whole mma tiles of queries");
static_assert(kBlockN % 16 == 0, "keys come in pairs of mma tiles");
static_assert(kHeadDim % 64 == 0, "the swizzle permutes 8 pieces");
static_assert(kStages >= 2, "a tile is loaded while another is used");
static_assert(kThreads / kPieces % 8 == 0, "a thread copies the same piece of every row, swizzled the same way");
static_assert(kBlockM * kPieces % kThreads == 0 && kBlockN * kPieces % kThreads == 0, "copies have no remainder");

// Registers of a thread: output, scores, query fragments and 72 for the rest. When all fit, the queries are loaded
// once; otherwise they are loaded from shared memory for every tile. BLOCKS is how many blocks are to share a
// multiprocessor when a head has 64 columns: with 128 there is twice the output to hold, and half as many.
constexpr int kMinBlocks = BLOCKS * 64 / kHeadDim > 1 ? BLOCKS * 64 / kHeadDim : 1;
constexpr int kRegisterLimit = 65536 / (kThreads * kMinBlocks) < 255 ? 65536 / (kThreads * kMinBlocks) : 255;
constexpr int kQueryRegisters = kTilesM * kHeadDim / 4;
constexpr int kOtherRegisters = kTilesM * (kHeadDim / 2 + kBlockN / 2) + 72;
constexpr bool kQueryInRegisters = kQueryRegisters + kOtherRegisters <= kRegisterLimit;
constexpr int kQuerySteps = kQueryInRegisters ? kHeadDim / 16 : 1; // held at a time

// By how many powers of two a score may exceed the row's reference before the reference moves. Weights up to 2^8
// are far from the limits of f16, and a shift of all weights of a row costs no precision.
constexpr float kSlack = 8.0f;

#if BF16
typedef __nv_bfloat16 Element;
typedef __nv_bfloat162 Pair;
__device__ __forceinline__ Pair to_pair(float x, float y) { return __floats2bfloat162_rn(x, y); }
#else
typedef __half Element;
typedef __half2 Pair;
__device__ __forceinline__ Pair to_pair(float x, float y) { return __floats2half2_rn(x, y); }
#endif

__device__ __forceinline__ unsigned pack(float x, float y) {
    Pair pair = to_pair(x, y);
    return *reinterpret_cast<unsigned *>(&pair);
}

// Rows of 128 or 256 bytes, unpadded. Piece p of row r lies where piece p ^ (r % 8) would: the 8 rows of an 8 x 8
// tile, which share p, then lie in 8 different groups of banks.
struct SharedPlan {
    Element q[kBlockM][kHeadDim]; // the output, at the end
    Element k[kStages][kBlockN][kHeadDim];
    Element v[kStages][kBlockN][kHeadDim];
};

// --- A warp's registers --------------------------------------------------------------------------------------

// A thread has 2 rows of each mma tile: lane / 4 and lane / 4 + 8. See ptx/mma.cuh.
struct Softmax {
    float reference[kTilesM][2]; // in powers of two: the row's maximum, or less by up to kSlack
    float sum[kTilesM][2];       // of this thread's columns alone
};

typedef float Output[kTilesM][kHeadDim / 8][4];
typedef float Scores[kTilesM][kBlockN / 8][4];
typedef unsigned Weights[kTilesM][kBlockN / 16][4];
typedef unsigned Queries[kTilesM][kQuerySteps][4];

// --- Copies --------------------------------------------------------------------------------------------------

// Starts copying rows `first_row` to `first_row + kRows` of a head, zeros where the head has ended.
template <int kRows>
__device__ __forceinline__ void copy_tile(unsigned tile, const Element *head, int first_row, int s) {
    constexpr int kRowsPerPass = kThreads / kPieces;
    int row = threadIdx.x / kPieces;
    int piece = threadIdx.x % kPieces;
    int rows_left = s - first_row - row;
    const Element *source = head + static_cast<size_t>(first_row + row) * kHeadDim + piece * kPiece;
    unsigned destination = tile + row * kRowBytes + (piece ^ (row % 8)) * 16;
    if (first_row + kRows <= s) {
#pragma unroll
        for (int pass = 0; pass < kRows; pass += kRowsPerPass) {
            ws::cp_async_16(destination + pass * kRowBytes, source + pass * kHeadDim);
        }
    } else {
#pragma unroll
        for (int pass = 0; pass < kRows; pass += kRowsPerPass) {
            bool exists = pass < rows_left;
            ws::cp_async_16_zero_fill(destination + pass * kRowBytes, exists ? source + pass * kHeadDim : head,
                                      exists ? 16 : 0);
        }
    }
}

// --- The two products ----------------------------------------------------------------------------------------

// Where this lane's row and piece lie, for ldmatrix, from the beginning of a tile of 16 rows and 16 columns. The next
// 16 columns are an exclusive or with 32 bytes away, since the swizzle is one too; the next 16 rows, an addition.
// The four 8 x 8 tiles come in the order in which mma wants their words.
struct LaneOffsets {
    unsigned rows_first;    // of queries, and of values, which are transposed
    unsigned columns_first; // of keys
};

__device__ __forceinline__ LaneOffsets lane_offsets(int lane) {
    int near = lane % 8; // row in its 8 x 8 tile, and the swizzle
    LaneOffsets offsets;
    offsets.rows_first = (near + lane / 8 % 2 * 8) * kRowBytes + ((lane / 16) ^ near) * 16;
    offsets.columns_first = (near + lane / 16 * 8) * kRowBytes + ((lane / 8 % 2) ^ near) * 16;
    return offsets;
}

__device__ __forceinline__ void load_queries(Queries &queries, unsigned query) {
#pragma unroll
    for (int step = 0; step < kQuerySteps; step++) {
#pragma unroll
        for (int m = 0; m < kTilesM; m++) {
            ws::ldmatrix_x4(queries[m][step], (query ^ (step * 32)) + m * 16 * kRowBytes);
        }
    }
}

__device__ __forceinline__ void clear(Scores &scores) {
#pragma unroll
    for (int m = 0; m < kTilesM; m++) {
#pragma unroll
        for (int i = 0; i < kBlockN / 2; i++) {
            scores[m][i / 4][i % 4] = 0.0f;
        }
    }
}

// Hides the keys that do not exist or that come after the query. `first_key` and `first_row` are this thread's.
__device__ __forceinline__ void mask(Scores &scores, int first_key, int first_row, int s) {
#pragma unroll
    for (int m = 0; m < kTilesM; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int n_seen = (kCausal ? min(s, first_row + m * 16 + half * 8 + 1) : s) - first_key;
#pragma unroll
            for (int i = 0; i < kBlockN / 4; i++) {
                int key = i / 2 * 8 + i % 2;
                scores[m][i / 2][half * 2 + i % 2] = key < n_seen ? 0.0f : -ws::infinity();
            }
        }
    }
}

// Adds to the scores, which begin as 0, or as minus infinity for a hidden key.
__device__ __forceinline__ void multiply_qk(Scores &scores, Queries &queries, unsigned query, unsigned key) {
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; step++) {
        if constexpr (!kQueryInRegisters) {
            load_queries(queries, query ^ (step * 32));
        }
        constexpr int kHeld = kQueryInRegisters ? 1 : 0;
#pragma unroll
        for (int n = 0; n < kBlockN / 16; n++) {
            unsigned b[4];
            ws::ldmatrix_x4(b, (key ^ (step * 32)) + n * 16 * kRowBytes);
#pragma unroll
            for (int m = 0; m < kTilesM; m++) {
                ws::mma_m16n8k16<kBf16>(scores[m][2 * n], queries[m][step * kHeld], b[0], b[1]);
                ws::mma_m16n8k16<kBf16>(scores[m][2 * n + 1], queries[m][step * kHeld], b[2], b[3]);
            }
        }
    }
}

__device__ __forceinline__ void multiply_pv(Output &out, const Weights &weights, unsigned value) {
#pragma unroll
    for (int step = 0; step < kBlockN / 16; step++) {
#pragma unroll
        for (int n = 0; n < kHeadDim / 16; n++) {
            unsigned b[4];
            ws::ldmatrix_x4_trans(b, (value ^ (n * 32)) + step * 16 * kRowBytes);
#pragma unroll
            for (int m = 0; m < kTilesM; m++) {
                ws::mma_m16n8k16<kBf16>(out[m][2 * n], weights[m][step], b[0], b[1]);
                ws::mma_m16n8k16<kBf16>(out[m][2 * n + 1], weights[m][step], b[2], b[3]);
            }
        }
    }
}

// --- Softmax -------------------------------------------------------------------------------------------------

// Turns scores into weights, and moves the rows' references (and with them the output and the sums) if some score
// exceeds its row's by too much. Every row sees key 0, which is in the first tile, so a reference is finite from
// then on and a row that sees nothing of a tile gets weights of 0.
__device__ __forceinline__ void attend(Weights &weights, Scores &scores, Output &out, Softmax &softmax, float factor) {
    float largest[kTilesM][2];
    bool exceeds = false;
#pragma unroll
    for (int m = 0; m < kTilesM; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float row_max = fmaxf(scores[m][0][half * 2], scores[m][0][half * 2 + 1]);
#pragma unroll
            for (int n = 1; n < kBlockN / 8; n++) {
                row_max = fmaxf(row_max, fmaxf(scores[m][n][half * 2], scores[m][n][half * 2 + 1]));
            }
            // The four threads of a row.
            row_max = fmaxf(row_max, __shfl_xor_sync(0xFFFFFFFF, row_max, 1));
            row_max = fmaxf(row_max, __shfl_xor_sync(0xFFFFFFFF, row_max, 2));
            largest[m][half] = row_max * factor;
            exceeds |= largest[m][half] > softmax.reference[m][half] + kSlack;
        }
    }

    // One decision for the warp: the branch must not diverge around the products.
    if (__any_sync(0xFFFFFFFF, exceeds)) {
#pragma unroll
        for (int m = 0; m < kTilesM; m++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float reference = fmaxf(softmax.reference[m][half], largest[m][half]);
                float correction = ws::exp2_approx(softmax.reference[m][half] - reference);
                softmax.reference[m][half] = reference;
                softmax.sum[m][half] *= correction;
#pragma unroll
                for (int n = 0; n < kHeadDim / 8; n++) {
                    out[m][n][half * 2] *= correction;
                    out[m][n][half * 2 + 1] *= correction;
                }
            }
        }
    }

#pragma unroll
    for (int m = 0; m < kTilesM; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int n = 0; n < kBlockN / 8; n++) {
                float x = ws::exp2_approx(scores[m][n][half * 2] * factor - softmax.reference[m][half]);
                float y = ws::exp2_approx(scores[m][n][half * 2 + 1] * factor - softmax.reference[m][half]);
                softmax.sum[m][half] += x + y;
                weights[m][n / 2][n % 2 * 2 + half] = pack(x, y);
            }
        }
    }
}

// --- Epilogue ------------------------------------------------------------------------------------------------

// Divides by the sums and stores, through the warp's own rows of shared.q so that rows are written in whole pieces.
__device__ __forceinline__ void store_output(const Output &out, Softmax &softmax, SharedPlan &shared, Element *head_o,
                                             int first_query, int s, int warp, int lane) {
    __syncwarp(); // the warp has loaded its queries for the last time
#pragma unroll
    for (int m = 0; m < kTilesM; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = softmax.sum[m][half];
            sum += __shfl_xor_sync(0xFFFFFFFF, sum, 1);
            sum += __shfl_xor_sync(0xFFFFFFFF, sum, 2);
            float factor = ws::rcp_approx(sum);
            int row = warp * kRowsPerWarp + m * 16 + half * 8 + lane / 4;
#pragma unroll
            for (int n = 0; n < kHeadDim / 8; n++) {
                Element *piece = shared.q[row] + (n ^ (row % 8)) * kPiece;
                *reinterpret_cast<Pair *>(piece + lane % 4 * 2) =
                    to_pair(out[m][n][half * 2] * factor, out[m][n][half * 2 + 1] * factor);
            }
        }
    }
    __syncwarp();
    constexpr int kRowsPerPass = 32 / kPieces;
    int row = warp * kRowsPerWarp + lane / kPieces;
    int piece = lane % kPieces;
    Element *destination = head_o + static_cast<size_t>(first_query + row) * kHeadDim + piece * kPiece;
#pragma unroll
    for (int pass = 0; pass < kRowsPerWarp; pass += kRowsPerPass) {
        uint4 words = *reinterpret_cast<const uint4 *>(shared.q[row + pass] + (piece ^ ((row + pass) % 8)) * kPiece);
        if (first_query + row + pass < s) {
            *reinterpret_cast<uint4 *>(destination + pass * kHeadDim) = words;
        }
    }
}

// --- Kernel --------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(kThreads, kMinBlocks)
    attention_fwd(const Element *q, const Element *k, const Element *v, Element *o, int b, int h, int s, int d_runtime,
                  int causal_runtime, int bf16_runtime, float scale) {
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    SharedPlan &shared = *reinterpret_cast<SharedPlan *>(shared_bytes);

    // Indices. Under a causal mask a head's last queries have the most keys, and come first.
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int block = kCausal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    int first_query = block * kBlockM;
    int warp_query = first_query + warp * kRowsPerWarp;
    size_t head_start = (static_cast<size_t>(blockIdx.z) * h + blockIdx.y) * s * kHeadDim;
    const Element *head_k = k + head_start; // (s, D)
    const Element *head_v = v + head_start; // (s, D)
    int n_keys = kCausal ? min(s, first_query + kBlockM) : s;
    int n_open_keys = kCausal ? first_query + 1 : s; // every query of the block sees these

    // Shared memory, as ldmatrix and cp.async address it.
    unsigned q_tile = ws::shared_address(shared.q);
    unsigned k_tiles = ws::shared_address(shared.k);
    unsigned v_tiles = ws::shared_address(shared.v);
    LaneOffsets lane_at = lane_offsets(lane);
    unsigned warp_q = q_tile + warp * kRowsPerWarp * kRowBytes + lane_at.rows_first;
    constexpr unsigned kTileBytes = kBlockN * kRowBytes;

    // Prologue. Groups of copies are counted, so one is closed for every tile, even for one that does not exist.
    copy_tile<kBlockM>(q_tile, q + head_start, first_query, s);
    ws::cp_async_commit();
#pragma unroll
    for (int tile = 0; tile < kStages - 1; tile++) {
        if (tile * kBlockN < n_keys) {
            copy_tile<kBlockN>(k_tiles + tile * kTileBytes, head_k, tile * kBlockN, s);
            copy_tile<kBlockN>(v_tiles + tile * kTileBytes, head_v, tile * kBlockN, s);
        }
        ws::cp_async_commit();
    }

    Queries queries;
    ws::cp_async_wait<kStages - 1>();
    __syncthreads();
    if constexpr (kQueryInRegisters) {
        load_queries(queries, warp_q);
    }
    Output out = {};
    Softmax softmax;
#pragma unroll
    for (int i = 0; i < kTilesM * 2; i++) {
        softmax.reference[i / 2][i % 2] = -ws::infinity();
        softmax.sum[i / 2][i % 2] = 0.0f;
    }
    float factor = scale * ws::kLog2E;                // to powers of two
    unsigned stage = 0;                               // offset of the tile in use
    unsigned free_stage = (kStages - 1) * kTileBytes; // offset of the stage that is refilled meanwhile

    // Waits for the tile of `key`, and starts the copy of the one kStages - 1 further into the stage used before.
    auto await = [&](int key) {
        ws::cp_async_wait<kStages - 2>();
        __syncthreads(); // everybody's copies have landed, and everybody is done with the stage to be refilled
        int next_key = key + (kStages - 1) * kBlockN;
        if (next_key < n_keys) {
            copy_tile<kBlockN>(k_tiles + free_stage, head_k, next_key, s);
            copy_tile<kBlockN>(v_tiles + free_stage, head_v, next_key, s);
        }
        ws::cp_async_commit();
    };
    auto rotate = [&]() {
        free_stage = stage;
        stage = stage + kTileBytes == kStages * kTileBytes ? 0 : stage + kTileBytes;
    };

    // Tiles that every query sees whole.
    int key = 0;
    for (; key + kBlockN <= n_open_keys; key += kBlockN, rotate()) {
        await(key);
        Scores scores;
        Weights weights;
        clear(scores);
        multiply_qk(scores, queries, warp_q, k_tiles + stage + lane_at.columns_first);
        attend(weights, scores, out, softmax, factor);
        multiply_pv(out, weights, v_tiles + stage + lane_at.rows_first);
    }

    // Tiles at the edge of the mask, or of the keys.
    for (; key < n_keys; key += kBlockN, rotate()) {
        await(key);
        bool seen = !kCausal || key < warp_query + kRowsPerWarp;
        if (__any_sync(0xFFFFFFFF, seen)) { // the same for all lanes, and the compiler is to know
            Scores scores;
            Weights weights;
            mask(scores, key + lane % 4 * 2, warp_query + lane / 4, s);
            multiply_qk(scores, queries, warp_q, k_tiles + stage + lane_at.columns_first);
            attend(weights, scores, out, softmax, factor);
            multiply_pv(out, weights, v_tiles + stage + lane_at.rows_first);
        }
    }

    store_output(out, softmax, shared, o + head_start, first_query, s, warp, lane);
}
