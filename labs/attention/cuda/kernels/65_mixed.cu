// O = softmax(scale Q Kᵀ) V on Hopper for short sequences, where the time is latency: all loads at once, split keys.
// Layout: q, k, v, o are (B, H, S, D) row-major, f16 or bf16. With a causal mask query i sees the keys 0..i.
// Serves every S and D = 64, for scale > 0; made for S up to about 2048.
//
// Changed since 60_small: a warpgroup mixes the exponentials of a chunk with the products of its neighbours
// (attention_step.cuh). The thread that loads first says to all barriers what will come and then asks for it: in turn
// each of these waits for the other.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "attention_step.cuh"
#include "ptx/barrier.cuh"
#include "ptx/tma.cuh"
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
constexpr int kPoly = POLY;        // of 8 exponentials are computed by a polynomial

constexpr int kParts = kSplit * kCluster;
constexpr int kWarpgroup = ws::kWarpgroup;
constexpr int kWarpgroups = kTiles * kSplit;
constexpr int kThreads = kWarpgroup * kWarpgroups;
constexpr int kTileValues = kHeadDim / 2; // of each thread in a tile's output
constexpr int kRowValues = kTileValues / 2;

static_assert(kParts == 1 || kParts == 2 || kParts == 4, "a share is stored 16 bytes a lane");
static_assert(kWarpgroups >= 1 && kWarpgroups <= 4, "more leave too few registers for each");
static_assert(kSlots >= 3, "a slot is filled again one chunk after its last use, and read one chunk ahead");
static_assert(kBlockN == 64 || kBlockN == 128, "whole tiles of queries, and scores that fit in registers");

#if BF16
typedef __nv_bfloat16 Element;
#else
typedef __half Element;
#endif

typedef ws::AttentionStep<kBf16, kHeadDim, kBlockN, kPoly> Step;
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

// How many of the first n chunks are the part's.
__device__ __forceinline__ int own_chunks(int n, int part) {
    return (n - part + kParts - 1) / kParts;
}

// --- Loads, by one thread ----------------------------------------------------------------------------------------

__device__ __forceinline__ void load_chunk(KeyChunk &chunk, const ws::TensorMap &map, ws::Mbarrier *full, int first_key,
                                           int head) {
    ws::tma_load_3d(chunk, map, full, 0, first_key, head);
}

// Calls `load(rank, slot, first_key)` for the first chunk of every part in a slot.
template <typename Load>
__device__ __forceinline__ void for_parts(int slot, const Place &place, Load load) {
#pragma unroll
    for (int rank = 0; rank < kSplit; rank++) {
        int chunk = slot * kParts + part_of(rank, place.rank);
        if (slot < kSlots && chunk < place.n_chunks) {
            load(rank, chunk * kBlockN);
        }
    }
}

// In the order of use: Q, the first two K of every part, the first V, the third K, ...
__device__ __forceinline__ void load_first(SharedPlan &shared, const Place &place, const ws::TensorMap &q_map,
                                           const ws::TensorMap &k_map, const ws::TensorMap &v_map) {
    ws::mbarrier_arrive_expect_tx(&shared.q_full, sizeof(shared.q));
#pragma unroll
    for (int i = 0; i < kSplit * kSlots; i++) {
        ws::mbarrier_arrive_expect_tx(&shared.k_full[0][0] + i, sizeof(KeyChunk));
        ws::mbarrier_arrive_expect_tx(&shared.v_full[0][0] + i, sizeof(KeyChunk));
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; tile++) {
        ws::tma_load_3d(shared.q[tile], q_map, &shared.q_full, 0, first_query_of(place.group, tile), place.head);
    }
#pragma unroll
    for (int slot = -1; slot < kSlots; slot++) {
        for_parts(slot + 1, place, [&](int rank, int key) {
            load_chunk(shared.k[rank][slot + 1], k_map, &shared.k_full[rank][slot + 1], key, place.head);
        });
        if (slot >= 0) {
            for_parts(slot, place, [&](int rank, int key) {
                load_chunk(shared.v[rank][slot], v_map, &shared.v_full[rank][slot], key, place.head);
            });
        }
    }
}

