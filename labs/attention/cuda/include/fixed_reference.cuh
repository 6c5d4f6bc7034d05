// The computation of 80_fixed_reference and 85_fixed_reference_wide: products, weights, turns, output, and the kernel. sm_90a.
//
// A row's reference is the largest score of its first tile and stays: any reference gives the same quotient, as long as
// no weight overflows. Each thread watches its sums, and a block that saw one grow too large, or vanish, goes through
// its tiles again with references that follow the largest score.
#ifndef WS_FIXED_REFERENCE_CUH
#define WS_FIXED_REFERENCE_CUH

#include "fixed_reference_load.cuh"

// --- Consumer: softmax -------------------------------------------------------------------------------------------

struct Softmax {
    float scale;         // of a score, times log2 e: from here on powers of two
    float reference[2];  // scaled score of each row that its exponentials are relative to
    float sum[2];        // of this thread's exponentials
    float largest;       // of its sums over a tile
    float correction[2]; // what the last update multiplies earlier results by
};

// The reference follows the largest score, but only when that is more than kSlack ahead: then most updates need no
// correction.
__device__ __forceinline__ void follow_scores(Softmax &softmax, const Scores &scores) {
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float found = ws::largest_of_row(scores, row) * softmax.scale;
        // Before the first visible key both are -inf, their difference is NaN, and the reference stays.
        float ahead = found - softmax.reference[row];
        bool follow = ahead > kSlack;
        softmax.correction[row] = follow ? ws::exp2_approx(-ahead) : 1.0f;
        softmax.reference[row] = follow ? found : softmax.reference[row];
    }
}

// The reference of a row is the largest score of its first tile; any number if it sees none there.
__device__ __forceinline__ void fix_reference(Softmax &softmax, const Scores &scores) {
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float found = ws::largest_of_row(scores, row) * softmax.scale;
        softmax.reference[row] = found == -ws::infinity() ? 0.0f : found + kMargin;
    }
}

// The scores become exponentials relative to the reference, and join the sums.
template <bool kMasked>
__device__ __forceinline__ void raise(const Softmax &softmax, Scores &scores, float (&sum)[2][2]) {
    constexpr bool kMayBeUnset = kMasked; // a reference that follows is -inf before the first visible key
#pragma unroll
    for (int i = 0; i < kBlockN / 4; i++) {
        int row = i % 2;
        float base = softmax.reference[row];
        base = kMayBeUnset && base == -ws::infinity() ? 0.0f : base;
        scores[2 * i] = ws::exp2_approx(scores[2 * i] * softmax.scale - base);
        scores[2 * i + 1] = ws::exp2_approx(scores[2 * i + 1] * softmax.scale - base);
        sum[row][0] += scores[2 * i];
        sum[row][1] += scores[2 * i + 1];
    }
}

template <bool kFollow>
__device__ __forceinline__ void add_sums(Softmax &softmax, const float (&sum)[2][2]) {
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float of_tile = sum[row][0] + sum[row][1];
        if constexpr (kFollow) {
            softmax.sum[row] = softmax.sum[row] * softmax.correction[row] + of_tile;
        } else {
            softmax.sum[row] += of_tile;
            softmax.largest = fmaxf(softmax.largest, of_tile);
        }
    }
}

__device__ __forceinline__ void correct_output(Output &output, const Softmax &softmax) {
    bool needed = softmax.correction[0] != 1.0f || softmax.correction[1] != 1.0f;
    if (__any_sync(0xFFFFFFFFu, needed)) {
#pragma unroll
        for (int i = 0; i < kHeadDim / 2; i++) {
            output[i] *= softmax.correction[i / 2 % 2];
        }
    }
}

// --- Consumer: output --------------------------------------------------------------------------------------------

// Divides by the sums and stores 16 bytes a lane, 64 a row. `o` is the warpgroup's first row. Returns whether a sum was
// outside of the limits.
__device__ __forceinline__ bool store_output(const Output &output, const Softmax &softmax, Element *o, int n_queries,
                                             int thread) {
    int lane = thread % 32;
    bool outside = !(softmax.largest <= kLargestSum);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float sum = softmax.sum[row];
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
        outside |= !(sum >= kSmallestSum);
        float inverse = ws::rcp_approx(sum);
        int query = thread / 32 * 16 + lane / 4 + 8 * row;
#pragma unroll
        for (int part = 0; part < kHeadDim / 32; part++) {
            unsigned words[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int at = (part * 4 + i) * 4 + 2 * row;
                words[i] = ws::pack<kBf16>(output[at] * inverse, output[at + 1] * inverse);
            }
            ws::transpose_quad(words, lane);
            if (query < n_queries) {
                int to = query * (kHeadDim / 8) + part * 4 + lane % 4;
                reinterpret_cast<uint4 *>(o)[to] = make_uint4(words[0], words[1], words[2], words[3]);
            }
        }
    }
    return outside;
}

// --- Consumer ----------------------------------------------------------------------------------------------------

