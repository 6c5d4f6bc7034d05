// O = softmax(scale Q Kᵀ) V on Hopper for sequences so short that a launch is one chain of latencies.
// Layout: q, k, v, o are (B, H, S, D) row-major, f16 or bf16. With a causal mask query i sees the keys 0..i.
// Serves every S and D = 64, for scale > 0; made for S up to 512.
//
// Changed since 60_small: weights are relative to 0, so there is no maximum, and merging is addition. Where a row's sum
// shows that 0 was no good reference, all parts of its tile find the largest scores together and go through their keys
// again. A warpgroup takes its keys in two chunks: the exponentials of one run beside the scores of the other, its
// output beside the exponentials of the other. The sums leave before the output is there. Every warpgroup asks for its
// own keys, and has the queries in registers.
#include "short_sequence_load.cuh"
#include "ptx/math.cuh"
#include "ptx/mma.cuh"
#include "score_rows.cuh"

// --- Products ----------------------------------------------------------------------------------------------------

typedef float Scores[kBlockN / 2]; // of one thread: 2 rows (queries g and g + 8), keys 8 j + 2 t + {0, 1}
typedef float Output[kTileValues]; // likewise, along the head
typedef unsigned Weights[kBlockN / 16 / kPieces][4]; // a piece's weights as 16-bit pairs, for the second product

// Takes the queries out of shared memory.
__device__ __forceinline__ void take_queries(Part &self, const Tile &tile) {
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; step++) {
        ws::load_a_swizzled(self.queries[step], tile, self.thread / 32u * 16, step, self.thread % 32u);
    }
}

// scores = Q Kᵀ, K K-major; not waited for.
__device__ __forceinline__ void multiply_qk(Scores &scores, Part &self, ws::Descriptor k) {
    ws::wgmma_fence_operand(scores);
    ws::wgmma_fence_operand(self.queries);
    ws::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; step++) {
        ws::wgmma_rs<kBf16, false>(scores, self.queries[step], ws::descriptor_advance(k, step * 32), step > 0);
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

// --- Chunks ------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void mask_chunk(const Part &self, Scores &scores, int own) {
    int first_key = chunk_of(self, own) * kBlockN;
    int last_key = first_key + kBlockN - 1;
    if (last_key >= self.s || (kCausal && last_key > self.first_query)) {
        int key = first_key + self.thread % 4 * 2;
        int query = self.first_query + self.thread / 32 * 16 + self.thread % 32 / 4;
        ws::mask_scores<kCausal>(scores, query + 1 - key, self.s - key);
    }
}

// The weights of a piece of a chunk, and their sums.
__device__ __forceinline__ void weigh(Weights &weights, Part &self, const Scores &scores, int piece) {
    constexpr int kPairs = kBlockN / 4 / kPieces;
    float sum[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}}; // two chains a row
#pragma unroll
    for (int i = 0; i < kPairs; i++) {
        int row = i % 2;
        float weight[2];
#pragma unroll
        for (int c = 0; c < 2; c++) {
            float score = scores[2 * (piece * kPairs + i) + c];
            // In its place: else the compiler puts the wait for V before it.
            weight[c] = ws::exp2_approx_here(score * self.scale - self.reference[row]);
            sum[row][c] += weight[c];
        }
        weights[i / 4][i % 4] = ws::pack<kBf16>(weight[0], weight[1]);
    }
#pragma unroll
    for (int row = 0; row < 2; row++) {
        self.sum[row] += sum[row][0] + sum[row][1];
    }
}