// --- Chunks ------------------------------------------------------------------------------------------------------

// Barriers: one for each part of a block and for each tile.
enum { kRefillBarrier = 1 };

// What a warpgroup has and knows. It numbers its own chunks from 0.
struct Consumer {
    typename Step::Operands slot0; // K and V are of slot 0
    ws::Mbarrier *q_full;
    ws::Mbarrier *k_full, *v_full; // of slot 0
    int thread;                    // in the warpgroup
    int part;                      // which chunks are its own
    int first_query;
    int s;
    int n_block_chunks;            // of this part, that any tile of the block sees
    Step step;
};

__device__ __forceinline__ void mask_chunk(const Consumer &self, typename Step::Scores &scores, int own) {
    int first_key = (own * kParts + self.part) * kBlockN;
    int last_key = first_key + kBlockN - 1;
    bool masked = last_key >= self.s || (kCausal && last_key > self.first_query);
    if (__builtin_expect(masked, kCausal)) {
        int key = first_key + self.thread % 4 * 2;
        int query = self.first_query + self.thread / 32 * 16 + self.thread % 32 / 4;
        ws::mask_scores<kCausal>(scores, query + 1 - key, self.s - key);
    }
}

__device__ __forceinline__ void wait_for_keys(const Consumer &self, int own) {
    ws::mbarrier_wait(self.k_full + own % kSlots, own / kSlots % 2);
}

__device__ __forceinline__ void wait_for_values(const Consumer &self, int own) {
    ws::mbarrier_wait(self.v_full + own % kSlots, own / kSlots % 2);
}

__device__ __forceinline__ typename Step::Operands operands(const Consumer &self, int k_own, int v_own) {
    typename Step::Operands result = self.slot0;
    result.k = ws::descriptor_advance(result.k, k_own % kSlots * sizeof(KeyChunk));
    result.v = ws::descriptor_advance(result.v, v_own % kSlots * sizeof(KeyChunk));
    return result;
}

// When every tile has read chunk `own`, its slot is filled with the one that is kSlots later.
__device__ __forceinline__ void refill(const Consumer &self, SharedPlan &shared, int own, const Place &place, int tile,
                                       int rank, const ws::TensorMap &k_map, const ws::TensorMap &v_map) {
    if (own >= 0 && own + kSlots < self.n_block_chunks) {
        ws::named_barrier_sync(kRefillBarrier + rank, kWarpgroup * kTiles);
        if (tile == 0 && self.thread / 32 == 0 && ws::elect_one()) {
            int slot = own % kSlots;
            int key = ((own + kSlots) * kParts + self.part) * kBlockN;
            ws::mbarrier_arrive_expect_tx(&shared.k_full[rank][slot], sizeof(KeyChunk));
            ws::mbarrier_arrive_expect_tx(&shared.v_full[rank][slot], sizeof(KeyChunk));
            load_chunk(shared.k[rank][slot], k_map, &shared.k_full[rank][slot], key, place.head);
            load_chunk(shared.v[rank][slot], v_map, &shared.v_full[rank][slot], key, place.head);
        }
        __syncwarp();
    }
}

// Adds chunk `own`, whose scores are ready, beside the next one's scores and the output of the one before.
template <bool kBefore, bool kNext>
__device__ __forceinline__ void add_chunk(Consumer &self, typename Step::Scores &scores,
                                          typename Step::Scores &next_scores, int own) {
    mask_chunk(self, scores, own);
    if (kNext) {
        wait_for_keys(self, own + 1);
    }
    if (kBefore) {
        wait_for_values(self, own - 1);
    }
    self.step.template add_tile<kBefore, kNext>(scores, next_scores, operands(self, own + 1, own + kSlots - 1),
                                                self.q_full, 0);
}

