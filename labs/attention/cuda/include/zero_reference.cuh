// The computation of 90_zero_reference and 95_zero_reference_wide: the merge of parts, a tile, and the kernel. sm_90a.
//
// Weights are powers of two of the scores themselves, relative to 0: any reference gives the same quotient, as long as
// no weight overflows or vanishes. So there is no maximum, and parts of a row are merged by adding them. Each thread
// looks at its sums, and a block that saw one outside of the limits goes through its tiles again, with the rows'
// largest scores as references.
#ifndef WS_ZERO_REFERENCE_CUH
#define WS_ZERO_REFERENCE_CUH

#include "zero_reference_step.cuh"

__device__ __forceinline__ int row_of(int thread, int row) {
    return thread / 32 * 16 + thread % 32 / 4 + 8 * row;
}

// --- Consumer: what the parts of a tile exchange -----------------------------------------------------------------

// Waits until what was exchanged before has been read.
__device__ __forceinline__ void begin_exchange(Consumer &self, SharedPlan &shared) {
    ws::mbarrier_wait(&shared.read[self.tile], self.exchange_parity ^ 1);
}

// Waits until every part has written. Every thread arrives: racecheck does not follow one arrival for a warp.
__device__ __forceinline__ void meet(Consumer &self, SharedPlan &shared) {
    ws::mbarrier_arrive(&shared.written[self.tile]);
    ws::mbarrier_wait(&shared.written[self.tile], self.exchange_parity);
}

__device__ __forceinline__ void end_exchange(Consumer &self, SharedPlan &shared) {
    ws::mbarrier_arrive(&shared.read[self.tile]);
    self.exchange_parity ^= 1;
}

// One number a row, the same in the 4 threads that share it.
__device__ __forceinline__ void write_row_values(Consumer &self, SharedPlan &shared, const float (&value)[2]) {
    if (self.thread % 4 == 0) {
        shared.row_values[self.consumer][row_of(self.thread, 0)] = value[0];
        shared.row_values[self.consumer][row_of(self.thread, 1)] = value[1];
    }
}

// Of part `part` of this consumer's tile.
__device__ __forceinline__ float read_row_value(const Consumer &self, const SharedPlan &shared, int part, int row) {
    return shared.row_values[part * kTiles + self.tile][row_of(self.thread, row)];
}

// The values of a thread in the order in which they are shared out: row g, then row g + 8.
__device__ __forceinline__ float value_at(const Output &output, int i) {
    return output[i % kRowValues / 2 * 4 + i / kRowValues * 2 + i % 2];
}