// Adds kCount chunks of a step; the last products are still under way. Only the last chunk of all can need a mask.
template <int kCount>
__device__ __forceinline__ void add_step(Part &self, SharedPlan &shared, Output &output,
                                         Weights (&weights)[kStepChunks][kPieces], int step) {
    int use = self.first_use + step;
    int slot = use % kSlots;
    unsigned parity = use / kSlots % 2;
    Scores scores[kCount];
#pragma unroll
    for (int c = 0; c < kCount; c++) {
        ws::mbarrier_wait(&shared.k_full[self.rank][slot][c], parity);
        multiply_qk(scores[c], self, ws::descriptor_advance(self.k, (slot * kStepChunks + c) * sizeof(Tile)));
    }
#pragma unroll
    for (int c = 0; c < kCount; c++) {
        if (c == 0) {
            ws::wgmma_wait<kCount - 1>();
        } else {
            ws::wgmma_wait<kPieces>();
        }
        ws::wgmma_fence_operand(scores[c]);
        if (c == kCount - 1) {
            mask_chunk(self, scores[c], step * kStepChunks + c);
        }
#pragma unroll
        for (int piece = 0; piece < kPieces; piece++) {
            weigh(weights[c][piece], self, scores[c], piece);
            if (piece == 0) {
                ws::mbarrier_wait(&shared.v_full[self.rank][slot][c], parity);
            }
            unsigned at = (slot * kStepChunks + c) * sizeof(Tile) + piece * (sizeof(Tile) / kPieces);
            multiply_pv(output, weights[c][piece], ws::descriptor_advance(self.v, at));
        }
    }
}

__device__ __forceinline__ void finish_products(Output &output, Weights (&weights)[kStepChunks][kPieces]) {
    ws::wgmma_wait<0>();
    ws::wgmma_fence_operand(output);
#pragma unroll
    for (int c = 0; c < kStepChunks; c++) {
#pragma unroll
        for (int piece = 0; piece < kPieces; piece++) {
            ws::wgmma_fence_operand(weights[c][piece]);
        }
    }
}

// One pass through all of its keys; the last products are still under way.
__device__ __forceinline__ void add_all(Part &self, SharedPlan &shared, Output &output,
                                        Weights (&weights)[kStepChunks][kPieces], const ws::TensorMap &k_map,
                                        const ws::TensorMap &v_map) {
#pragma unroll
    for (int i = 0; i < kTileValues; i++) {
        output[i] = 0.0f;
    }
    ws::wgmma_fence_operand(output);
    self.sum[0] = self.sum[1] = 0.0f;
    int n_steps = steps(self);
    ws::mbarrier_wait(&shared.q_full, 0);
    take_queries(self, shared.q);
    // Left from its middle: the compiler must see that no product is under way at the loop's end.
    int step = 0;
    while (n_steps > 0) {
        if (__builtin_expect(self.n_own - step * kStepChunks >= kStepChunks, 1)) {
            add_step<kStepChunks>(self, shared, output, weights, step);
        } else {
            add_step<1>(self, shared, output, weights, step);
        }
        if (__builtin_expect(++step == n_steps, 1)) {
            break;
        }
        finish_products(output, weights);
        int refilled = step - 1 + kSlots;
        if (refilled < n_steps) {
            load_again(self, [&] {
                expect_step(shared, self, self.first_use + refilled, refilled);
                ask_for_step(shared, self, self.first_use + refilled, refilled, k_map, v_map);
            });
        }
    }
}

// --- Where 0 is no good reference --------------------------------------------------------------------------------

// The keys once more from the beginning, where they did not all stay.
__device__ __forceinline__ void rewind(Part &self, SharedPlan &shared, const ws::TensorMap &k_map,
                                       const ws::TensorMap &v_map) {
    if (!all_stay(self)) {
        self.first_use += steps(self);
        load_again(self, [&] {
            expect_first(shared, self);
            ask_for_first(shared, self, k_map, v_map);
        });
    }
}

