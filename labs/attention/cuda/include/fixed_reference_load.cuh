// What 80_fixed_reference and 85_fixed_reference_wide load, and which block computes what: tiles, rings of stages, the producer. sm_90a.
//
// Parameters are macros, as the contracts set them: D, CAUSAL, BF16, CONSUMERS, BLOCKS, BN, STAGES, TURNS
// and PAIRS.
#ifndef WS_FIXED_REFERENCE_LOAD_CUH
#define WS_FIXED_REFERENCE_LOAD_CUH

constexpr int kHeadDim = D;
constexpr bool kCausal = CAUSAL != 0;
constexpr bool kBf16 = BF16 != 0;
constexpr int kConsumers = CONSUMERS;
constexpr int kBlockM = 64 * kConsumers; // queries
constexpr int kQueryRows = kBlockM;
constexpr int kBlockN = BN;              // keys
constexpr int kStages = STAGES;
constexpr int kQueryStages = 2; // the next queries are there when a tile ends
constexpr bool kTurns = TURNS != 0 && kConsumers > 1;
// Under a causal mask a long tile and a short one belong together: in one block that stays (1), or in two that share a
// multiprocessor where all fit at once (2). Else there is a block for each tile, longest first.
constexpr bool kPairs = PAIRS == 1 && kCausal;
constexpr bool kFold = PAIRS == 2;
constexpr float kSlack = 8.0f; // how far, in powers of two, a row's largest score may exceed a reference that follows
// How large a thread's sum over a tile may get, and how small a row's, where the reference stays. No weight is larger
// than the sum it is in, and 16-bit weights reach to 2^16 in half precision; there references are high by kMargin.
constexpr float kLargestSum = kBf16 ? 0x1p30f : 0x1p15f;
constexpr float kSmallestSum = 0x1p-30f;
constexpr float kMargin = kBf16 ? 0.0f : 8.0f;

#include "warpgroup_tiles.cuh"

constexpr int kThreads = kWarpgroup * (kConsumers + 1); // consumers, then the producer

static_assert(kConsumers >= 1 && kConsumers <= 4, "more consumers leave too few registers for each");
static_assert(kStages >= 2, "one stage would serialise copies and products");

// What a thread holds in each role; together as many as the block starts with.
constexpr int kBlocksPerSm = BLOCKS;
constexpr int kProducerRegisters = kConsumers <= 2 ? 40 : 32;
constexpr int kConsumerRegisters = kConsumers == 1 ? 216 : kConsumers == 2 ? 232 : kConsumers == 3 ? 160 : 112;

struct SharedPlan {
    QueryTile q[kQueryStages];
    KeyTile k[kStages];
    KeyTile v[kStages];
    Barriers<kQueryStages> q_barriers;
    Barriers<kStages> k_barriers, v_barriers;
    ws::Mbarrier done; // when all consumers are through with the tiles
    int again;         // whether one of them found that its references must follow
};
static_assert(sizeof(SharedPlan) <= (2 * kBlockM + 2 * kStages * kBlockN) * kHeadDim * 2 + 256, "as in the contract");

// --- Which tile of queries ---------------------------------------------------------------------------------------

struct Tile {
    int head;        // of B * H
    int first_query;
    int n_key_tiles;
};

__device__ __forceinline__ Tile make_tile(int head, int query_tile, int s) {
    Tile tile = {head, query_tile * kBlockM, 0};
    int n_keys = kCausal && tile.first_query + kBlockM < s ? tile.first_query + kBlockM : s;
    tile.n_key_tiles = (n_keys + kBlockN - 1) / kBlockN;
    return tile;
}

// The block's tile in a round; without a head after the last. With pairs it may be without keys.
__device__ __forceinline__ Tile tile_in_round(int round, int n_heads, int s) {
    int per_head = (s + kBlockM - 1) / kBlockM;
    if (kPairs) {
        // The longest tile of a head with its shortest, and so on: all pairs take about as long.
        int n_pairs = (per_head + 1) / 2;
        int index = blockIdx.x + round / 2 * gridDim.x;
        int shorter = index % n_pairs;
        int longer = per_head - 1 - shorter;
        Tile tile = make_tile(index / n_pairs, round % 2 == 0 ? longer : shorter, s);
        tile.n_key_tiles = round % 2 != 0 && shorter == longer ? 0 : tile.n_key_tiles;
        return tile;
    }
    int index = blockIdx.x + round * gridDim.x;
    if (!kCausal) {
        return make_tile(index / per_head, index % per_head, s);
    }
    // The later half of the blocks come to multiprocessors in the same order as the first.
    int half = (gridDim.x + 1) / 2;
    index = kFold && index >= half && round == 0 ? gridDim.x - 1 - (index - half) : index;
    // Longest first, so that the short ones fill the end; a few heads at a time, so that their K and V stay in L2.
    constexpr int kL2Bytes = 32 << 20;
    int group = kL2Bytes / (s * kHeadDim * 4);
    group = group < 1 ? 1 : group > n_heads ? n_heads : group;
    int group_first = index / (group * per_head) * group;
    int rest = index % (group * per_head);
    group = group < n_heads - group_first ? group : n_heads - group_first;
    return group > 0 ? make_tile(group_first + rest % group, per_head - 1 - rest / group, s) : make_tile(n_heads, 0, s);
}

// --- Producer ----------------------------------------------------------------------------------------------------

// Where the producer is in the rings.
struct Producer {
    RingPosition<kQueryStages> q_at;
    RingPosition<kStages> k_at, v_at;
};

// Loads in the order of use: the keys' last tile first, K one tile ahead of V.
__device__ __forceinline__ void produce(Producer &self, SharedPlan &shared, int n_heads, int s,
                                        const ws::TensorMap &q_map, const ws::TensorMap &k_map,
                                        const ws::TensorMap &v_map) {
    for (int round = 0;; round++) {
        Tile tile = tile_in_round(round, n_heads, s);
        if (tile.head >= n_heads) {
            return;
        }
        if (tile.n_key_tiles == 0) {
            continue;
        }
        load_next(shared.q, shared.q_barriers, self.q_at, q_map, tile.first_query, tile.head);
        for (int i = tile.n_key_tiles - 1; i >= -1; i--) {
            if (i >= 0) {
                load_next(shared.k, shared.k_barriers, self.k_at, k_map, i * kBlockN, tile.head);
            }
            if (i + 1 < tile.n_key_tiles) {
                load_next(shared.v, shared.v_barriers, self.v_at, v_map, (i + 1) * kBlockN, tile.head);
            }
        }
    }
}

#endif
