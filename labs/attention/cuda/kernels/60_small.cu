// O = softmax(scale Q Kᵀ) V on Hopper for short sequences, where the time is latency: all loads at once, split keys.
// Layout: q, k, v, o are (B, H, S, D) row-major, f16 or bf16. With a causal mask query i sees the keys 0..i.
// Serves every S and D = 64, for scale > 0; made for S up to about 1024.
//
// Changed since 50_wgmma: one thread asks the copy engine for Q and the first SLOTS chunks of K and V of every warpgroup
// before anything else, so at S = 512 nothing is ever waited for but the first bytes. There is no producer and no
// register reallocation. A warpgroup multiplies 64 queries with its part of the keys: every kParts-th chunk, where the
// parts are the SPLIT warpgroups of a tile in each of the CLUSTER blocks that share it. Partial results are merged
// inside of the block first, so that less crosses to the others.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ptx/barrier.cuh"
#include "ptx/math.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "score_rows.cuh"
#include "softmax_merge.cuh"

constexpr bool kCausal = CAUSAL != 0;
constexpr bool kBf16 = BF16 != 0;
constexpr int kHeadDim = 64;
constexpr int kTileM = 64;         // queries of a tile, a warpgroup's
constexpr int kBlockN = BN;        // keys of a chunk
constexpr int kTiles = TILES;      // of a block, all with the same K and V
constexpr int kSplit = SPLIT;      // warpgroups of a block that share a tile's keys
constexpr int kCluster = CLUSTER;  // blocks that share a tile's keys
constexpr int kSlots = SLOTS;      // chunks of each part that lie in shared memory at once
constexpr int kPieces = PIECES;    // in which a chunk's weights meet V
constexpr int kPoly = POLY;        // of 8 exponentials are computed by a polynomial
constexpr bool kMax3 = MAX3 != 0;  // compare scores as integers, three at a time

constexpr int kParts = kSplit * kCluster;
constexpr int kWarpgroup = ws::kWarpgroup;
constexpr int kWarpgroups = kTiles * kSplit;
constexpr int kThreads = kWarpgroup * kWarpgroups;
constexpr int kTileValues = kHeadDim / 2; // of each thread in a tile's output
constexpr int kRowValues = kTileValues / 2;

static_assert(kParts == 1 || kParts == 2 || kParts == 4, "a share is stored 16 bytes a lane");
static_assert(kWarpgroups >= 1 && kWarpgroups <= 4, "more leave too few registers for each");
static_assert(kPieces == 1 || kPieces == 2, "of at least two products");
static_assert(kBlockN == 64 || kBlockN == 128, "whole tiles of queries, and scores that fit in registers");

#if BF16
typedef __nv_bfloat16 Element;
#else
typedef __half Element;
#endif

typedef Element QueryTile[kTileM][kHeadDim]; // (query, dim), swizzled
typedef Element KeyChunk[kBlockN][kHeadDim]; // (key, dim), swizzled

struct SharedPlan {
    QueryTile q[kTiles];
    KeyChunk k[kSplit][kSlots];
    KeyChunk v[kSplit][kSlots];
    ws::Inbox<kTileValues / kSplit, kSplit - 1> from_block[kWarpgroups];
    ws::Inbox<kTileValues / kParts, kCluster - 1> from_cluster[kWarpgroups];
    ws::Mbarrier q_full, k_full[kSplit][kSlots], v_full[kSplit][kSlots], cluster_full[kWarpgroups], written[kTiles];
};
static_assert(sizeof(SharedPlan) <= kTiles * 8192 + kSplit * kSlots * kBlockN * 256 +
                                        kThreads * ((kSplit - 1) * (128 / kSplit + 8) +
                                                    (kCluster - 1) * (128 / kParts + 8)) +
                                        512,
              "as in the contract");

// --- Who does what -----------------------------------------------------------------------------------------------

struct Place {
    int head;     // of B * H
    int group;    // of kTiles tiles, the block's
    int n_chunks; // that any tile of the block sees
    int rank;     // of the block among those that share its tiles
};

__device__ __forceinline__ int chunks_until(int first_query_after, int s) {
    int n_keys = kCausal && first_query_after < s ? first_query_after : s;
    return (n_keys + kBlockN - 1) / kBlockN;
}

// Under a causal mask a tile sees the more keys the later it is. A block has long and short ones, or else long ones start
// first.
__device__ __forceinline__ int first_query_of(int group, int tile) {
    int index = group * kTiles + tile;
    if (kCausal) {
        int n_tiles = gridDim.y / kCluster * kTiles;
        index = kTiles == 1 ? n_tiles - 1 - index : tile % 2 == 0 ? n_tiles - 1 - index / 2 : index / 2;
    }
    return index * kTileM;
}

