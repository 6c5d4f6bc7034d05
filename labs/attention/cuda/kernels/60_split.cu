// O = softmax(scale Q Kᵀ) V on Hopper for short sequences, where the time is latency: no ring, no roles, split keys.
// Layout: q, k, v, o are (B, H, S, D) row-major, f16 or bf16. With a causal mask query i sees the keys 0..i.
// Serves every S and D = 64, for scale > 0; made for S up to 512, longer ones take passes that do not overlap.
//
// Changed since 50_wgmma: one thread asks the copy engine for all that its block will ever read, before anything else
// (a head's K and V are 128 KB at S = 512), so there is no producer, no empty barrier and no register reallocation.
// A warpgroup multiplies 64 queries with a share of the keys. Keys are dealt out in chunks to the SPLIT_CLUSTER blocks
// of a cluster and to the SPLIT_BLOCK warpgroups of a block; at (1,8,512,64) that makes 256 warpgroups of one chunk
// each, two on each of 128 multiprocessors, where whole rows fill 64. Partial results (output, sum, reference) are
// merged first inside of the block, so that half as much crosses to the other, then between blocks by st.async,
// whose bytes a barrier counts: no cluster barrier, no fence. A thread meets the same thread of the other
// warpgroups, each of them takes over a part of the row, and so all of them merge and store.
// Reading K and V once for each tile of queries is 19 MB at (4,8,512,64), more than L2 delivers in the time; with
// MULTICAST blocks of a cluster each loads a slice of every chunk for all of them.
// Exponentials and tensor cores take the same time at D = 64. A polynomial replaces POLY of 8 exponentials, and PIECES
// lets the second product start on the first weights while the others are being computed.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ptx/barrier.cuh"
#include "ptx/math.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "softmax_merge.cuh"

constexpr bool kCausal = CAUSAL != 0;
constexpr bool kBf16 = BF16 != 0;
constexpr int kHeadDim = 64;
constexpr int kBlockM = 64;                  // queries of a tile
constexpr int kBlockN = BN;                  // keys of a chunk
constexpr int kTiles = TILES;                // of a block
constexpr int kSplitBlock = SPLIT_BLOCK;     // warpgroups of a block that share a tile's keys
constexpr int kSplitCluster = SPLIT_CLUSTER; // blocks of a cluster that share a tile's keys
constexpr int kMulticast = MULTICAST;        // blocks of a cluster that have different tiles and the same keys
constexpr int kPieces = PIECES;              // in which a chunk's weights meet V
constexpr int kPoly = POLY;                  // of 8 exponentials

constexpr int kParts = kSplitBlock * kSplitCluster; // into which a tile's keys are split
constexpr int kClusterBlocks = kSplitCluster * kMulticast;
constexpr int kWarpgroups = kTiles * kSplitBlock;
constexpr int kThreads = ws::kWarpgroup * kWarpgroups;
constexpr int kChunks = 512 / (kBlockN * kSplitCluster); // that a block holds at once: its share of 512 keys
constexpr int kSliceRows = kBlockN / kMulticast;         // of a chunk, which one block loads for all

static_assert(kTiles == 1 || kTiles == 2, "under a causal mask a short tile is paired with a long one");
static_assert(kWarpgroups <= 4, "more leave too few registers for each");
static_assert(kParts == 1 || kParts == 2 || kParts == 4, "a part of a row is stored 16 bytes a lane");
static_assert(kChunks % kSplitBlock == 0, "each warpgroup has as many places for chunks");
static_assert(kSliceRows % 8 == 0, "slices keep the swizzle's alignment");
static_assert(kBlockN % (16 * kPieces) == 0, "a piece is one or more products deep");
static_assert(kPoly >= 0 && kPoly <= 8, "of 8");

#if BF16
typedef __nv_bfloat16 Element;
#else
typedef __half Element;
#endif

typedef Element QueryTile[kBlockM][kHeadDim]; // (query, dim), swizzled
typedef Element KeyChunk[kBlockN][kHeadDim];  // (key, dim), swizzled

constexpr int kTileValues = kHeadDim / 2; // that a thread has of a tile's output, half of them of each of 2 rows
constexpr int kRowValues = kTileValues / 2;