// Takes each row's largest score over all parts for its reference. No part gets through here before all have sent
// theirs, and none sends before it has received everything that belongs to the pass before.
__device__ __forceinline__ void find_references(Part &self, SharedPlan &shared, const ws::TensorMap &k_map,
                                                const ws::TensorMap &v_map) {
    rewind(self, shared, k_map, v_map);
    float largest[2] = {-ws::infinity(), -ws::infinity()};
#pragma unroll 1
    for (int own = 0; own < self.n_own; own++) {
        int step = own / kStepChunks;
        int c = own % kStepChunks;
        int use = self.first_use + step;
        int slot = use % kSlots;
        unsigned parity = use / kSlots % 2;
        ws::mbarrier_wait(&shared.k_full[self.rank][slot][c], parity);
        ws::mbarrier_wait(&shared.v_full[self.rank][slot][c], parity); // before it may be loaded again
        Scores scores;
        multiply_qk(scores, self, ws::descriptor_advance(self.k, (slot * kStepChunks + c) * sizeof(Tile)));
        ws::wgmma_wait<0>();
        ws::wgmma_fence_operand(scores);
        mask_chunk(self, scores, own);
#pragma unroll
        for (int row = 0; row < 2; row++) {
            largest[row] = fmaxf(largest[row], ws::largest_of_row(scores, row));
        }
        if (c == kStepChunks - 1 && step + kSlots < steps(self)) {
            load_again(self, [&] {
                expect_step(shared, self, use + kSlots, step + kSlots);
                ask_for_step(shared, self, use + kSlots, step + kSlots, k_map, v_map);
            });
        }
    }
    if constexpr (kParts > 1) {
        ws::tell_parts<kCluster>(make_float2(largest[0], largest[1]), shared.largest, shared.largest_full, self.part,
                                 self.thread);
        ws::mbarrier_wait(&shared.largest_full[self.rank], 0);
#pragma unroll
        for (int part = 0; part < kParts; part++) {
            float2 of_part = shared.largest[self.rank].of_part[part][self.thread / 4];
            largest[0] = fmaxf(largest[0], of_part.x);
            largest[1] = fmaxf(largest[1], of_part.y);
        }
    }
#pragma unroll
    for (int row = 0; row < 2; row++) {
        self.reference[row] = largest[row] == -ws::infinity() ? 0.0f : largest[row] * self.scale;
    }
    rewind(self, shared, k_map, v_map);
}

// --- Merge -------------------------------------------------------------------------------------------------------

// The sums of the quad's rows over this part's keys.
__device__ __forceinline__ float2 sum_rows(const Part &self) {
    float sum[2];
#pragma unroll
    for (int row = 0; row < 2; row++) {
        sum[row] = ws::checked_sum<kBf16>(self.sum[row]);
        sum[row] += __shfl_xor_sync(0xFFFFFFFFu, sum[row], 1);
        sum[row] += __shfl_xor_sync(0xFFFFFFFFu, sum[row], 2);
    }
    return make_float2(sum[0], sum[1]);
}

// Finishes the products and adds up what the block's warpgroups have, each its own columns, which come first then.
__device__ __forceinline__ void merge_in_block(const Part &self, SharedPlan &shared, Output &output,
                                               Weights (&weights)[kStepChunks][kPieces], unsigned parity) {
    finish_products(output, weights);
    if constexpr (kSplit > 1) {
        ws::rotate_parts<kSplit>(output, self.rank);
#pragma unroll
        for (int i = 1; i < kSplit; i++) {
            int to = (self.rank + i) % kSplit;
            ws::write_packet(shared.from_block[to].from[i - 1], output + i * kBlockValues, self.thread);
            // Every thread: racecheck does not follow one arrival for a warp.
            ws::mbarrier_arrive(&shared.block_full[to][self.warp]);
        }
        ws::mbarrier_wait(&shared.block_full[self.rank][self.warp], parity);
#pragma unroll
        for (int i = 1; i < kSplit; i++) {
            ws::add_packet(output, shared.from_block[self.rank].from[i - 1], self.thread);
        }
    }
}

typedef float BlockRows[kBlockValues]; // the values of the thread's first row, then those of its second

// Sends all but its own values to the blocks that store them; its own come first then.
__device__ __forceinline__ void send_to_cluster(BlockRows &rows, const Part &self, SharedPlan &shared, Output &output) {
#pragma unroll
    for (int i = 0; i < kBlockValues; i++) {
        rows[i / 2 % 2 * (kBlockValues / 2) + i / 4 * 2 + i % 2] = output[i];
    }
    if constexpr (kCluster > 1) {
        ws::rotate_parts<kCluster>(rows, self.block);
#pragma unroll
        for (int i = 1; i < kCluster; i++) {
            ws::send_packet(shared.from_cluster[self.rank].from[i - 1], rows + i * kOwnValues, self.thread,
                            (self.block + i) % kCluster, &shared.cluster_full[self.rank][self.warp]);
        }
    }
}

