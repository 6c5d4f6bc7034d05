// What 92_short_sequence loads, and which warpgroup computes what: parts of the keys, barriers, loads, prefetches. sm_90a.
//
// Parameters are macros, as the contract sets them: CAUSAL, BF16, SPLIT, CLUSTER, SLOTS, PIECES, PREFETCH.
#ifndef WS_SHORT_SEQUENCE_LOAD_CUH
#define WS_SHORT_SEQUENCE_LOAD_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ptx/async.cuh"
#include "ptx/barrier.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "additive_softmax.cuh"

constexpr bool kCausal = CAUSAL != 0;
constexpr bool kBf16 = BF16 != 0;
constexpr int kHeadDim = 64;
constexpr int kTileM = 64;            // queries of a block
constexpr int kBlockN = 64;           // keys of a chunk
constexpr int kStepChunks = 2;        // that are under way together
constexpr int kSplit = SPLIT;         // warpgroups of a block that share its queries' keys
constexpr int kCluster = CLUSTER;     // blocks that share them
constexpr int kSlots = SLOTS;         // steps of each part that lie in shared memory at once
constexpr int kPieces = PIECES;       // in which a chunk's weights meet V
constexpr bool kPrefetch = PREFETCH != 0; // whether the second-level cache is told of the loads

constexpr int kWarpgroup = ws::kWarpgroup;
constexpr int kThreads = kWarpgroup * kSplit;
constexpr int kParts = kSplit * kCluster;
constexpr int kColumns = kHeadDim / kSplit;          // of the output, that a warpgroup stores together with its peers
constexpr int kTileValues = kTileM * kHeadDim / kWarpgroup;
constexpr int kBlockValues = kTileValues / kSplit;   // of a thread, after the merge in the block
constexpr int kOwnValues = kTileValues / kParts;     // and in the cluster

static_assert(kSplit == 1 || kSplit == 2, "more warpgroups leave too few registers for two chunks");
static_assert(kParts == 1 || kParts == 2 || kParts == 4, "a thread's share is stored 16 bytes a lane");
static_assert(kSlots == 1 || kSlots == 2 || kSlots == 4, "slots are counted by bits");
static_assert(kPieces == 1 || kPieces == 2 || kPieces == 4, "whole products");

#if BF16
typedef __nv_bfloat16 Element;
#else
typedef __half Element;
#endif

typedef Element Tile[kBlockN][kHeadDim]; // (key or query, dim), swizzled
static_assert(kBlockN == kTileM, "one type of tile; and under a causal mask only the last chunk is masked");

struct SharedPlan {
    Tile q;
    Tile k[kSplit][kSlots][kStepChunks];
    Tile v[kSplit][kSlots][kStepChunks];
    ws::ValueInbox<kBlockValues, kSplit - 1> from_block[kSplit];
    ws::ValueInbox<kOwnValues, kCluster - 1> from_cluster[kSplit];
    ws::RowInbox<kParts> sums[kSplit];
    ws::RowInbox<kParts> largest[kSplit];
    ws::Mbarrier q_full;
    ws::Mbarrier k_full[kSplit][kSlots][kStepChunks], v_full[kSplit][kSlots][kStepChunks];
    // Values are exchanged between the same warp of different warpgroups.
    ws::Mbarrier block_full[kSplit][4], cluster_full[kSplit][4];
    ws::Mbarrier block_read; // the block's values of the first pass, by everyone
    ws::Mbarrier sums_full[kSplit], largest_full[kSplit];
};
static_assert(sizeof(SharedPlan) <= 8192 + kSplit * kSlots * 32768 +
                                        kThreads * ((kSplit - 1) * (128 / kSplit) + (kCluster - 1) * (128 / kParts)) +
                                        kSplit * kParts * 512 + 1024,
              "as in the contract");

// --- Who does what -----------------------------------------------------------------------------------------------

