// What the warpgroups of 80_fixed_reference, 85_fixed_reference_wide, 90_zero_reference and 95_zero_reference_wide have in common: tiles in rings of slots,
// products, packed weights, turns. sm_90a.
//
// Whoever includes it has defined kHeadDim, kBf16, kBlockN (keys of a tile), kQueryRows (queries of a tile in shared
// memory), kConsumers and kTurns.
#ifndef WS_WARPGROUP_TILES_CUH
#define WS_WARPGROUP_TILES_CUH

#include "ptx/barrier.cuh"
#include "ptx/math.cuh"
#include "ptx/mma.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "score_rows.cuh"

constexpr int kWarpgroup = 128; // threads
constexpr int kSlab = 64;       // elements in a 128-byte row, the width of the swizzle
constexpr int kSlabs = kHeadDim / kSlab;

static_assert(kHeadDim == 64 || kHeadDim == 128, "a head is one or two 128-byte slabs");
static_assert(kBlockN % 16 == 0 && kBlockN >= 64 && kBlockN <= 256, "keys come in steps of one product's depth");

#if BF16
typedef __nv_bfloat16 Element;
#else
typedef __half Element;
#endif

typedef Element QueryTile[kSlabs][kQueryRows][kSlab]; // (slab, query, dim % 64), swizzled
typedef Element KeyTile[kSlabs][kBlockN][kSlab];      // (slab, key, dim % 64), swizzled
static_assert(sizeof(QueryTile) % 1024 == 0 && sizeof(KeyTile) % 1024 == 0, "tiles keep the swizzle's alignment");

// --- Rings of slots ----------------------------------------------------------------------------------------------

template <int kCount>
struct Barriers {
    ws::Mbarrier full[kCount], empty[kCount];
};

// One thread fills, and the warps of `n_consumers` warpgroups empty.
template <int kCount>
__device__ __forceinline__ void init(Barriers<kCount> &barriers, int n_consumers) {
    for (int i = 0; i < kCount; i++) {
        ws::mbarrier_init(&barriers.full[i], 1);
        ws::mbarrier_init(&barriers.empty[i], 4 * n_consumers);
    }
}

// A place in a ring, and the parity of the pass.
template <int kCount>
struct RingPosition {
    int slot = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void advance() {
        slot = slot + 1 == kCount ? 0 : slot + 1;
        parity ^= slot == 0;
    }
};

// Loads rows from row0 on of a head into a tile.
template <typename SomeTile>
__device__ __forceinline__ void ask(SomeTile &tile, ws::Mbarrier *full, const ws::TensorMap &map, int row0, int head) {
#pragma unroll
    for (int slab = 0; slab < kSlabs; slab++) {
        ws::tma_load_3d(tile[slab], map, full, slab * kSlab, row0, head);
    }
}

// The same into the next slot of a ring, when its last users have left it.
template <typename SomeTile, int kCount>
__device__ __forceinline__ void load_next(SomeTile *ring, Barriers<kCount> &barriers, RingPosition<kCount> &at,
                                          const ws::TensorMap &map, int row0, int head) {
    ws::mbarrier_wait(&barriers.empty[at.slot], at.parity ^ 1);
    ws::mbarrier_arrive_expect_tx(&barriers.full[at.slot], sizeof(SomeTile));
    ask(ring[at.slot], &barriers.full[at.slot], map, row0, head);
    at.advance();
}

// One arrival a warp: each has seen its own products finish.
__device__ __forceinline__ void release(ws::Mbarrier *empty, int thread) {
    if (thread % 32 == 0) {
        ws::mbarrier_arrive(empty);
    }
}

// The same after a wait alone, which some lanes of a warp may still be in.
__device__ __forceinline__ void release_unread(ws::Mbarrier *empty, int thread) {
    __syncwarp();
    release(empty, thread);
}

// --- Products ----------------------------------------------------------------------------------------------------

typedef float Scores[kBlockN / 2];         // of one thread: 2 rows (queries g and g + 8), keys 8 j + 2 t + {0, 1}
typedef float Output[kHeadDim / 2];        // likewise, along the head
typedef unsigned Weights[kBlockN / 16][4]; // the scores' exponentials as 16-bit pairs, for the second product

// Where dims 16 step .. 16 step + 15 begin in a tile of kRows rows.
template <int kRows>
__device__ __forceinline__ ws::Descriptor at_step(ws::Descriptor tile, int step) {
    return ws::descriptor_advance(tile, step / (kSlab / 16) * kRows * kSlab * 2 + step % (kSlab / 16) * 32);
}

// output += weights V, V N-major; not waited for.
__device__ __forceinline__ void multiply_pv(Output &output, Weights &weights, ws::Descriptor v) {
    ws::wgmma_fence_operand(output);
    ws::wgmma_fence_operand(weights);
    ws::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kBlockN / 16; step++) {
        ws::wgmma_rs<kBf16, true>(output, weights[step], ws::descriptor_advance(v, step * 2048), 1);
    }
    ws::wgmma_commit();
}

__device__ __forceinline__ void pack_weights(Weights &weights, const Scores &scores) {
#pragma unroll
    for (int i = 0; i < kBlockN / 4; i++) {
        weights[i / 4][i % 4] = ws::pack<kBf16>(scores[2 * i], scores[2 * i + 1]);
    }
}

// Left alone, the compiler computes some of a tile's weights before it waits for the output of the tile before: as many
// as there happen to be registers for. That helps where one warpgroup's output has only one other's weights beside it,
// and costs where there are several. So with more than two, scores and output are waited for together.
constexpr bool kWaitsForBoth = kConsumers > 2;

// --- Turns -------------------------------------------------------------------------------------------------------

// Consumers can take turns in starting products, so that the softmax of one meets the products of another.
// The turn goes round by named barriers, one for each consumer.
enum { kTurnBarrier = 1 };

__device__ __forceinline__ void wait_for_turn(int consumer) {
    if (kTurns) {
        ws::named_barrier_sync(kTurnBarrier + consumer, 2 * kWarpgroup);
    }
}

__device__ __forceinline__ void pass_turn(int consumer) {
    if (kTurns) {
        ws::named_barrier_arrive(kTurnBarrier + (consumer + 1) % kConsumers, 2 * kWarpgroup);
    }
}

__device__ __forceinline__ void take_empty_turn(int consumer) {
    wait_for_turn(consumer);
    pass_turn(consumer);
}

// --- What a block that saw sums outside of the limits does -------------------------------------------------------

// Says that a warp is through with all of its tiles, and whether one must be done again.
__device__ __forceinline__ void report_done(ws::Mbarrier *done, int *again, bool outside, int thread) {
    outside = __any_sync(0xFFFFFFFFu, outside);
    if (thread % 32 == 0) {
        if (outside) {
            atomicOr(again, 1);
        }
        ws::mbarrier_arrive(done);
    }
}

// Whether the block must go through its tiles again.
__device__ __forceinline__ bool must_repeat(ws::Mbarrier *done, const int *again) {
    ws::mbarrier_wait(done, 0);
    return *again != 0;
}

#endif