struct SharedPlan {
    QueryTile q[kTiles];
    KeyChunk k[kChunks];
    KeyChunk v[kChunks];
    ws::Inbox<kTileValues / kSplitBlock, kSplitBlock - 1> from_block[kWarpgroups];
    ws::Inbox<kTileValues / kParts, kSplitCluster - 1> from_cluster[kWarpgroups];
    ws::Mbarrier q_full, k_full[kChunks], v_full[kChunks], cluster_full[kWarpgroups];
};
static_assert(sizeof(SharedPlan) <= 8192 * kTiles + 131072 / kSplitCluster +
                                        kThreads * ((kSplitBlock - 1) * (128 / kSplitBlock + 8) +
                                                    (kSplitCluster - 1) * (128 / kParts + 8)) +
                                        256,
              "as in the contract");

// --- Who does what -----------------------------------------------------------------------------------------------

struct Place {
    int head;       // of B * H
    int group;      // of kTiles tiles, the block's
    int n_groups;   // of a head, rounded up to whole clusters
    int split_rank; // among the blocks that share the chunks out
    int slice_rank; // among the blocks that load slices for each other
    int s;
};

__device__ __forceinline__ Place find_place(int s) {
    int rank = blockIdx.y % kClusterBlocks;
    int slice_rank = rank / kSplitCluster;
    int group = blockIdx.y / kClusterBlocks * kMulticast + slice_rank;
    int n_groups = gridDim.y / kClusterBlocks * kMulticast;
    return {static_cast<int>(blockIdx.x), group, n_groups, rank % kSplitCluster, slice_rank, s};
}

// Under a causal mask the length of a tile grows with its number: a block has a long and a short one, or else long ones
// start first.
__device__ __forceinline__ int first_query_of(const Place &place, int group, int tile) {
    int from_end = place.n_groups * kTiles - 1 - group;
    return (!kCausal ? group * kTiles + tile : tile == 0 ? from_end : group) * kBlockM;
}

__device__ __forceinline__ int chunks_of(const Place &place, int first_query) {
    int n_keys = kCausal && first_query + kBlockM < place.s ? first_query + kBlockM : place.s;
    return (n_keys + kBlockN - 1) / kBlockN;
}

// Of the longest tile in the cluster: each block takes what any of them needs.
__device__ __forceinline__ int chunks_of_cluster(const Place &place) {
    return chunks_of(place, first_query_of(place, place.group - place.slice_rank, 0));
}

__device__ __forceinline__ int chunk_in(const Place &place, int pass, int slot) {
    return (pass * kChunks + slot) * kSplitCluster + place.split_rank;
}

// --- Loads, by one thread ----------------------------------------------------------------------------------------

__device__ __forceinline__ void load_slice(KeyChunk &chunk, const ws::TensorMap &map, ws::Mbarrier *full,
                                           const Place &place, int first_key) {
    ws::mbarrier_arrive_expect_tx(full, sizeof(KeyChunk));
    int row = place.slice_rank * kSliceRows;
    if constexpr (kMulticast == 1) {
        ws::tma_load_3d(chunk[row], map, full, 0, first_key + row, place.head);
    } else {
        // A bit in every kSplitCluster.
        constexpr unsigned kSameKeys = ((1 << kClusterBlocks) - 1) / ((1 << kSplitCluster) - 1);
        unsigned short blocks = kSameKeys << place.split_rank;
        ws::tma_load_multicast_3d(chunk[row], map, full, blocks, 0, first_key + row, place.head);
    }
}

// In the order of use: each warpgroup's first K, then V, then their next.
__device__ __forceinline__ void load_pass(SharedPlan &shared, const Place &place, int pass, int n_chunks,
                                          const ws::TensorMap &k_map, const ws::TensorMap &v_map) {
#pragma unroll 1
    for (int first = 0; first < kChunks; first += kSplitBlock) {
#pragma unroll
        for (int i = 0; i < 2 * kSplitBlock; i++) {
            int slot = first + i % kSplitBlock;
            int chunk = chunk_in(place, pass, slot);
            if (chunk < n_chunks) {
                bool is_k = i < kSplitBlock;
                load_slice(is_k ? shared.k[slot] : shared.v[slot], is_k ? k_map : v_map,
                           is_k ? &shared.k_full[slot] : &shared.v_full[slot], place, chunk * kBlockN);
            }
        }
    }
}