__device__ __forceinline__ Place find_place(int s) {
    int group = blockIdx.y / kCluster;
    // The first tile is the longest.
    return {static_cast<int>(blockIdx.x), group, chunks_until(first_query_of(group, 0) + kTileM, s),
            static_cast<int>(blockIdx.y) % kCluster};
}

// Neighbouring chunks go to different blocks.
__device__ __forceinline__ int part_of(int warpgroup_rank, int block_rank) {
    return warpgroup_rank * kCluster + block_rank;
}

// --- Loads, by one thread ----------------------------------------------------------------------------------------

__device__ __forceinline__ void load_chunk(KeyChunk &chunk, const ws::TensorMap &map, ws::Mbarrier *full, int first_key,
                                           int head) {
    ws::mbarrier_arrive_expect_tx(full, sizeof(KeyChunk));
    ws::tma_load_3d(chunk, map, full, 0, first_key, head);
}

// In the order of use: Q, the first K of every part, their V, the next K, ...
__device__ __forceinline__ void load_first(SharedPlan &shared, const Place &place, const ws::TensorMap &q_map,
                                           const ws::TensorMap &k_map, const ws::TensorMap &v_map) {
    ws::mbarrier_arrive_expect_tx(&shared.q_full, sizeof(shared.q));
#pragma unroll
    for (int tile = 0; tile < kTiles; tile++) {
        ws::tma_load_3d(shared.q[tile], q_map, &shared.q_full, 0, first_query_of(place.group, tile), place.head);
    }
#pragma unroll
    for (int slot = 0; slot < kSlots; slot++) {
#pragma unroll
        for (int i = 0; i < 2 * kSplit; i++) {
            int rank = i % kSplit;
            int chunk = slot * kParts + part_of(rank, place.rank);
            if (chunk < place.n_chunks) {
                bool is_k = i < kSplit;
                load_chunk(is_k ? shared.k[rank][slot] : shared.v[rank][slot], is_k ? k_map : v_map,
                           is_k ? &shared.k_full[rank][slot] : &shared.v_full[rank][slot], chunk * kBlockN,
                           place.head);
            }
        }
    }
}

// --- Softmax -----------------------------------------------------------------------------------------------------

typedef float Scores[kBlockN / 2];         // of one thread: 2 rows (queries g and g + 8), keys 8 j + 2 t + {0, 1}
typedef float Output[kHeadDim / 2];        // likewise, along the head
typedef unsigned Weights[kBlockN / 16 / kPieces][4]; // a piece's exponentials as 16-bit pairs, for the second product

// The reference of a row that has seen no key. Finite, so that a masked score, -inf, is below it and weighs nothing.
constexpr float kLowest = -1e30f;

struct Softmax {
    float scale;        // of a score, times log2 e: from here on powers of two
    float reference[2]; // scaled score of each row that its exponentials are relative to
    float sum[2];       // of this thread's exponentials
};

// The exponentials of one row of a piece of the scores, and their sum.
__device__ __forceinline__ void weigh(Weights &weights, Softmax &softmax, const Scores &scores, int piece, int row) {
    constexpr int kCount = kBlockN / 2 / kPieces;
    float sum[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 2 * row; i < kCount; i += 4) {
        float weight[2];
#pragma unroll
        for (int c = 0; c < 2; c++) {
            float power = scores[piece * kCount + i + c] * softmax.scale - softmax.reference[row];
            bool by_polynomial = (i / 4 * 2 + c) % 8 < kPoly;
            weight[c] = by_polynomial ? ws::exp2_polynomial(power) : ws::exp2_approx(power);
            sum[c] += weight[c];
        }
        weights[i / 8][i / 2 % 4] = ws::pack<kBf16>(weight[0], weight[1]);
    }
    softmax.sum[row] += sum[0] + sum[1];
}

// Barriers: one for each part of a block and for each tile.
enum { kRefillBarrier = 1 };

// --- One chunk ---------------------------------------------------------------------------------------------------

// scores = Q Kᵀ, both K-major; not waited for.
__device__ __forceinline__ void multiply_qk(Scores &scores, ws::Descriptor q, ws::Descriptor k) {
    ws::wgmma_fence_operand(scores);
    ws::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; step++) {
        ws::wgmma_ss<kBf16, false>(scores, ws::descriptor_advance(q, step * 32), ws::descriptor_advance(k, step * 32),
                                   step > 0);
    }
    ws::wgmma_commit();
}

// output += weights V, V N-major; not waited for.
__device__ __forceinline__ void multiply_pv(Output &output, Weights &weights, ws::Descriptor v) {
    ws::wgmma_fence_operand(weights);
    ws::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kBlockN / 16 / kPieces; step++) {
        ws::wgmma_rs<kBf16, true>(output, weights[step], ws::descriptor_advance(v, step * 2048), 1);
    }
    ws::wgmma_commit();
}