// One warpgroup's part of a tile.
struct Consumer {
    ws::Descriptor q0, k0, v0; // of stage 0
    int consumer;             // which of the warpgroups
    int thread;               // in the warpgroup
    int first_query;
    int key_tile;             // the one that `weights` belongs to; they run downwards
    RingPosition<kQueryStages> q_at;
    RingPosition<kStages> k_at, v_at;
    Softmax softmax;
    Scores scores;
    Weights weights;
    Output output;
};

__device__ __forceinline__ void release_queries(Consumer &self, SharedPlan &shared) {
    release(&shared.q_barriers.empty[self.q_at.slot], self.thread);
    self.q_at.advance();
}

__device__ __forceinline__ void wait_for_keys(Consumer &self, SharedPlan &shared) {
    ws::mbarrier_wait(&shared.k_barriers.full[self.k_at.slot], self.k_at.parity);
}

// scores = Q Kᵀ, both K-major; not waited for.
__device__ __forceinline__ void multiply_qk(Scores &scores, ws::Descriptor q, ws::Descriptor k) {
    ws::wgmma_fence_operand(scores);
    ws::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; step++) {
        ws::wgmma_ss<kBf16, false>(scores, at_step<kQueryRows>(q, step), at_step<kBlockN>(k, step), step > 0);
    }
    ws::wgmma_commit();
}

__device__ __forceinline__ void start_scores(Consumer &self) {
    multiply_qk(self.scores, ws::descriptor_advance(self.q0, self.q_at.slot * sizeof(QueryTile)),
                ws::descriptor_advance(self.k0, self.k_at.slot * sizeof(KeyTile)));
}

__device__ __forceinline__ void wait_for_values(Consumer &self, SharedPlan &shared) {
    ws::mbarrier_wait(&shared.v_barriers.full[self.v_at.slot], self.v_at.parity);
}

__device__ __forceinline__ void start_output(Consumer &self, SharedPlan &shared) {
    wait_for_values(self, shared);
    multiply_pv(self.output, self.weights, ws::descriptor_advance(self.v0, self.v_at.slot * sizeof(KeyTile)));
}

// kPending: groups of products that were started after the scores'.
template <int kPending>
__device__ __forceinline__ void finish_scores(Consumer &self, SharedPlan &shared) {
    ws::wgmma_wait<kPending>();
    ws::wgmma_fence_operand(self.scores);
    release(&shared.k_barriers.empty[self.k_at.slot], self.thread);
    self.k_at.advance();
}

__device__ __forceinline__ void finish_output(Consumer &self, SharedPlan &shared) {
    ws::wgmma_wait<0>();
    ws::wgmma_fence_operand(self.output);
    ws::wgmma_fence_operand(self.weights);
    release(&shared.v_barriers.empty[self.v_at.slot], self.thread);
    self.v_at.advance();
}

__device__ __forceinline__ void mask_tile(Consumer &self, int s) {
    if (!kCausal && (self.key_tile + 1) * kBlockN <= s) {
        return;
    }
    int key = self.key_tile * kBlockN + self.thread % 4 * 2;
    int query = self.first_query + self.thread / 32 * 16 + self.thread % 32 / 4;
    ws::mask_scores<kCausal>(self.scores, query + 1 - key, s - key);
}

// What follows the scores of a tile, for its weights. kBefore: whether the output of the tile before is under way.
template <bool kFollow, bool kMasked, bool kBefore>
__device__ __forceinline__ void weigh(Consumer &self, SharedPlan &shared, int s) {
    float sum[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}}; // two chains a row
    if (kMasked) {
        mask_tile(self, s);
    }
    if (kFollow) {
        follow_scores(self.softmax, self.scores);
    } else if (!kBefore) {
        fix_reference(self.softmax, self.scores);
    }
    if (kBefore) {
        finish_output(self, shared);
    }
    raise<kMasked>(self.softmax, self.scores, sum);
    pack_weights(self.weights, self.scores);
    add_sums<kFollow>(self.softmax, sum);
    if (kFollow && kBefore) {
        correct_output(self.output, self.softmax);
    }
}

// The scores and weights of tile key_tile - 1, and the output of tile key_tile.
template <bool kFollow, bool kMasked>
__device__ __forceinline__ void step(Consumer &self, SharedPlan &shared, int s) {
    wait_for_keys(self, shared);
    wait_for_turn(self.consumer);
    start_scores(self);
    start_output(self, shared);
    pass_turn(self.consumer);
    finish_scores<kWaitsForBoth ? 0 : 1>(self, shared);
    self.key_tile--;
    weigh<kFollow, kMasked, true>(self, shared, s);
}

// Leaves a tile of keys to the other consumers. Every consumer has a turn for each tile but the first.
__device__ __forceinline__ void skip_tile(Consumer &self, SharedPlan &shared) {
    if (self.key_tile > 0) {
        take_empty_turn(self.consumer);
    }
    wait_for_keys(self, shared);
    release_unread(&shared.k_barriers.empty[self.k_at.slot], self.thread);
    self.k_at.advance();
    wait_for_values(self, shared);
    release_unread(&shared.v_barriers.empty[self.v_at.slot], self.thread);
    self.v_at.advance();
    self.key_tile--;
}