// Until all that was asked for has come, also what only other tiles need.
__device__ __forceinline__ void wait_for_pass(SharedPlan &shared, const Place &place, int pass, int n_chunks) {
#pragma unroll 1
    for (int slot = 0; slot < kChunks && chunk_in(place, pass, slot) < n_chunks; slot++) {
        ws::mbarrier_wait(&shared.k_full[slot], pass & 1);
        ws::mbarrier_wait(&shared.v_full[slot], pass & 1);
    }
}

// --- Softmax -----------------------------------------------------------------------------------------------------

typedef float Scores[kBlockN / 2];                   // of one thread: 2 rows (queries g and g + 8), keys 8 j + 2 t, + 1
typedef float Output[kTileValues];                   // likewise, along the head
typedef unsigned Weights[kBlockN / 16 / kPieces][4]; // the exponentials of a piece as 16-bit pairs

// The reference of a row that has seen no key. Finite, so that a masked score, -inf, is below it and weighs nothing.
constexpr float kLowest = -1e30f;

struct Softmax {
    float scale;        // of a score, times log2 e: from here on powers of two
    float reference[2]; // scaled score of each row that its exponentials are relative to
    float sum[2];       // of this thread's exponentials
};

// Sets the scores of keys that a query must not see to -inf. Both limits count from this thread's first key;
// `n_seen` is for its first row.
__device__ __forceinline__ void mask_scores(Scores &scores, int n_seen, int n_keys) {
#pragma unroll
    for (int i = 0; i < kBlockN / 2; i++) {
        int column = i / 4 * 8 + i % 2;
        int row = i / 2 % 2 * 8;
        bool visible = column < n_keys && (!kCausal || column < n_seen + row);
        scores[i] = visible ? scores[i] : -ws::infinity();
    }
}

// Moves the reference of a row to its largest score.
__device__ __forceinline__ void follow_maximum(Softmax &softmax, const Scores &scores, int row) {
    // Four chains: one would wait for itself.
    float largest[4] = {scores[2 * row], scores[2 * row + 1], scores[2 * row + 4], scores[2 * row + 5]};
#pragma unroll
    for (int i = 8; i < kBlockN / 2; i += 4) {
        largest[i / 4 % 2 * 2] = fmaxf(largest[i / 4 % 2 * 2], scores[i + 2 * row]);
        largest[i / 4 % 2 * 2 + 1] = fmaxf(largest[i / 4 % 2 * 2 + 1], scores[i + 2 * row + 1]);
    }
    float found = fmaxf(fmaxf(largest[0], largest[1]), fmaxf(largest[2], largest[3]));
    found = fmaxf(found, __shfl_xor_sync(0xFFFFFFFFu, found, 1));
    found = fmaxf(found, __shfl_xor_sync(0xFFFFFFFFu, found, 2)) * softmax.scale;
    softmax.reference[row] = fmaxf(softmax.reference[row], found);
}

// Brings earlier results to the new references.
__device__ __forceinline__ void correct(Output &output, Softmax &softmax, const float (&before)[2]) {
    float correction[2];
#pragma unroll
    for (int row = 0; row < 2; row++) {
        bool moved = softmax.reference[row] != before[row];
        correction[row] = moved ? ws::exp2_approx(before[row] - softmax.reference[row]) : 1.0f;
        softmax.sum[row] *= correction[row];
    }
#pragma unroll
    for (int i = 0; i < kTileValues; i++) {
        output[i] *= correction[i / 2 % 2];
    }
}

__device__ __forceinline__ unsigned pack(float low, float high) {
#if BF16
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
#else
    __half2 pair = __floats2half2_rn(low, high);
#endif
    return *reinterpret_cast<unsigned *>(&pair);
}

// The exponentials of one piece of the scores. `zero` only says when: not before it is known, and the sum of the piece
// before. Else the compiler puts all exponentials before the first product and all sums behind the last, with every
// exponential still in a register.
__device__ __forceinline__ void weigh_piece(Weights &weights, Softmax &softmax, const Scores &scores, int piece,
                                            int zero) {
    constexpr int kCount = kBlockN / 2 / kPieces;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        int nothing = zero & __float_as_int(softmax.sum[row]);
        float base = __int_as_float(__float_as_int(softmax.reference[row]) + nothing);
        float sum[2] = {0.0f, 0.0f};
#pragma unroll
        for (int i = 2 * row; i < kCount; i += 4) {
            float pair[2];
#pragma unroll
            for (int c = 0; c < 2; c++) {
                float x = scores[piece * kCount + i + c] * softmax.scale - base;
                bool by_polynomial = (i / 4 * 2 + c) % 8 < kPoly;
                pair[c] = by_polynomial ? ws::exp2_polynomial(x) : ws::exp2_approx(x);
            }
            sum[i / 4 % 2] += pair[0] + pair[1];
            weights[i / 8][i / 2 % 4] = pack(pair[0], pair[1]);
        }
        softmax.sum[row] += sum[0] + sum[1];
    }
}