// The rows' sums over all keys. Returns whether one of the tile's is outside of the limits, the same in all parts.
__device__ __forceinline__ bool add_sums(float (&total)[2], float2 sums, const Part &self, SharedPlan &shared,
                                         unsigned parity) {
    total[0] = sums.x;
    total[1] = sums.y;
    if constexpr (kParts > 1) {
        ws::mbarrier_wait(&shared.sums_full[self.rank], parity);
        total[0] = total[1] = 0.0f;
#pragma unroll
        for (int part = 0; part < kParts; part++) {
            float2 of_part = shared.sums[self.rank].of_part[part][self.thread / 4];
            total[0] += of_part.x;
            total[1] += of_part.y;
        }
    }
    bool outside = false;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        int query = self.first_query + self.thread / 32 * 16 + self.thread % 32 / 4 + 8 * row;
        int n_keys = kCausal && query < self.s ? query + 1 : self.s;
        outside |= ws::outside_limits<kBf16>(total[row], n_keys, self.s);
    }
    return ws::named_barrier_or(kOwnBarrier + self.rank, kWarpgroup, outside);
}

// Receives what has been sent in a pass that does not count, and tells the barriers of the next.
__device__ __forceinline__ void discard(const Part &self, SharedPlan &shared) {
    if constexpr (kSplit > 1) {
        // What the block's warpgroups have written for each other has been read, so they may write again. The references
        // to come say so as well, but by asynchronous stores, which racecheck does not follow.
        ws::mbarrier_arrive(&shared.block_read);
        ws::mbarrier_wait(&shared.block_read, 0);
    }
    if constexpr (kCluster > 1) {
        ws::mbarrier_wait(&shared.cluster_full[self.rank][self.warp], 0);
        if (self.thread % 32 == 0) {
            ws::mbarrier_arrive_expect_tx(&shared.cluster_full[self.rank][self.warp], kClusterBytes);
        }
        __syncwarp();
    }
    if (kParts > 1 && self.thread == 0) {
        ws::mbarrier_arrive_expect_tx(&shared.sums_full[self.rank], kRowBytes);
    }
    __syncwarp();
}

// --- Output ------------------------------------------------------------------------------------------------------

constexpr int kRowPieces = kColumns / 8; // of 16 bytes; a thread has a word of every one in its two rows
constexpr int kStores = kOwnValues / 8;

// Everything about the output but its values, computed before the last of them have come.
struct StorePlan {
    float factor[kStores][4]; // of each word: 1 over its row's total
    long long at[kStores];    // in units of 16 bytes; negative for a row that does not exist
};

__device__ __forceinline__ StorePlan plan_stores(const float (&total)[2], const Part &self) {
    float inverse[2] = {ws::rcp_approx(total[0]), ws::rcp_approx(total[1])};
    int lane = self.thread % 32;
    StorePlan plan;
#pragma unroll
    for (int i = 0; i < kStores; i++) {
        int first_piece = self.block * (kOwnValues / 2) + i * 4;
#pragma unroll
        for (int word = 0; word < 4; word++) {
            plan.factor[i][word] = first_piece + word < kRowPieces ? inverse[0] : inverse[1];
            ws::compute_here(plan.factor[i][word]);
        }
        int piece = first_piece + lane % 4;
        int query = self.first_query + self.thread / 32 * 16 + lane / 4 + piece / kRowPieces * 8;
        long long row = static_cast<long long>(self.head) * self.s + query;
        plan.at[i] = query < self.s ? row * (kHeadDim / 8) + self.rank * kRowPieces + piece % kRowPieces : -1;
        ws::compute_here(plan.at[i]);
    }
    return plan;
}