// The first n_own chunks of the warpgroup, n_own > 0. `done(own)` is called when K and V of chunk `own` are free.
template <typename Done>
__device__ __forceinline__ void add_chunks(Consumer &self, int n_own, Done done) {
    typename Step::Scores scores[2];
    wait_for_keys(self, 0);
    Step::first_scores(scores[0], operands(self, 0, 0));
    if (n_own == 1) {
        add_chunk<false, false>(self, scores[0], scores[1], 0);
    } else {
        add_chunk<false, true>(self, scores[0], scores[1], 0);
        int own = 1;
#pragma unroll 1
        for (; own + 2 < n_own; own += 2) {
            add_chunk<true, true>(self, scores[1], scores[0], own);
            done(own - 1);
            add_chunk<true, true>(self, scores[0], scores[1], own + 1);
            done(own);
        }
        if (own + 1 < n_own) {
            add_chunk<true, true>(self, scores[1], scores[0], own);
            done(own - 1);
            add_chunk<true, false>(self, scores[0], scores[1], own + 1);
            done(own);
        } else {
            add_chunk<true, false>(self, scores[1], scores[0], own);
            done(own - 1);
        }
    }
    wait_for_values(self, n_own - 1);
    self.step.last_output(operands(self, 0, n_own - 1));
}

// --- Output ------------------------------------------------------------------------------------------------------

// The values in the order of ws::Partial: row g, then row g + 8.
__device__ __forceinline__ ws::Partial<kTileValues, 2> make_partial(const Step &step) {
    ws::Partial<kTileValues, 2> partial;
#pragma unroll
    for (int row = 0; row < 2; row++) {
#pragma unroll
        for (int i = 0; i < kRowValues; i++) {
            partial.value[row * kRowValues + i] = step.output[i / 2 * 4 + 2 * row + i % 2];
        }
        float sum = step.sum[row];
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
        partial.reference_and_sum[row] = make_float2(step.reference[row], sum);
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

extern "C" __global__ void __launch_bounds__(kThreads, 1)
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
    self.slot0 = {ws::descriptor_k_major(shared.q[tile]), ws::descriptor_k_major(shared.k[rank][0]),
                  ws::descriptor_n_major(shared.v[rank][0], sizeof(KeyChunk)), 0, 0};
    self.q_full = &shared.q_full;
    self.k_full = shared.k_full[rank];
    self.v_full = shared.v_full[rank];
    self.thread = threadIdx.x % kWarpgroup;
    self.part = part;
    self.first_query = first_query_of(place.group, tile);
    self.s = s;
    self.n_block_chunks = own_chunks(place.n_chunks, part);
    self.step.begin(scale);
    auto refill_slot = [&](int own) { refill(self, shared, own, place, tile, rank, k_map, v_map); };
    int n_own = own_chunks(chunks_until(self.first_query + kTileM, s), part);
    ws::mbarrier_wait(&shared.q_full, 0);
    if (n_own > 0) {
        add_chunks(self, n_own, refill_slot);
    }
    for (int own = n_own - 1; own < self.n_block_chunks; own++) {
        refill_slot(own); // for longer tiles of the block
    }

    auto of_warpgroup = make_partial(self.step);
    auto of_block = ws::merge_in_block<kSplit>(of_warpgroup, &shared.from_block[tile * kSplit], rank, self.thread,
                                               &shared.written[tile]);
    auto of_all = ws::merge_in_cluster<kCluster>(of_block, &shared.from_cluster[warpgroup], place.rank, self.thread, 0,
                                                 &shared.cluster_full[warpgroup]);
    long long offset = (static_cast<long long>(place.head) * s + self.first_query) * kHeadDim;
    store(of_all, o + offset, part, s - self.first_query, self.thread);
}