// --- One chunk ---------------------------------------------------------------------------------------------------

// scores = Q Kᵀ, both K-major.
__device__ __forceinline__ void multiply_qk(Scores &scores, ws::Descriptor q, ws::Descriptor k) {
    ws::wgmma_fence_operand(scores);
    ws::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; step++) {
        ws::wgmma_ss<kBf16, false>(scores, ws::descriptor_advance(q, step * 32), ws::descriptor_advance(k, step * 32),
                                   step > 0);
    }
    ws::wgmma_commit();
    ws::wgmma_wait<0>();
    ws::wgmma_fence_operand(scores);
}

// output += weights V, V N-major; not waited for.
__device__ __forceinline__ void multiply_pv(Output &output, Weights &weights, ws::Descriptor v) {
    ws::wgmma_fence_operand(output);
    ws::wgmma_fence_operand(weights);
    ws::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kBlockN / 16 / kPieces; step++) {
        ws::wgmma_rs<kBf16, true>(output, weights[step], ws::descriptor_advance(v, step * 2048), 1);
    }
    ws::wgmma_commit();
}

struct Warpgroup {
    ws::Descriptor q, k0, v0; // k0 and v0 are of slot 0
    int thread;
    int first_query;
    int s;
};

__device__ __forceinline__ void add_chunk(Output &output, Softmax &softmax, const Warpgroup &self, SharedPlan &shared,
                                          int slot, unsigned parity, int first_key, bool first) {
    Scores scores;
    int zero = ws::mbarrier_wait_zero(&shared.k_full[slot], parity);
    multiply_qk(scores, self.q, ws::descriptor_advance(self.k0, slot * sizeof(KeyChunk)));

    int last_key = first_key + kBlockN - 1;
    if (last_key >= self.s || (kCausal && last_key > self.first_query)) {
        int key = first_key + self.thread % 4 * 2;
        int query = self.first_query + self.thread / 32 * 16 + self.thread % 32 / 4;
        mask_scores(scores, query + 1 - key, self.s - key);
    }
    float before[2] = {softmax.reference[0], softmax.reference[1]};
    follow_maximum(softmax, scores, 0);
    follow_maximum(softmax, scores, 1);
    if (!first) {
        correct(output, softmax, before);
    }

    Weights weights[kPieces];
#pragma unroll
    for (int piece = 0; piece < kPieces; piece++) {
        weigh_piece(weights[piece], softmax, scores, piece, zero);
        if (piece == 0) {
            ws::mbarrier_wait(&shared.v_full[slot], parity);
        }
        multiply_pv(output, weights[piece],
                    ws::descriptor_advance(self.v0, slot * sizeof(KeyChunk) + piece * (sizeof(KeyChunk) / kPieces)));
        if (piece + 1 < kPieces) {
            zero = ws::mbarrier_wait_zero(&shared.v_full[slot], parity); // again, though V stays, for its zero
        }
    }
    ws::wgmma_wait<0>();
    ws::wgmma_fence_operand(output);
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
            words[word] = pack(partial.value[i + 2 * word] * inverse, partial.value[i + 2 * word + 1] * inverse);
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
    for (int i = 0; i < kChunks; i++) {
        ws::mbarrier_init(&shared.k_full[i], 1);
        ws::mbarrier_init(&shared.v_full[i], 1);
    }
    if (kSplitCluster > 1) {
        for (int i = 0; i < kWarpgroups; i++) {
            ws::mbarrier_init(&shared.cluster_full[i], 1);
            ws::mbarrier_arrive_expect_tx(&shared.cluster_full[i], sizeof(shared.from_cluster[i]));
        }
    }
    ws::fence_mbarrier_init();
}

enum { kTileBarrier = 1 }; // and one more for the second tile