// Divides by the totals and stores 16 bytes a lane.
__device__ __forceinline__ void store(const BlockRows &rows, const StorePlan &plan, Element *o, int lane) {
#pragma unroll
    for (int i = 0; i < kStores; i++) {
        unsigned words[4];
#pragma unroll
        for (int word = 0; word < 4; word++) {
            const float *pair = rows + i * 8 + word * 2;
            words[word] = ws::pack<kBf16>(pair[0] * plan.factor[i][word], pair[1] * plan.factor[i][word]);
        }
        ws::transpose_quad(words, lane);
        if (plan.at[i] >= 0) {
            reinterpret_cast<uint4 *>(o)[plan.at[i]] = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
}

// --- Kernel ------------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    attention_fwd(const Element *q, const Element *k, const Element *v, Element *o, int b, int h, int s, int d,
                  int causal_runtime, int bf16_runtime, float scale, const __grid_constant__ ws::TensorMap q_map,
                  const __grid_constant__ ws::TensorMap k_map, const __grid_constant__ ws::TensorMap v_map) {
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    SharedPlan &shared = *reinterpret_cast<SharedPlan *>(shared_bytes);
    Part self = find_part(s);

    // Start: the first warp of each warpgroup loads, the others do what the loads need not wait for.
    if (self.warp == 0) {
        if (ws::elect_one()) {
            init_load_barriers(shared, self);
            expect_first(shared, self);
            if (self.rank == 0) {
                ws::mbarrier_arrive_expect_tx(&shared.q_full, sizeof(Tile));
                ws::tma_load_3d(shared.q, q_map, &shared.q_full, 0, self.first_query, self.head);
            }
            ask_for_first(shared, self, k_map, v_map);
        }
    } else {
        if (kPrefetch) {
            prefetch(self, q, k, v);
        }
        if (self.warp == 1 && self.rank == 0 && ws::elect_one()) {
            ws::tma_prefetch_map(q_map);
            ws::tma_prefetch_map(k_map);
            ws::tma_prefetch_map(v_map);
        } else if (self.warp == 2 && ws::elect_one()) {
            init_merge_barriers(shared, self);
        }
    }
    __syncwarp();
    __syncthreads();
    if (kCluster > 1) {
        // All blocks have started and their barriers are ready. The loads are under way meanwhile.
        ws::cluster_arrive_relaxed();
        ws::cluster_wait();
    }

    self.k = ws::descriptor_k_major(shared.k[self.rank][0][0]);
    self.v = ws::descriptor_n_major(shared.v[self.rank][0][0], sizeof(Tile));
    self.scale = scale * ws::kLog2E;
    self.reference[0] = self.reference[1] = 0.0f;
    BlockRows rows;
    float total[2];
    unsigned parity = 0; // of the pass
    for (;;) {
        Output output;
        Weights weights[kStepChunks][kPieces];
        add_all(self, shared, output, weights, k_map, v_map);
        float2 sums = sum_rows(self);
        if constexpr (kParts > 1) {
            ws::tell_parts<kCluster>(sums, shared.sums, shared.sums_full, self.part, self.thread);
        }
        merge_in_block(self, shared, output, weights, parity);
        send_to_cluster(rows, self, shared, output);
        bool outside = add_sums(total, sums, self, shared, parity);
        if (__builtin_expect(!outside || parity == 1, 1)) {
            break;
        }
        discard(self, shared);
        find_references(self, shared, k_map, v_map);
        parity = 1;
    }
    StorePlan plan = plan_stores(total, self);
#pragma unroll
    for (int i = 0; i < kOwnValues; i++) {
        ws::compute_here(rows[i]);
    }
    if constexpr (kCluster > 1) {
        ws::mbarrier_wait(&shared.cluster_full[self.rank][self.warp], parity);
#pragma unroll
        for (int i = 1; i < kCluster; i++) {
            ws::add_packet(rows, shared.from_cluster[self.rank].from[i - 1], self.thread);
        }
    }
    store(rows, plan, o, self.thread % 32);
}