// What a warpgroup has and knows.
struct Consumer {
    ws::Descriptor q, k, v; // k and v are of slot 0
    int thread;             // in the warpgroup
    int first_query;
    int s;
    Softmax softmax;
    Output output;
};

__device__ __forceinline__ void add_chunk(Consumer &self, int slot, ws::Mbarrier *v_full, unsigned parity,
                                          int first_key) {
    Scores scores;
    multiply_qk(scores, self.q, ws::descriptor_advance(self.k, slot * sizeof(KeyChunk)));
    ws::wgmma_wait<0>();
    ws::wgmma_fence_operand(scores);
    int last_key = first_key + kBlockN - 1;
    bool masked = last_key >= self.s || (kCausal && last_key > self.first_query);
    if (__builtin_expect(masked, kCausal)) {
        int key = first_key + self.thread % 4 * 2;
        int query = self.first_query + self.thread / 32 * 16 + self.thread % 32 / 4;
        ws::mask_scores<kCausal>(scores, query + 1 - key, self.s - key);
    }
    Softmax &softmax = self.softmax;
    float largest[2], correction[2];
    ws::largest_scores<kMax3>(largest, scores);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float before = softmax.reference[row];
        softmax.reference[row] = fmaxf(before, largest[row] * softmax.scale);
        correction[row] = ws::exp2_approx(before - softmax.reference[row]);
        softmax.sum[row] *= correction[row];
    }
#pragma unroll
    for (int i = 0; i < kTileValues; i++) {
        self.output[i] *= correction[i / 2 % 2];
    }
    ws::wgmma_fence_operand(self.output); // not between pieces, where a product may still be adding to it
    Weights weights[kPieces];
#pragma unroll
    for (int piece = 0; piece < kPieces; piece++) {
        weigh(weights[piece], softmax, scores, piece, 0);
        weigh(weights[piece], softmax, scores, piece, 1);
        if (piece == 0) {
            // Sums are positive, so this adds nothing, but the compiler puts the wait before the exponentials otherwise.
            unsigned sign_bits = __float_as_int(softmax.sum[0]) & __float_as_int(softmax.sum[1]) & 0x80000000;
            ws::mbarrier_wait(v_full, parity + (sign_bits >> 31));
        }
        unsigned at = slot * sizeof(KeyChunk) + piece * (sizeof(KeyChunk) / kPieces);
        multiply_pv(self.output, weights[piece], ws::descriptor_advance(self.v, at));
    }
    ws::wgmma_wait<0>();
    ws::wgmma_fence_operand(self.output);
#pragma unroll
    for (int piece = 0; piece < kPieces; piece++) {
        ws::wgmma_fence_operand(weights[piece]);
    }
}

// --- Output ------------------------------------------------------------------------------------------------------

// The values in the order of ws::Partial: row g, then row g + 8.
__device__ __forceinline__ ws::Partial<kTileValues, 2> make_partial(const Output &output, const Softmax &softmax) {
    ws::Partial<kTileValues, 2> partial;
#pragma unroll
    for (int row = 0; row < 2; row++) {
#pragma unroll
        for (int i = 0; i < kRowValues; i++) {
            partial.value[row * kRowValues + i] = output[i / 2 * 4 + 2 * row + i % 2];
        }
        float sum = softmax.sum[row];
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
        partial.reference_and_sum[row] = make_float2(softmax.reference[row], sum);
    }
    return partial;
}