extern "C" __global__ void __launch_bounds__(kThreads, 4 / kWarpgroups)
    attention_fwd(const Element *q, const Element *k, const Element *v, Element *o, int b, int h, int s, int d,
                  int causal_runtime, int bf16_runtime, float scale, const __grid_constant__ ws::TensorMap q_map,
                  const __grid_constant__ ws::TensorMap k_map, const __grid_constant__ ws::TensorMap v_map) {
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    SharedPlan &shared = *reinterpret_cast<SharedPlan *>(shared_bytes);
    Place place = find_place(s);
    int n_cluster_chunks = chunks_of_cluster(place);

    // Multicast writes to blocks that must have started; all else is asked for at once.
    if (threadIdx.x == 0) {
        init_barriers(shared);
        ws::mbarrier_arrive_expect_tx(&shared.q_full, sizeof(shared.q));
        for (int tile = 0; tile < kTiles; tile++) {
            ws::tma_load_3d(shared.q[tile], q_map, &shared.q_full, 0, first_query_of(place, place.group, tile),
                            place.head);
        }
        if (kMulticast == 1) {
            load_pass(shared, place, 0, n_cluster_chunks, k_map, v_map);
        }
    } else if (threadIdx.x == 32) {
        // From another warp, which has the time: else each of the maps would be fetched when its first load begins.
        ws::tma_prefetch_map(q_map);
        ws::tma_prefetch_map(k_map);
        ws::tma_prefetch_map(v_map);
    }
    __syncwarp();
    if (kClusterBlocks > 1) {
        ws::cluster_arrive_relaxed();
        ws::cluster_wait(); // the others have started and their barriers are ready
    } else {
        __syncthreads();
    }
    if (kMulticast > 1 && threadIdx.x == 0) {
        load_pass(shared, place, 0, n_cluster_chunks, k_map, v_map);
    }
    __syncwarp();

    // From one lane, so that the compiler knows that the whole warp has the same.
    int warpgroup = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / ws::kWarpgroup, 0);
    int tile = warpgroup / kSplitBlock;
    int rank = warpgroup % kSplitBlock;
    Warpgroup self;
    self.q = ws::descriptor_k_major(shared.q[tile]);
    self.k0 = ws::descriptor_k_major(shared.k[0]);
    self.v0 = ws::descriptor_n_major(shared.v[0], 0);
    self.thread = threadIdx.x % ws::kWarpgroup;
    self.first_query = first_query_of(place, place.group, tile);
    self.s = s;
    int n_chunks = self.first_query < s ? chunks_of(place, self.first_query) : 0;

    Softmax softmax = {scale * ws::kLog2E, {kLowest, kLowest}, {0.0f, 0.0f}};
    Output output;
#pragma unroll
    for (int i = 0; i < kTileValues; i++) {
        output[i] = 0.0f;
    }
    ws::mbarrier_wait(&shared.q_full, 0);
    int pass = 0;
#pragma unroll 1
    while (true) {
#pragma unroll 1
        for (int slot = rank; slot < kChunks; slot += kSplitBlock) {
            int chunk = chunk_in(place, pass, slot);
            if (chunk < n_chunks) {
                bool first = pass == 0 && slot == rank;
                add_chunk(output, softmax, self, shared, slot, pass & 1, chunk * kBlockN, first);
            }
        }
        if ((pass + 1) * kChunks * kSplitCluster >= n_cluster_chunks) {
            break;
        }
        // Everything of this pass has come and been read, in every block that the next loads write to.
        if (threadIdx.x == 0) {
            wait_for_pass(shared, place, pass, n_cluster_chunks);
        }
        __syncwarp();
        pass++;
        if (kMulticast > 1) {
            ws::cluster_sync();
        } else {
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            load_pass(shared, place, pass, n_cluster_chunks, k_map, v_map);
        }
        __syncwarp();
    }

    auto whole = make_partial(output, softmax);
    auto of_block = ws::merge_in_block<kSplitBlock>(whole, &shared.from_block[tile * kSplitBlock], rank, self.thread,
                                                    kTileBarrier + tile);
    auto of_all = ws::merge_in_cluster<kSplitCluster>(of_block, &shared.from_cluster[warpgroup], place.split_rank,
                                                      self.thread, place.slice_rank * kSplitCluster,
                                                      &shared.cluster_full[warpgroup]);
    long long offset = (static_cast<long long>(place.head) * s + self.first_query) * kHeadDim;
    store(of_all, o + offset, rank * kSplitCluster + place.split_rank, s - self.first_query, self.thread);
    if (threadIdx.x == 0) {
        wait_for_pass(shared, place, pass, n_cluster_chunks); // nothing may arrive in a block that has gone
    }
}