// What a warpgroup has and knows.
struct Part {
    int rank;        // of the warpgroup in its block
    int block;       // in its cluster
    int part;        // of the keys: every kParts-th chunk
    int warp, thread; // in the warpgroup
    int head;        // of B * H
    int first_query;
    int s;
    int n_own;       // chunks
    int first_use;   // of its slots in this pass
    ws::Descriptor k, v; // of the first slot
    unsigned queries[kHeadDim / 16][4]; // 16-bit pairs, for the first product
    float scale;        // of a score, times log2 e: from here on powers of two
    float reference[2]; // scaled score of each row that its weights are relative to
    float sum[2];       // of this thread's weights
};

__device__ __forceinline__ int chunk_of(const Part &self, int own) {
    return own * kParts + self.part;
}

__device__ __forceinline__ int steps(const Part &self) {
    return (self.n_own + kStepChunks - 1) / kStepChunks;
}

// Whether all of its keys fit at once, so that a repeated pass finds them.
__device__ __forceinline__ bool all_stay(const Part &self) {
    return steps(self) <= kSlots;
}

__device__ __forceinline__ Part find_part(int s) {
    Part self;
    // From one lane, so that the compiler knows that the whole warp has the same.
    int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
    self.rank = warp / 4;
    self.warp = warp % 4;
    self.thread = threadIdx.x % kWarpgroup;
    self.block = static_cast<int>(blockIdx.y) % kCluster;
    self.part = self.rank * kCluster + self.block; // neighbouring chunks go to different blocks
    self.head = blockIdx.x;
    int tile = blockIdx.y / kCluster;
    // Under a causal mask a tile sees the more keys the later it is; long ones start first.
    self.first_query = (kCausal ? static_cast<int>(gridDim.y) / kCluster - 1 - tile : tile) * kTileM;
    self.s = s;
    int n_keys = kCausal && self.first_query + kTileM < s ? self.first_query + kTileM : s;
    int n_chunks = (n_keys + kBlockN - 1) / kBlockN;
    self.n_own = (n_chunks - self.part + kParts - 1) / kParts;
    self.first_use = 0;
    return self;
}

// --- Barriers ----------------------------------------------------------------------------------------------------

// For loads; by the thread that asks for them.
__device__ __forceinline__ void init_load_barriers(SharedPlan &shared, const Part &self) {
    if (self.rank == 0) {
        ws::mbarrier_init(&shared.q_full, 1);
    }
#pragma unroll
    for (int i = 0; i < kSlots * kStepChunks; i++) {
        ws::mbarrier_init(&shared.k_full[self.rank][0][0] + i, 1);
        ws::mbarrier_init(&shared.v_full[self.rank][0][0] + i, 1);
    }
    ws::fence_proxy_async();
}

// For merges: what each expects in a pass.
constexpr unsigned kClusterBytes = (kCluster - 1) * 32 * kOwnValues * sizeof(float); // for one warp
constexpr unsigned kRowBytes = sizeof(ws::RowInbox<kParts>);

__device__ __forceinline__ void init_merge_barriers(SharedPlan &shared, const Part &self) {
    if (self.rank == 0) {
        ws::mbarrier_init(&shared.block_read, kThreads);
    }
#pragma unroll
    for (int warp = 0; warp < 4; warp++) {
        ws::mbarrier_init(&shared.block_full[self.rank][warp], kSplit > 1 ? 32 * (kSplit - 1) : 1);
        ws::mbarrier_init(&shared.cluster_full[self.rank][warp], 1);
    }
    ws::mbarrier_init(&shared.sums_full[self.rank], 1);
    ws::mbarrier_init(&shared.largest_full[self.rank], 1);
#pragma unroll
    for (int warp = 0; warp < 4; warp++) {
        ws::mbarrier_arrive_expect_tx(&shared.cluster_full[self.rank][warp], kClusterBytes);
    }
    ws::mbarrier_arrive_expect_tx(&shared.sums_full[self.rank], kRowBytes);
    ws::mbarrier_arrive_expect_tx(&shared.largest_full[self.rank], kRowBytes);
    ws::fence_mbarrier_init();
    ws::fence_proxy_async();
}

// --- Loads, by one thread of each warpgroup ----------------------------------------------------------------------