// Divides by the sums and stores 16 bytes a lane, 64 a row. `part` counts shares of a thread's values; `o` is the
// tile's.
__device__ __forceinline__ void store_share(const float (&values)[kShare], const float (&inverse)[2], int part,
                                            Element *o, int n_queries, int thread) {
    int lane = thread % 32;
#pragma unroll
    for (int i = 0; i < kShare; i += 8) {
        // Which row a share is of is known at compile time only where it has both.
        int at = part * kShare + i;
        float factor = inverse[kSplit == 1 ? i / kRowValues : 0];
        unsigned words[4];
#pragma unroll
        for (int word = 0; word < 4; word++) {
            words[word] = ws::pack<kBf16>(values[i + 2 * word] * factor, values[i + 2 * word + 1] * factor);
        }
        ws::transpose_quad(words, lane);
        int query = row_of(thread, at / kRowValues);
        if (query < n_queries) {
            int to = query * (kHeadDim / 8) + at % kRowValues / 8 * 4 + lane % 4;
            reinterpret_cast<uint4 *>(o)[to] = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
}

// Divides by the sums and stores whole rows, through the place of the tile's queries: each warp where its own 16 were,
// since others may still read theirs. Its quarter of a product reads no other rows.
__device__ __forceinline__ void store_rows(Consumer &self, SharedPlan &shared, const float (&inverse)[2], Element *o,
                                           int n_queries) {
    constexpr unsigned kPieces = kHeadDim / 8; // of 16 bytes, in a row; 8 of a slab
    constexpr unsigned kRowsAtOnce = 32 / kPieces;
    constexpr unsigned kStores = 16 / kRowsAtOnce;
    unsigned lane = self.thread % 32u;
    unsigned first_row = self.thread / 32u * 16;
    QueryTile &tile = shared.q[self.tile][self.n_groups % kQuerySlots];
    // Piece p of row r lies where piece p ^ r % 8 would, so that lanes do not meet in a bank, neither here nor below.
    unsigned to = ws::shared_address(&tile[0][first_row + lane % 16][(lane / 16 ^ lane % 8) * 8]);
#pragma unroll
    for (unsigned pair = 0; pair < kPieces / 2; pair++) {
        unsigned words[4];
#pragma unroll
        for (int word = 0; word < 4; word++) {
            const float *values = &self.output[8 * pair + 2 * word];
            words[word] = ws::pack<kBf16>(values[0] * inverse[word % 2], values[1] * inverse[word % 2]);
        }
        ws::stmatrix_x4((to ^ pair % 4 * 32) + pair / 4 * sizeof(tile[0]), words);
    }
    __syncwarp();
    unsigned row = lane / kPieces; // and every kRowsAtOnce-th after it
    uint4 pieces[kStores];
#pragma unroll
    for (unsigned i = 0; i < kStores; i++) {
        unsigned piece = lane % 8 ^ row ^ i * kRowsAtOnce % 8;
        pieces[i] = *reinterpret_cast<const uint4 *>(
            &tile[lane % kPieces / 8][first_row + i * kRowsAtOnce + row][piece * 8]);
    }
    ws::fence_proxy_async(); // the next queries come to the same place
    int n_rows = n_queries - static_cast<int>(first_row + row);
    uint4 *from_here = reinterpret_cast<uint4 *>(o) + first_row * kPieces + lane;
#pragma unroll
    for (unsigned i = 0; i < kStores; i++) {
        if (static_cast<int>(i * kRowsAtOnce) < n_rows) {
            from_here[i * 32] = pieces[i];
        }
    }
    __syncwarp();
}

// The sums of whole rows, in each thread that has a share of them.
__device__ __forceinline__ void finish_sums(Consumer &self) {
#pragma unroll
    for (float &sum : self.softmax.sum) {
        sum = ws::checked_sum<kBf16>(sum);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    }
}

// Whether a row needs another reference.
__device__ __forceinline__ bool is_outside(const Consumer &self, float total, int row, int s) {
    int query = self.first_query + row_of(self.thread, row);
    return ws::outside_limits<kBf16>(total, kCausal && query < s ? query + 1 : s, s);
}

// Adds up the parts' output and stores this part's share; where that goes through the queries' place, they are released
// after it. Returns whether a sum was outside of the limits.
__device__ __forceinline__ bool merge_and_store(Consumer &self, SharedPlan &shared, Element *o, int s) {
    self.thread = ws::computed_anew(self.thread);
    const float (&sum)[2] = self.softmax.sum;
    bool outside = false;
    float share[kShare] = {};
    if constexpr (kSplit == 1) {
        float inverse[2];
#pragma unroll
        for (int row = 0; row < 2; row++) {
            outside |= is_outside(self, sum[row], row, s);
            inverse[row] = ws::rcp_approx(sum[row]);
        }
        if constexpr (kStaged) {
            store_rows(self, shared, inverse, o, s - self.first_query);
            release_queries(self, shared);
        } else {
#pragma unroll
            for (int i = 0; i < kShare; i++) {
                share[i] = value_at(self.output, i);
            }
            store_share(share, inverse, 0, o, s - self.first_query, self.thread);
        }
    } else {
        begin_exchange(self, shared);
        write_row_values(self, shared, sum);
#pragma unroll
        for (int part = 0; part < kSplit; part++) {
            float of_part[kShare];
#pragma unroll
            for (int i = 0; i < kShare; i++) {
                of_part[i] = value_at(self.output, part * kShare + i);
            }
            if (part == self.part) {
#pragma unroll
                for (int i = 0; i < kShare; i++) {
                    share[i] = of_part[i];
                }
                continue;
            }
            ws::ValuePacket<kShare> *from = shared.inboxes[part * kTiles + self.tile].from;
            ws::write_packet(from[self.part < part ? self.part : self.part - 1], of_part, self.thread);
        }
        meet(self, shared);
        WS_STAMP(ws::kMet);
        int row = self.part * kShare / kRowValues;
        float total = 0.0f;
#pragma unroll
        for (int part = 0; part < kSplit; part++) {
            total += read_row_value(self, shared, part, row);
        }
#pragma unroll
        for (int sender = 0; sender < kSplit - 1; sender++) {
            ws::add_packet(share, shared.inboxes[self.consumer].from[sender], self.thread);
        }
        end_exchange(self, shared);
        outside |= is_outside(self, total, row, s);
        float inverse[2] = {ws::rcp_approx(total), 0.0f};
        store_share(share, inverse, self.part, o, s - self.first_query, self.thread);
    }
    return outside;
}

// --- Consumer: a tile --------------------------------------------------------------------------------------------

// Where the consumer's chunks of a group begin: the first that its queries see, of its part. Negative if there is none.
__device__ __forceinline__ int first_chunk_seen(const Consumer &self, const Group &group, int s) {
    int first = group.n_chunks - 1 - self.part;
    if (self.first_query >= s) {
        return -1;
    }
    if (kCausal) {
        int last_seen = (self.first_query + kTileM - 1) / kBlockN;
        while (first > last_seen) {
            first -= kSplit;
        }
    }
    return first;
}

// The largest scaled scores of its rows, over all parts of the keys, become the references.
__device__ __forceinline__ void find_references(Consumer &self, SharedPlan &shared, const Group &group, int s) {
    float largest[2] = {-ws::infinity(), -ws::infinity()};
    wait_for_queries(self, shared);
    if (kQueriesInRegisters) {
#pragma unroll
        for (int slab = 0; slab < kSlabs; slab++) {
            take_queries(self, shared, slab);
        }
    }
    int seen = first_chunk_seen(self, group, s);
    for (self.chunk = group.n_chunks - 1 - self.part; self.chunk >= 0; self.chunk -= kSplit) {
        if (self.chunk > seen) {
            skip_chunk(self, shared);
            continue;
        }
        wait_for_keys(self, shared, self.n_used);
        start_scores(self, self.n_used);
        finish_scores<0>(self, shared, self.n_used);
        skip_values(self, shared); // they come with the keys
        mask_chunk(self, s);
#pragma unroll
        for (int row = 0; row < 2; row++) {
            largest[row] = fmaxf(largest[row], ws::largest_of_row(self.scores, row) * self.softmax.scale);
        }
    }
    begin_exchange(self, shared);
    write_row_values(self, shared, largest);
    meet(self, shared);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float largest_of_parts = read_row_value(self, shared, 0, row);
#pragma unroll
        for (int part = 1; part < kSplit; part++) {
            largest_of_parts = fmaxf(largest_of_parts, read_row_value(self, shared, part, row));
        }
        self.softmax.reference[row] = largest_of_parts;
    }
    end_exchange(self, shared);
}

// This part of the tile's output, and its sums.
__device__ __forceinline__ void attend(Consumer &self, SharedPlan &shared, const Group &group, int s) {
    self.softmax.sum[0] = self.softmax.sum[1] = 0.0f;
#pragma unroll
    for (float &value : self.output) {
        value = 0.0f;
    }
    // Every consumer has as many turns as the first part has chunks after its first.
    int n_turns = (group.n_chunks - 1) / kSplit;
    int seen = first_chunk_seen(self, group, s);
    for (self.chunk = group.n_chunks - 1 - self.part; self.chunk >= 0 && self.chunk > seen; self.chunk -= kSplit) {
        skip_chunk(self, shared);
        if (kTurns && self.chunk >= kSplit) { // others may wait for it
            take_empty_turn(self.consumer);
            n_turns--;
        }
    }
    if (self.chunk >= 0) {
        start_first_scores(self, shared);
        if (kQueriesInRegisters && !kStaged) {
            __syncwarp(); // every lane has taken its own
            release_queries(self, shared);
        }
        finish_scores<0>(self, shared, self.n_used);
        WS_STAMP(ws::kScored);
        weigh<true>(self, s);
        // Those that reach beyond the first query, then the rest.
        if (kCausal) {
            while (self.chunk >= kSplit && is_masked(self, self.chunk - kSplit)) {
                step<true>(self, shared, s);
                n_turns--;
            }
        }
        while (self.chunk >= kSplit) {
            step<false>(self, shared, s);
            n_turns--;
        }
        if (!kQueriesInRegisters && !kStaged) {
            release_queries(self, shared); // before the last output, so that the next ones come earlier
        }
        start_output(self, shared);
        finish_sums(self);
        finish_output(self, shared);
        WS_STAMP(ws::kOutputDone);
    } else {
        wait_for_first_slab(self, shared);
        wait_for_queries(self, shared);
        __syncwarp(); // the part may be without chunks, and some lanes still wait for the queries, released next
        release_queries(self, shared);
    }
    if (kTurns) {
        for (; n_turns > 0; n_turns--) {
            take_empty_turn(self.consumer);
        }
    }
}

__device__ __forceinline__ Consumer make_consumer(SharedPlan &shared, float scale) {
    Consumer self;
    // From one lane, so that the compiler knows that the whole warp has the same.
    self.consumer = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
    self.tile = self.consumer % kTiles;
    self.part = self.consumer / kTiles; // those of the first part's keys have the first turns
    self.q0 = ws::descriptor_k_major(shared.q[self.tile][0]);
    self.k0 = ws::descriptor_k_major(shared.k[self.part][0]);
    self.v0 = ws::descriptor_n_major(shared.v[self.part][0], kBlockN * kSlab * 2);
    self.thread = threadIdx.x % kWarpgroup;
    self.n_groups = self.n_used = 0;
    self.exchange_parity = 0;
    self.softmax.scale = scale * ws::kLog2E;
    return self;
}

// The block's tiles of queries. `again`: with the largest scores as references.
__device__ __forceinline__ void consume(Consumer &self, SharedPlan &shared, Element *o, int n_heads, int s, bool again) {
    if (self.consumer == kConsumers - 1) {
        pass_turn(self.consumer); // the first one's first turn
    }
    bool outside = false;
    int n_items = n_heads * items_per_head(s);
    for (int round = 0; item_in_round(round) < n_items; round++) {
        Group group = group_of(item_in_round(round), round, n_heads, ws::computed_anew(s));
        if (group.n_chunks == 0) {
            continue;
        }
        self.first_query = group.first_query + self.tile * kTileM;
        self.softmax.reference[0] = self.softmax.reference[1] = 0.0f;
        WS_STAMP(ws::kReady);
        if (again) {
            find_references(self, shared, group, s);
        }
        attend(self, shared, group, s);
        long long offset = (static_cast<long long>(group.head) * s + self.first_query) * kHeadDim;
        if (self.first_query < s) { // the same in all parts of a tile
            outside |= merge_and_store(self, shared, o + offset, s);
            WS_STAMP(ws::kStored);
        }
    }
    if (self.consumer == 0) {
        wait_for_turn(self.consumer); // the one that the last consumer passed on at its end
    }
    if (!again) {
        report_done(&shared.done, &shared.again, outside, self.thread);
    }
}

// --- Kernel ------------------------------------------------------------------------------------------------------

// Those that a producer needs for its loads.
__device__ __forceinline__ void init_part(SharedPlan &shared, int part) {
    for (int tile = part; tile < kTiles; tile += kSplit) {
        init(shared.q_barriers[tile], kSplit);
        ws::mbarrier_init(&shared.q_first_slab[tile], 1);
    }
    ws::mbarrier_init(&shared.k_first_slab[part], 1);
    init(shared.k_barriers[part], kTiles);
    init(shared.v_barriers[part], kTiles);
    ws::fence_mbarrier_init();
    ws::fence_proxy_async();
}

__device__ __forceinline__ void init_exchange(SharedPlan &shared) {
    for (int tile = 0; tile < kTiles; tile++) {
        ws::mbarrier_init(&shared.written[tile], kSplit * kWarpgroup);
        ws::mbarrier_init(&shared.read[tile], kSplit * kWarpgroup);
    }
    ws::mbarrier_init(&shared.done, 4 * kConsumers);
    shared.again = 0;
    ws::fence_mbarrier_init();
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    attention_fwd(const Element *q, const Element *k, const Element *v, Element *o, int b, int h, int s, int d_runtime,
                  int causal_runtime, int bf16_runtime, float scale, const __grid_constant__ ws::TensorMap q_map,
                  const __grid_constant__ ws::TensorMap k_map, const __grid_constant__ ws::TensorMap v_map) {
    WS_STAMP(ws::kEntered);
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    SharedPlan &shared = *reinterpret_cast<SharedPlan *>(shared_bytes);
    int n_heads = b * h;
    // From one lane, so that the compiler knows that the whole warp has the same.
    int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
    int producer_warp = warp - kConsumers * 4;
    Group first_group = group_of(blockIdx.x, 0, n_heads, s);
    // Addresses that are known at compile time, and an election right before: otherwise the compiler puts a loop around
    // each load, in case that threads disagree.
#pragma unroll
    for (int part = 0; part < kSplit; part++) {
        if (producer_warp == part) {
            if (ws::elect_one()) {
                init_part(shared, part);
                load_first(shared, first_group, part, q_map, k_map);
                WS_STAMP(ws::kAsked);
            }
        }
    }
    if (warp == 1 && ws::elect_one()) {
        ws::tma_prefetch_map(q_map);
        ws::tma_prefetch_map(k_map);
        ws::tma_prefetch_map(v_map);
    }
    if (threadIdx.x == 0) {
        init_exchange(shared);
    }
    __syncthreads();

    if (producer_warp >= 0) {
        ws::setmaxnreg_dec<kProducerRegisters>();
        if (producer_warp < kSplit) {
            if (ws::elect_one()) {
                load_rest(shared, first_group, producer_warp, k_map, v_map);
                Producer producer = make_producer(producer_warp, first_group);
                produce<1>(producer, shared, n_heads, s, q_map, k_map, v_map);
                if (must_repeat(&shared.done, &shared.again)) {
                    produce<2>(producer, shared, n_heads, s, q_map, k_map, v_map);
                }
            }
        }
    } else {
        ws::setmaxnreg_inc<kConsumerRegisters>();
        Consumer self = make_consumer(shared, scale);
        bool again = false;
        do {
            consume(self, shared, o, n_heads, s, again);
            again = !again && must_repeat(&shared.done, &shared.again);
        } while (again);
        WS_STAMP(ws::kLeft);
    }
}

#endif
