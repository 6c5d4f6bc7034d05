// One chunk of keys in 90_zero_reference and 95_zero_reference_wide, by a warpgroup: products and weights. sm_90a.
#ifndef WS_ZERO_REFERENCE_STEP_CUH
#define WS_ZERO_REFERENCE_STEP_CUH

#include "zero_reference_load.cuh"

// --- Consumer: weights -------------------------------------------------------------------------------------------

struct Softmax {
    float scale;        // of a score, times log2 e: from here on powers of two
    float reference[2]; // scaled score of each row that its exponentials are relative to
    float sum[2];       // of this thread's exponentials
};

// Pairs of scores become exponentials, which join the sums, two chains a row.
__device__ __forceinline__ void raise(const Softmax &softmax, Scores &scores, float (&sum)[2][2]) {
#pragma unroll
    for (int i = 0; i < kBlockN / 4; i++) {
        int row = i % 2;
#pragma unroll
        for (int c = 0; c < 2; c++) {
            scores[2 * i + c] = ws::exp2_approx(scores[2 * i + c] * softmax.scale - softmax.reference[row]);
            sum[row][c] += scores[2 * i + c];
        }
    }
}

// --- Consumer ----------------------------------------------------------------------------------------------------

typedef unsigned Queries[kHeadDim / 16][4]; // of one thread: 16-bit pairs, for the first product

// One warpgroup: a part of the keys of a tile.
struct Consumer {
    ws::Descriptor q0, k0, v0; // of the first slot
    int consumer;              // which of the warpgroups
    int tile, part;
    int thread; // in the warpgroup
    int first_query;
    int chunk; // the one that `weights` belongs to; they run downwards
    unsigned n_groups;        // whose queries it is through with
    unsigned n_used;          // chunks of its part, whose V it is through with
    unsigned exchange_parity; // of the next exchange
    Softmax softmax;
    Queries queries; // of the tile, if they are in registers
    Scores scores;
    Weights weights;
    Output output;
};

// What is loaded as number `index` into a ring lies in this slot, with this parity of its barriers.
__device__ __forceinline__ int slot_of(unsigned index) {
    return index % kSlots;
}

__device__ __forceinline__ unsigned parity_of(unsigned index) {
    return index / kSlots & 1;
}

__device__ __forceinline__ void wait_for_keys(Consumer &self, SharedPlan &shared, unsigned index) {
    ws::mbarrier_wait(&shared.k_barriers[self.part].full[slot_of(index)], parity_of(index));
}

// Of the block's first queries; later ones find it passed.
__device__ __forceinline__ void wait_for_first_slab(Consumer &self, SharedPlan &shared) {
    if (kSlabs == 2) {
        ws::mbarrier_wait(&shared.q_first_slab[self.tile], 0);
    }
}

__device__ __forceinline__ void wait_for_queries(Consumer &self, SharedPlan &shared) {
    ws::mbarrier_wait(&shared.q_barriers[self.tile].full[self.n_groups % kQuerySlots], self.n_groups / kQuerySlots & 1);
}

// When nobody in the warp reads them any more.
__device__ __forceinline__ void release_queries(Consumer &self, SharedPlan &shared) {
    release(&shared.q_barriers[self.tile].empty[self.n_groups % kQuerySlots], self.thread);
    self.n_groups++;
}

// Takes a slab of the queries out of shared memory.
__device__ __forceinline__ void take_queries(Consumer &self, SharedPlan &shared, int slab) {
    const QueryTile &tile = shared.q[self.tile][self.n_groups % kQuerySlots];
#pragma unroll
    for (int step = 0; step < kSlab / 16; step++) {
        ws::load_a_swizzled(self.queries[slab * (kSlab / 16) + step], tile[slab], self.thread / 32u * 16, step,
                            self.thread % 32u);
    }
}

// Scores, from dims 16 kFirst to 16 kEnd, which follow those before; not committed.
template <int kFirst, int kEnd>
__device__ __forceinline__ void multiply_dims(Consumer &self, unsigned index) {
    ws::Descriptor q = ws::descriptor_advance(self.q0, self.n_groups % kQuerySlots * sizeof(QueryTile));
    ws::Descriptor k = ws::descriptor_advance(self.k0, slot_of(index) * sizeof(KeyTile));
    ws::wgmma_fence_operand(self.scores);
    if (kQueriesInRegisters) {
        ws::wgmma_fence_operand(self.queries);
    }
    ws::wgmma_fence();
#pragma unroll
    for (int step = kFirst; step < kEnd; step++) {
        ws::Descriptor k_step = at_step<kBlockN>(k, step);
        if constexpr (kQueriesInRegisters) {
            ws::wgmma_rs<kBf16, false>(self.scores, self.queries[step], k_step, step > 0);
        } else {
            ws::wgmma_ss<kBf16, false>(self.scores, at_step<kQueryRows>(q, step), k_step, step > 0);
        }
    }
}

__device__ __forceinline__ void start_scores(Consumer &self, unsigned index) {
    multiply_dims<0, kHeadDim / 16>(self, index);
    ws::wgmma_commit();
}