// A use is one filling of a slot. Barriers are told of the bytes before anything is asked for, which then takes less
// time. That of a chunk that does not exist is told of none, so that all barriers of a slot stay in step.
__device__ __forceinline__ void expect_step(SharedPlan &shared, const Part &self, int use, int step) {
    int slot = use % kSlots;
#pragma unroll
    for (int c = 0; c < kStepChunks; c++) {
        unsigned bytes = step * kStepChunks + c < self.n_own ? sizeof(Tile) : 0;
        ws::mbarrier_arrive_expect_tx(&shared.k_full[self.rank][slot][c], bytes);
        ws::mbarrier_arrive_expect_tx(&shared.v_full[self.rank][slot][c], bytes);
    }
}

__device__ __forceinline__ void ask_for_step(SharedPlan &shared, const Part &self, int use, int step,
                                             const ws::TensorMap &k_map, const ws::TensorMap &v_map) {
    int slot = use % kSlots;
#pragma unroll
    for (int i = 0; i < 2 * kStepChunks; i++) {
        int c = i % kStepChunks;
        int own = step * kStepChunks + c;
        if (own < self.n_own) {
            bool is_k = i < kStepChunks;
            ws::tma_load_3d(is_k ? shared.k[self.rank][slot][c] : shared.v[self.rank][slot][c], is_k ? k_map : v_map,
                            is_k ? &shared.k_full[self.rank][slot][c] : &shared.v_full[self.rank][slot][c], 0,
                            chunk_of(self, own) * kBlockN, self.head);
        }
    }
}

// The first steps of a pass, as many as there are slots: first all barriers, then all loads.
__device__ __forceinline__ void expect_first(SharedPlan &shared, const Part &self) {
#pragma unroll
    for (int step = 0; step < kSlots; step++) {
        if (step < steps(self)) {
            expect_step(shared, self, self.first_use + step, step);
        }
    }
}

__device__ __forceinline__ void ask_for_first(SharedPlan &shared, const Part &self, const ws::TensorMap &k_map,
                                              const ws::TensorMap &v_map) {
#pragma unroll
    for (int step = 0; step < kSlots; step++) {
        if (step < steps(self)) {
            ask_for_step(shared, self, self.first_use + step, step, k_map, v_map);
        }
    }
}

// Barriers of the block: one for each warpgroup.
enum { kOwnBarrier = 1 };

// Before a slot is filled again, all four warps have read it.
template <typename Load>
__device__ __forceinline__ void load_again(const Part &self, Load load) {
    ws::named_barrier_sync(kOwnBarrier + self.rank, kWarpgroup);
    if (self.warp == 0 && ws::elect_one()) {
        load();
    }
    __syncwarp();
}

// --- Prefetch: by plain addresses, while the copy engine still reads its maps ------------------------------------
//
// All tiles of a head need the same keys, so each asks for a share of those that its place in the cluster has in the
// first step. The blocks of a cluster share their queries likewise.

__device__ __forceinline__ const char *row_of(const Element *tensor, const Part &self, int row) {
    return reinterpret_cast<const char *>(tensor + (static_cast<long long>(self.head) * self.s + row) * kHeadDim);
}

// Half a line a thread, the unit in which the second-level cache is filled, by the warps that do not load.
__device__ __forceinline__ void prefetch(const Part &self, const Element *q, const Element *k, const Element *v) {
    constexpr int kHelpers = kWarpgroup - 32;
    constexpr int kHalf = kHeadDim * sizeof(Element) / 2;
    constexpr int kStepHalves = 2 * kStepChunks * kBlockN;
    int helper = self.thread - 32;
#pragma unroll 1
    for (int i = helper * kParts + self.part; i < 2 * kTileM; i += kHelpers * kParts) {
        int row = self.first_query + i / 2;
        if (row < self.s) {
            ws::prefetch_l2(row_of(q, self, row) + i % 2 * kHalf);
        }
    }
    int n_tiles = gridDim.y / kCluster;
#pragma unroll 1
    for (int i = helper * n_tiles + blockIdx.y / kCluster; i < 2 * kStepHalves; i += kHelpers * n_tiles) {
        int of_step = i % kStepHalves / 2;
        int row = chunk_of(self, of_step / kBlockN) * kBlockN + of_step % kBlockN;
        if (row < self.s) {
            ws::prefetch_l2(row_of(i < kStepHalves ? k : v, self, row) + i % 2 * kHalf);
        }
    }
}

#endif