__device__ __forceinline__ Consumer make_consumer(SharedPlan &shared, float scale) {
    Consumer self;
    // From one lane, so that the compiler knows that the whole warp has the same.
    self.consumer = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
    self.q0 = ws::descriptor_k_major(shared.q[0][0][self.consumer * 64]);
    self.k0 = ws::descriptor_k_major(shared.k[0]);
    self.v0 = ws::descriptor_n_major(shared.v[0], kBlockN * kSlab * 2);
    self.thread = threadIdx.x % kWarpgroup;
    self.softmax.scale = scale * ws::kLog2E;
    return self;
}

// The block's tiles of queries. kFollow: with references that follow the largest score.
template <bool kFollow>
__device__ __forceinline__ void consume(Consumer &self, SharedPlan &shared, Element *o, int n_heads, int s) {
    if (self.consumer == kConsumers - 1) {
        pass_turn(self.consumer); // the first one's first turn
    }
    bool outside = false;
    for (int round = 0;; round++) {
        Tile tile = tile_in_round(round, n_heads, s);
        if (tile.head >= n_heads) {
            break;
        }
        if (tile.n_key_tiles == 0) {
            continue;
        }
        self.first_query = tile.first_query + self.consumer * 64;
        self.softmax.largest = 0.0f;
#pragma unroll
        for (int row = 0; row < 2; row++) {
            self.softmax.reference[row] = -ws::infinity();
            self.softmax.sum[row] = 0.0f;
        }
#pragma unroll
        for (int i = 0; i < kHeadDim / 2; i++) {
            self.output[i] = 0.0f;
        }

        // The last keys that it sees, the only ones that may lie beyond S.
        self.key_tile = tile.n_key_tiles - 1;
        ws::mbarrier_wait(&shared.q_barriers.full[self.q_at.slot], self.q_at.parity);
        int last_seen = self.first_query >= s ? -1 : kCausal ? (self.first_query + 63) / kBlockN : self.key_tile;
        while (self.key_tile > last_seen) {
            skip_tile(self, shared);
        }
        if (self.key_tile < 0) { // none of its queries exist
            release_queries(self, shared);
            continue;
        }
        wait_for_keys(self, shared);
        start_scores(self);
        finish_scores<0>(self, shared);
        weigh<kFollow, true, false>(self, shared, s);

        // Then those that reach beyond the first query, then the rest.
        if (kCausal) {
            while (self.key_tile > 0 && self.key_tile * kBlockN - 1 > self.first_query) {
                step<kFollow, true>(self, shared, s);
            }
        }
        while (self.key_tile > 0) {
            step<kFollow, false>(self, shared, s);
        }
        release_queries(self, shared); // before the last output
        start_output(self, shared);
        finish_output(self, shared);
        long long offset = (static_cast<long long>(tile.head) * s + self.first_query) * kHeadDim;
        outside |= store_output(self.output, self.softmax, o + offset, s - self.first_query, self.thread);
    }
    if (self.consumer == 0) {
        wait_for_turn(self.consumer); // the one that the last consumer passed on at its end
    }
    if constexpr (!kFollow) {
        report_done(&shared.done, &shared.again, outside, self.thread);
    }
}

// --- Kernel ------------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    attention_fwd(const Element *q, const Element *k, const Element *v, Element *o, int b, int h, int s, int d_runtime,
                  int causal_runtime, int bf16_runtime, float scale, const __grid_constant__ ws::TensorMap q_map,
                  const __grid_constant__ ws::TensorMap k_map, const __grid_constant__ ws::TensorMap v_map) {
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    SharedPlan &shared = *reinterpret_cast<SharedPlan *>(shared_bytes);
    int n_heads = b * h;
    // From one lane, so that the compiler knows that the whole warp has the same.
    int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
    int producer_warp = warp - kConsumers * 4;
    if (threadIdx.x == 0) {
        ws::tma_prefetch_map(q_map);
        ws::tma_prefetch_map(k_map);
        ws::tma_prefetch_map(v_map);
        init(shared.q_barriers, kConsumers);
        init(shared.k_barriers, kConsumers);
        init(shared.v_barriers, kConsumers);
        ws::mbarrier_init(&shared.done, 4 * kConsumers);
        shared.again = 0;
        ws::fence_mbarrier_init();
        ws::fence_proxy_async();
    }
    __syncthreads();

    if (producer_warp >= 0) {
        ws::setmaxnreg_dec<kProducerRegisters>();
        if (producer_warp == 0) {
            // By itself right before the loads: else the compiler puts a loop around each, in case that threads disagree.
            if (ws::elect_one()) {
                Producer self;
                produce(self, shared, n_heads, s, q_map, k_map, v_map);
                if (must_repeat(&shared.done, &shared.again)) {
                    produce(self, shared, n_heads, s, q_map, k_map, v_map);
                }
            }
        }
    } else {
        ws::setmaxnreg_inc<kConsumerRegisters>();
        Consumer self = make_consumer(shared, scale);
        consume<false>(self, shared, o, n_heads, s);
        if (must_repeat(&shared.done, &shared.again)) {
            consume<true>(self, shared, o, n_heads, s);
        }
    }
}

#endif
