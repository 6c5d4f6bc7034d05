// What 90_zero_reference and 95_zero_reference_wide load, and which block computes what: tiles, rings of slots, the producers. sm_90a.
//
// A block has TILES tiles of 64 queries at a time, and SPLIT warpgroups for each: the keys' chunks go round among them.
// Chunks count from the end of the keys. Every part of the keys has a ring of slots and a thread that fills it.
//
// Parameters are macros, as the contracts set them: D, CAUSAL, BF16, TILES, SPLIT, BN, SLOTS, QUERY_SLOTS, BLOCKS,
// TURNS and AHEAD.
#ifndef WS_ZERO_REFERENCE_LOAD_CUH
#define WS_ZERO_REFERENCE_LOAD_CUH

constexpr int kHeadDim = D;
constexpr bool kCausal = CAUSAL != 0;
constexpr bool kBf16 = BF16 != 0;
constexpr int kTiles = TILES;
constexpr int kSplit = SPLIT;
constexpr int kConsumers = kTiles * kSplit;
constexpr int kTileM = 64;
constexpr int kQueryRows = kTileM;
constexpr int kBlockM = kTileM * kTiles; // queries
constexpr int kBlockN = BN;              // keys
constexpr int kSlots = SLOTS;            // of a part's ring
constexpr int kQuerySlots = QUERY_SLOTS; // of a tile's: the next ones may come while these are in use
constexpr bool kTurns = TURNS != 0 && kConsumers > 1;
constexpr int kBlocksPerSm = BLOCKS;
constexpr bool kAhead = AHEAD != 0;
// Four warpgroups have no registers to spare for their queries, and multiply them from shared memory.
constexpr bool kQueriesInRegisters = kConsumers <= 2;
// Output leaves through the shared memory that held the queries, in whole rows. Not where keys are split: a part stores
// a share of each row, and others may still read the queries. Nor with two blocks: no gain.
constexpr bool kStaged = kSplit == 1 && kBlocksPerSm == 1;
// Under a causal mask a long group of tiles and a short one belong together: in one block that stays, or in two that
// share a multiprocessor.
constexpr bool kPairs = kCausal && kBlocksPerSm == 1;
constexpr bool kFold = kCausal && kBlocksPerSm == 2;

#include "stamps.cuh"
#include "warpgroup_tiles.cuh"
#include "additive_softmax.cuh"

// Consumers, then a warpgroup of producers, which leaves most of its registers to them.
constexpr int kThreads = kWarpgroup * (kConsumers + 1);
constexpr int kTileValues = kHeadDim / 2; // of each thread in a tile's output
constexpr int kRowValues = kTileValues / 2;
constexpr int kShare = kTileValues / kSplit; // of each thread after the parts are merged

static_assert(kSplit == 1 || kSplit == 2 || kSplit == 4, "a share is stored 16 bytes a lane");
static_assert(kBlocksPerSm == 2 ? kConsumers == 1 : kConsumers == 2 || kConsumers == 4,
              "registers are dealt out for these");

// What a thread holds in each role; together as many as the block starts with.
constexpr int kProducerRegisters = kConsumers <= 2 ? 40 : 32;
constexpr int kConsumerRegisters = kConsumers == 1 ? 216 : kConsumers == 2 ? 232 : 112;

// What the other parts send to one: its share of their output.
typedef ws::ValueInbox<kShare, kSplit - 1> Inbox;

struct SharedPlan {
    QueryTile q[kTiles][kQuerySlots];
    KeyTile k[kSplit][kSlots];
    KeyTile v[kSplit][kSlots];
    Inbox inboxes[kConsumers];
    float row_values[kConsumers][kTileM]; // of each part: its rows' sums, or largest scores
    Barriers<kQuerySlots> q_barriers[kTiles];
    Barriers<kSlots> k_barriers[kSplit], v_barriers[kSplit];
    ws::Mbarrier q_first_slab[kTiles], k_first_slab[kSplit]; // of the first queries and keys, where there are two slabs
    ws::Mbarrier written[kTiles], read[kTiles]; // what the parts of a tile exchange
    ws::Mbarrier done; // when all consumers are through with the tiles
    int again;         // whether one of them found that references of 0 will not do
};
static_assert(sizeof(SharedPlan) <= (kQuerySlots * kBlockM + 2 * kSplit * kSlots * kBlockN) * kHeadDim * 2 +
                                        kTiles * (kSplit - 1) * kTileM * kHeadDim * 4 +
                                        kConsumers * kTileM * 4 + 512,
              "as in the contract");

// --- Which tiles of queries --------------------------------------------------------------------------------------

// The tiles that a block has at a time; as many keys as the last of them sees.
struct Group {
    int head; // of B * H
    int first_query;
    int n_chunks;
};