// Divides by the sums and stores 16 bytes a lane. `part` counts along the thread's values of the tile.
template <int kRows>
__device__ __forceinline__ void store(const ws::Partial<kTileValues / kParts, kRows> &partial, Element *o, int part,
                                      int n_queries, int thread) {
    constexpr int kCount = kTileValues / kParts;
    int lane = thread % 32;
#pragma unroll
    for (int i = 0; i < kCount; i += 8) {
        float inverse = ws::rcp_approx(partial.reference_and_sum[i / kRowValues].y);
        unsigned words[4];
#pragma unroll
        for (int word = 0; word < 4; word++) {
            words[word] = ws::pack<kBf16>(partial.value[i + 2 * word] * inverse, partial.value[i + 2 * word + 1] * inverse);
        }
        ws::transpose_quad(words, lane);
        int at = part * kCount + i;
        int query = thread / 32 * 16 + lane / 4 + at / kRowValues * 8;
        if (query < n_queries) {
            int to = query * (kHeadDim / 8) + at % kRowValues / 8 * 4 + lane % 4;
            reinterpret_cast<uint4 *>(o)[to] = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
}

// --- Kernel ------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void init_barriers(SharedPlan &shared) {
    ws::mbarrier_init(&shared.q_full, 1);
    for (int i = 0; i < kTiles; i++) {
        ws::mbarrier_init(&shared.written[i], kSplit * kWarpgroup);
    }
#pragma unroll
    for (int i = 0; i < kSplit * kSlots; i++) {
        ws::mbarrier_init(&shared.k_full[0][0] + i, 1);
        ws::mbarrier_init(&shared.v_full[0][0] + i, 1);
    }
    if (kCluster > 1) {
#pragma unroll
        for (int i = 0; i < kWarpgroups; i++) {
            ws::mbarrier_init(&shared.cluster_full[i], 1);
            ws::mbarrier_arrive_expect_tx(&shared.cluster_full[i], sizeof(shared.from_cluster[i]));
        }
    }
    ws::fence_mbarrier_init();
    ws::fence_proxy_async();
}

extern "C" __global__ void __launch_bounds__(kThreads, 4 / kWarpgroups)
    attention_fwd(const Element *q, const Element *k, const Element *v, Element *o, int b, int h, int s, int d,
                  int causal_runtime, int bf16_runtime, float scale, const __grid_constant__ ws::TensorMap q_map,
                  const __grid_constant__ ws::TensorMap k_map, const __grid_constant__ ws::TensorMap v_map) {
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    SharedPlan &shared = *reinterpret_cast<SharedPlan *>(shared_bytes);
    Place place = find_place(s);

    // From one lane, so that the compiler knows that the whole warp has the same.
    int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
    if (warp == 0) {
        if (ws::elect_one()) {
            init_barriers(shared);
            load_first(shared, place, q_map, k_map, v_map);
        }
        __syncwarp();
    } else if (warp == 1) {
        // From another warp, so that the fence after the barriers' initialisation does not wait for them.
        if (ws::elect_one()) {
            ws::tma_prefetch_map(q_map);
            ws::tma_prefetch_map(k_map);
            ws::tma_prefetch_map(v_map);
        }
        __syncwarp();
    }
    __syncthreads();
    if (kCluster > 1) {
        // All blocks have started and their barriers are ready. The loads are under way meanwhile.
        ws::cluster_arrive_relaxed();
        ws::cluster_wait();
    }

    int warpgroup = warp / (kWarpgroup / 32);
    int tile = warpgroup / kSplit;
    int rank = warpgroup % kSplit;
    int part = part_of(rank, place.rank);
    Consumer self;
    self.q = ws::descriptor_k_major(shared.q[tile]);
    self.k = ws::descriptor_k_major(shared.k[rank][0]);
    self.v = ws::descriptor_n_major(shared.v[rank][0], sizeof(KeyChunk));
    self.thread = threadIdx.x % kWarpgroup;
    self.first_query = first_query_of(place.group, tile);
    self.s = s;
    self.softmax = {scale * ws::kLog2E, {kLowest, kLowest}, {0.0f, 0.0f}};
#pragma unroll
    for (int i = 0; i < kTileValues; i++) {
        self.output[i] = 0.0f;
    }
    int n_chunks = chunks_until(self.first_query + kTileM, s);
    ws::mbarrier_wait(&shared.q_full, 0);
    int slot = 0;
    unsigned parity = 0;
#pragma unroll 1
    for (int chunk = part; chunk < place.n_chunks; chunk += kParts) {
        if (chunk < n_chunks) {
            ws::mbarrier_wait(&shared.k_full[rank][slot], parity);
            add_chunk(self, slot, &shared.v_full[rank][slot], parity, chunk * kBlockN);
        }
        // Every tile has read the slot before it is filled again.
        int next = chunk + kSlots * kParts;
        if (next < place.n_chunks) {
            ws::named_barrier_sync(kRefillBarrier + rank, kWarpgroup * kTiles);
            if (tile == 0 && warp % 4 == 0 && ws::elect_one()) {
                load_chunk(shared.k[rank][slot], k_map, &shared.k_full[rank][slot], next * kBlockN, place.head);
                load_chunk(shared.v[rank][slot], v_map, &shared.v_full[rank][slot], next * kBlockN, place.head);
            }
            __syncwarp();
        }
        slot = slot + 1 == kSlots ? 0 : slot + 1;
        parity ^= slot == 0;
    }

    auto of_warpgroup = make_partial(self.output, self.softmax);
    auto of_block = ws::merge_in_block<kSplit>(of_warpgroup, &shared.from_block[tile * kSplit], rank, self.thread,
                                               &shared.written[tile]);
    auto of_all = ws::merge_in_cluster<kCluster>(of_block, &shared.from_cluster[warpgroup], place.rank, self.thread, 0,
                                                 &shared.cluster_full[warpgroup]);
    long long offset = (static_cast<long long>(place.head) * s + self.first_query) * kHeadDim;
    store(of_all, o + offset, part, s - self.first_query, self.thread);
}