// The first of a tile. The block's very first queries and keys come slab by slab.
__device__ __forceinline__ void start_first_scores(Consumer &self, SharedPlan &shared) {
    static_assert(kSlabs == 1 || kQueriesInRegisters, "a slab is multiplied when it has been taken");
    constexpr int kSteps = kSlab / 16;
    if (kSlabs == 2) {
        wait_for_first_slab(self, shared);
        if (self.n_groups == 0 && self.n_used == 0) {
            ws::mbarrier_wait(&shared.k_first_slab[self.part], 0);
        } else {
            wait_for_queries(self, shared);
            wait_for_keys(self, shared, self.n_used);
        }
        take_queries(self, shared, 0);
        multiply_dims<0, kSteps>(self, self.n_used);
    }
    wait_for_queries(self, shared);
    WS_STAMP(ws::kQueriesCame);
    if (kQueriesInRegisters) {
        take_queries(self, shared, kSlabs - 1);
    }
    wait_for_keys(self, shared, self.n_used);
    WS_STAMP(ws::kKeysCame);
    multiply_dims<(kSlabs - 1) * kSteps, kSlabs * kSteps>(self, self.n_used);
    ws::wgmma_commit();
}

__device__ __forceinline__ void wait_for_values(Consumer &self, SharedPlan &shared) {
    ws::mbarrier_wait(&shared.v_barriers[self.part].full[slot_of(self.n_used)], parity_of(self.n_used));
}

__device__ __forceinline__ void start_output(Consumer &self, SharedPlan &shared) {
    wait_for_values(self, shared);
    multiply_pv(self.output, self.weights, ws::descriptor_advance(self.v0, slot_of(self.n_used) * sizeof(KeyTile)));
}

// kPending: groups of products that were started after the scores'.
template <int kPending>
__device__ __forceinline__ void finish_scores(Consumer &self, SharedPlan &shared, unsigned index) {
    ws::wgmma_wait<kPending>();
    ws::wgmma_fence_operand(self.scores);
    release(&shared.k_barriers[self.part].empty[slot_of(index)], self.thread);
}

__device__ __forceinline__ void finish_output(Consumer &self, SharedPlan &shared) {
    ws::wgmma_wait<0>();
    ws::wgmma_fence_operand(self.output);
    ws::wgmma_fence_operand(self.weights);
    release(&shared.v_barriers[self.part].empty[slot_of(self.n_used)], self.thread);
    self.n_used++;
}

__device__ __forceinline__ void mask_chunk(Consumer &self, int s) {
    if (!kCausal && (self.chunk + 1) * kBlockN <= s) {
        return;
    }
    int key = self.chunk * kBlockN + self.thread % 4 * 2;
    int query = self.first_query + self.thread / 32 * 16 + self.thread % 32 / 4;
    ws::mask_scores<kCausal>(self.scores, query + 1 - key, s - key);
}

// Whether some of its queries must not see some of the chunk's keys. Keys beyond S are in the first chunk only.
__device__ __forceinline__ bool is_masked(const Consumer &self, int chunk) {
    return kCausal && (chunk + 1) * kBlockN - 1 > self.first_query;
}

// The weights of a chunk, of its scores.
template <bool kMasked>
__device__ __forceinline__ void weigh(Consumer &self, int s) {
    float sum[2][2] = {{self.softmax.sum[0], 0.0f}, {self.softmax.sum[1], 0.0f}};
    if (kMasked) {
        mask_chunk(self, s);
    }
    raise(self.softmax, self.scores, sum);
    pack_weights(self.weights, self.scores);
    self.softmax.sum[0] = sum[0][0] + sum[0][1];
    self.softmax.sum[1] = sum[1][0] + sum[1][1];
    WS_STAMP(ws::kWeighed + self.n_used);
}

// The scores and weights of the next chunk, and the output of this one.
template <bool kMasked>
__device__ __forceinline__ void step(Consumer &self, SharedPlan &shared, int s) {
    unsigned next = self.n_used + 1;
    wait_for_keys(self, shared, next);
    wait_for_turn(self.consumer);
    start_scores(self, next);
    start_output(self, shared);
    pass_turn(self.consumer);
    finish_scores<kWaitsForBoth ? 0 : 1>(self, shared, next);
    self.chunk -= kSplit;
    finish_output(self, shared);
    weigh<kMasked>(self, s);
}

__device__ __forceinline__ void skip_values(Consumer &self, SharedPlan &shared) {
    wait_for_values(self, shared);
    release_unread(&shared.v_barriers[self.part].empty[slot_of(self.n_used)], self.thread);
    self.n_used++;
}

// Leaves a chunk to the other tile.
__device__ __forceinline__ void skip_chunk(Consumer &self, SharedPlan &shared) {
    wait_for_keys(self, shared, self.n_used);
    release_unread(&shared.k_barriers[self.part].empty[slot_of(self.n_used)], self.thread);
    skip_values(self, shared);
}

#endif