__device__ __forceinline__ Group make_group(int head, int index, int s) {
    Group group = {head, index * kBlockM, 0};
    int n_keys = kCausal && group.first_query + kBlockM < s ? group.first_query + kBlockM : s;
    group.n_chunks = (n_keys + kBlockN - 1) / kBlockN;
    return group;
}

__device__ __forceinline__ int groups_per_head(int s) {
    return (s + kBlockM - 1) / kBlockM;
}

// Items go round among the blocks: a group each, or a pair of them in two rounds.
__device__ __forceinline__ int items_per_head(int s) {
    return kPairs ? (groups_per_head(s) + 1) / 2 : groups_per_head(s);
}

__device__ __forceinline__ int item_in_round(int round) {
    return blockIdx.x + (kPairs ? round / 2 : round) * gridDim.x;
}

// The group of an item in a round. The last pair of a head may have only one: then the other has no chunks.
__device__ __forceinline__ Group group_of(int item, int round, int n_heads, int s) {
    if (kFold) {
        // The later half of the blocks come to multiprocessors in the same order as the first. Longest first.
        int half = (gridDim.x + 1) / 2;
        int index = item < half ? item : gridDim.x - 1 - (item - half);
        return make_group(index % n_heads, groups_per_head(s) - 1 - index / n_heads, s);
    }
    int per_head = items_per_head(s);
    if (!kPairs) {
        return make_group(item / per_head, item % per_head, s);
    }
    // The longest of a head with its shortest, and so on: all pairs take about as long.
    int shorter = item % per_head;
    int longer = groups_per_head(s) - 1 - shorter;
    Group group = make_group(item / per_head, round % 2 == 0 ? longer : shorter, s);
    group.n_chunks = round % 2 != 0 && shorter == longer ? 0 : group.n_chunks;
    return group;
}

// --- Loads -------------------------------------------------------------------------------------------------------

// A part's keys and values number `slot`, into its empty rings, if there are so many.
__device__ __forceinline__ int chunk_in_slot(const Group &group, int part, int slot) {
    return group.n_chunks - 1 - part - slot * kSplit;
}

__device__ __forceinline__ void ask_for_keys(SharedPlan &shared, const Group &group, int part, int slot,
                                             const ws::TensorMap &k_map) {
    int chunk = chunk_in_slot(group, part, slot);
    if (chunk >= 0) {
        ask(shared.k[part][slot], &shared.k_barriers[part].full[slot], k_map, chunk * kBlockN, group.head);
    }
}

__device__ __forceinline__ void ask_for_values(SharedPlan &shared, const Group &group, int part, int slot,
                                               const ws::TensorMap &v_map) {
    int chunk = chunk_in_slot(group, part, slot);
    if (chunk >= 0) {
        ask(shared.v[part][slot], &shared.v_barriers[part].full[slot], v_map, chunk * kBlockN, group.head);
    }
}

// Which part's queries, too, are loaded with a part of the keys.
__device__ __forceinline__ bool loads_queries(int part, int tile) {
    return part == tile % kSplit;
}

// The first queries and keys come slab by slab: products of the first one run while the second is on its way. It counts
// at the ring's barrier, as later loads do, and the slab before at its own.
template <typename SomeTile>
__device__ __forceinline__ void expect_first(ws::Mbarrier *full, ws::Mbarrier *first_slab) {
    ws::mbarrier_arrive_expect_tx(full, sizeof(SomeTile) / kSlabs);
    if (kSlabs == 2) {
        ws::mbarrier_arrive_expect_tx(first_slab, sizeof(SomeTile) / 2);
    }
}

template <typename SomeTile>
__device__ __forceinline__ void ask_for_slab(int slab, SomeTile &tile, ws::Mbarrier *full, ws::Mbarrier *first_slab,
                                             const ws::TensorMap &map, int row0, int head) {
    ws::tma_load_3d(tile[slab], map, slab == kSlabs - 1 ? full : first_slab, slab * kSlab, row0, head);
}

__device__ __forceinline__ void ask_for_first_queries(SharedPlan &shared, const Group &group, int part, int tile,
                                                      int slab, const ws::TensorMap &q_map) {
    if (loads_queries(part, tile)) {
        ask_for_slab(slab, shared.q[tile][0], &shared.q_barriers[tile].full[0], &shared.q_first_slab[tile], q_map,
                     group.first_query + tile * kTileM, group.head);
    }
}

__device__ __forceinline__ void ask_for_first_keys(SharedPlan &shared, const Group &group, int part, int slab,
                                                   const ws::TensorMap &k_map) {
    int chunk = chunk_in_slot(group, part, 0);
    if (chunk >= 0) {
        ask_for_slab(slab, shared.k[part][0], &shared.k_barriers[part].full[0], &shared.k_first_slab[part], k_map,
                     chunk * kBlockN, group.head);
    }
}

// Queries and the first keys, before anything else happens. All barriers are told first, which keeps the loads close
// together.
__device__ __forceinline__ void load_first(SharedPlan &shared, const Group &group, int part,
                                           const ws::TensorMap &q_map, const ws::TensorMap &k_map) {
#pragma unroll
    for (int tile = 0; tile < kTiles; tile++) {
        if (loads_queries(part, tile)) {
            expect_first<QueryTile>(&shared.q_barriers[tile].full[0], &shared.q_first_slab[tile]);
        }
    }
#pragma unroll
    for (int slot = 0; slot < kSlots; slot++) {
        if (chunk_in_slot(group, part, slot) >= 0) {
            if (slot == 0) {
                expect_first<KeyTile>(&shared.k_barriers[part].full[0], &shared.k_first_slab[part]);
            } else {
                ws::mbarrier_arrive_expect_tx(&shared.k_barriers[part].full[slot], sizeof(KeyTile));
            }
            ws::mbarrier_arrive_expect_tx(&shared.v_barriers[part].full[slot], sizeof(KeyTile));
        }
    }
    // Keys before other tiles' queries: the copy engine takes one after the other.
#pragma unroll
    for (int slab = 0; slab < kSlabs; slab++) {
        ask_for_first_queries(shared, group, part, 0, slab, q_map);
        ask_for_first_keys(shared, group, part, slab, k_map);
    }
#pragma unroll
    for (int tile = 1; tile < kTiles; tile++) {
#pragma unroll
        for (int slab = 0; slab < kSlabs; slab++) {
            ask_for_first_queries(shared, group, part, tile, slab, q_map);
        }
    }
}

// What else fits, when these have come: asked for at once, it may keep other blocks' first keys waiting. kAhead: when
// the block has met, while they are under way.
__device__ __forceinline__ void load_rest(SharedPlan &shared, const Group &group, int part, const ws::TensorMap &k_map,
                                          const ws::TensorMap &v_map) {
    if (chunk_in_slot(group, part, 0) < 0) {
        return;
    }
    if (!kAhead) {
        ws::mbarrier_wait(&shared.k_barriers[part].full[0], 0);
    }
#pragma unroll
    for (int slot = 0; slot < kSlots; slot++) {
        if (slot > 0) {
            ask_for_keys(shared, group, part, slot, k_map);
        }
        ask_for_values(shared, group, part, slot, v_map);
    }
}

// --- Producers: a thread for each part ---------------------------------------------------------------------------

struct Producer {
    int part;
    RingPosition<kQuerySlots> q_at;
    RingPosition<kSlots> k_at, v_at;
};

// What fits at first is behind it.
__device__ __forceinline__ Producer make_producer(int part, const Group &group) {
    Producer self;
    self.part = part;
    self.q_at.advance();
#pragma unroll
    for (int slot = 0; slot < kSlots; slot++) {
        if (chunk_in_slot(group, part, slot) >= 0) {
            self.k_at.advance();
            self.v_at.advance();
        }
    }
    return self;
}

// Loads a part of the block's tiles in the order of use. kPasses: through the keys of each group.
template <int kPasses>
__device__ __forceinline__ void produce(Producer &self, SharedPlan &shared, int n_heads, int s,
                                        const ws::TensorMap &q_map, const ws::TensorMap &k_map,
                                        const ws::TensorMap &v_map) {
    int n_items = n_heads * items_per_head(s);
    for (int round = 0; item_in_round(round) < n_items; round++) {
        Group group = group_of(item_in_round(round), round, n_heads, s);
        bool asked = kPasses == 1 && round == 0; // for what fits at first
        if (!asked && group.n_chunks > 0) {
#pragma unroll
            for (int tile = 0; tile < kTiles; tile++) {
                if (loads_queries(self.part, tile)) {
                    RingPosition<kQuerySlots> q_at = self.q_at;
                    load_next(shared.q[tile], shared.q_barriers[tile], q_at, q_map, group.first_query + tile * kTileM,
                              group.head);
                }
            }
            self.q_at.advance();
        }
        int first = group.n_chunks - 1 - self.part - (asked ? kSplit * kSlots : 0);
        for (int pass = 0; pass < kPasses; pass++) {
            for (int chunk = first; chunk >= 0; chunk -= kSplit) {
                int key = chunk * kBlockN;
                load_next(shared.k[self.part], shared.k_barriers[self.part], self.k_at, k_map, key, group.head);
                load_next(shared.v[self.part], shared.v_barriers[self.part], self.v_at, v_map, key, group.head);
            }
        }
    }
}

#endif
