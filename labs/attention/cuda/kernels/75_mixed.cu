// O = softmax(scale Q Kᵀ) V on Hopper for long sequences: the tensor cores are never to wait.
// Layout: q, k, v, o are (B, H, S, D) row-major, f16 or bf16. With a causal mask query i sees the keys 0..i.
// Serves every S and D = 64 or 128, for scale > 0.
//
// Changed since 70_pingpong: a consumer mixes the exponentials of a tile of keys with the products of its neighbours
// (attention_step.cuh). So tensor cores and special function unit work at the same time, and consumers take no turns.
// Blocks stay under a causal mask too: each asks a counter for its next tile, longest first.
#include "attention_step.cuh"
#include "ptx/barrier.cuh"
#include "ptx/tma.cuh"

constexpr int kHeadDim = D;
constexpr bool kCausal = CAUSAL != 0;
constexpr bool kBf16 = BF16 != 0;
constexpr int kConsumers = CONSUMERS;
constexpr int kBlockM = 64 * kConsumers; // queries
constexpr int kBlockN = BN;              // keys
constexpr int kStages = STAGES;
constexpr bool kWeightsInShared = P_SHARED != 0; // else in registers, for the second product
constexpr int kPoly = POLY;       // of 8 exponentials
constexpr int kWarpgroup = 128;
constexpr int kThreads = kWarpgroup * (1 + kConsumers);
constexpr int kSlab = 64; // elements in a 128-byte row, the width of the swizzle
constexpr int kSlabs = kHeadDim / kSlab;

static_assert(kHeadDim == 64 || kHeadDim == 128, "a head is one or two 128-byte slabs");
static_assert(kConsumers >= 1 && kConsumers <= 3, "more consumers leave too few registers for each");
static_assert(kBlockN % 16 == 0 && kBlockN >= 64 && kBlockN <= 256, "keys come in steps of one product's depth");
static_assert(kStages >= 2, "one stage would serialise copies and products");

// What a thread holds in each role; together they fill the register file. One consumer leaves room for two blocks.
constexpr int kBlocksPerSm = kConsumers == 1 ? 2 : 1;
constexpr int kProducerRegisters = kConsumers == 3 ? 32 : 24;
constexpr int kConsumerRegisters = kConsumers == 1 ? 232 : kConsumers == 2 ? 240 : 160;

#if BF16
typedef __nv_bfloat16 Element;
#else
typedef __half Element;
#endif

typedef ws::AttentionStep<kBf16, kHeadDim, kBlockN, kPoly, kWeightsInShared> Step;
typedef Element QueryTile[kSlabs][kBlockM][kSlab]; // (slab, query, dim % 64), swizzled
typedef Element KeyTile[kSlabs][kBlockN][kSlab];   // (slab, key, dim % 64), swizzled

template <int kCount>
struct Barriers {
    ws::Mbarrier full[kCount], empty[kCount];
};

// A consumer's weights. There is always one, for its address.
typedef unsigned char WeightTile[Step::kWeightBytes > 0 ? Step::kWeightBytes : 1024];

struct SharedPlan {
    QueryTile q;
    KeyTile k[kStages];
    KeyTile v[kStages];
    WeightTile p[kConsumers];
    int tile_index; // of Q, or past the last tile; comes and goes with Q
    Barriers<1> q_barriers;
    Barriers<kStages> k_barriers, v_barriers;
};
static_assert(sizeof(QueryTile) % 1024 == 0 && sizeof(KeyTile) % 1024 == 0, "tiles keep the swizzle's alignment");
static_assert(sizeof(SharedPlan) <= (kBlockM + 2 * kStages * kBlockN) * kHeadDim * 2 +
                                        kConsumers * (kWeightsInShared ? (kBlockN + 63) / 64 * 8192 : 1024) + 256,
              "as in the contract");

// A place in a ring of stages, counted on.
struct RingPosition {
    unsigned n_passed = 0;

    __device__ __forceinline__ int stage() const {
        return n_passed % kStages;
    }

    __device__ __forceinline__ unsigned parity() const {
        return n_passed / kStages % 2;
    }
};

// --- Which tile of queries ---------------------------------------------------------------------------------------

struct Tile {
    int head;        // of B * H
    int first_query;
    int n_key_tiles;
};

// How many tiles blocks have asked for beyond their first, and how many blocks have found none. Zero between launches.
__device__ int n_taken, n_done;

__device__ __forceinline__ int take_tile() {
    return gridDim.x + atomicAdd(&n_taken, 1);
}

// The last block leaves both counters as it found them.
__device__ __forceinline__ void stop_taking() {
    if (atomicAdd(&n_done, 1) == gridDim.x - 1) {
        n_taken = 0;
        n_done = 0;
    }
}

__device__ __forceinline__ Tile decode_tile(int index, int n_heads, int s) {
    int per_head = (s + kBlockM - 1) / kBlockM;
    Tile tile;
    int query_tile;
    if (kCausal) {
        // Longest first, so that the short ones fill the end; a few heads at a time, so that their K and V stay in L2.
        constexpr int kL2Bytes = 32 << 20;
        int group = kL2Bytes / (s * kHeadDim * 4);
        group = group < 1 ? 1 : group > n_heads ? n_heads : group;
        int group_first = index / (group * per_head) * group;
        int rest = index % (group * per_head);
        group = group < n_heads - group_first ? group : n_heads - group_first;
        tile.head = group_first + rest % group;
        query_tile = per_head - 1 - rest / group;
    } else {
        tile.head = index / per_head;
        query_tile = index % per_head;
    }
    tile.first_query = query_tile * kBlockM;
    int n_keys = kCausal && tile.first_query + kBlockM < s ? tile.first_query + kBlockM : s;
    tile.n_key_tiles = (n_keys + kBlockN - 1) / kBlockN;
    return tile;
}

// --- Producer ----------------------------------------------------------------------------------------------------

// Loads rows from row0 on of a head into a tile that nobody uses.
template <typename SomeTile>
__device__ __forceinline__ void load(SomeTile &tile, const ws::TensorMap &map, ws::Mbarrier *full, int row0, int head) {
    ws::mbarrier_arrive_expect_tx(full, sizeof(SomeTile));
#pragma unroll
    for (int slab = 0; slab < kSlabs; slab++) {
        ws::tma_load_3d(tile[slab], map, full, slab * kSlab, row0, head);
    }
}

__device__ __forceinline__ void load_keys(KeyTile *ring, Barriers<kStages> &barriers, RingPosition &at,
                                          const ws::TensorMap &map, int key, int head) {
    ws::mbarrier_wait(&barriers.empty[at.stage()], at.parity() ^ 1);
    load(ring[at.stage()], map, &barriers.full[at.stage()], key, head);
    at.n_passed++;
}

// The first tile's Q and last K, before the block splits into roles, which takes a while.
__device__ __forceinline__ void load_first(SharedPlan &shared, int n_heads, int s, const ws::TensorMap &q_map,
                                           const ws::TensorMap &k_map) {
    Tile tile = decode_tile(blockIdx.x, n_heads, s);
    shared.tile_index = blockIdx.x;
    load(shared.q, q_map, shared.q_barriers.full, tile.first_query, tile.head);
    load(shared.k[0], k_map, &shared.k_barriers.full[0], (tile.n_key_tiles - 1) * kBlockN, tile.head);
}

// All else, in the order of use: the keys' last tile first, K one tile ahead of V.
__device__ __forceinline__ void produce(SharedPlan &shared, int n_tiles, int n_heads, int s, const ws::TensorMap &q_map,
                                        const ws::TensorMap &k_map, const ws::TensorMap &v_map) {
    RingPosition k_at, v_at;
    unsigned q_parity = 0;
    int index = blockIdx.x;
    while (index < n_tiles) {
        int next = take_tile(); // early, because it takes a while
        Tile tile = decode_tile(index, n_heads, s);
        bool is_first = index == blockIdx.x;
        for (int i = tile.n_key_tiles - 1; i >= -1; i--) {
            if (i == tile.n_key_tiles - 1 && is_first) {
                k_at.n_passed++;
            } else if (i >= 0) {
                load_keys(shared.k, shared.k_barriers, k_at, k_map, i * kBlockN, tile.head);
            }
            if (i + 1 < tile.n_key_tiles) {
                load_keys(shared.v, shared.v_barriers, v_at, v_map, (i + 1) * kBlockN, tile.head);
            }
        }
        index = next;
        ws::mbarrier_wait(shared.q_barriers.empty, q_parity);
        q_parity ^= 1;
        shared.tile_index = index;
        if (index < n_tiles) {
            Tile next_tile = decode_tile(index, n_heads, s);
            load(shared.q, q_map, shared.q_barriers.full, next_tile.first_query, next_tile.head);
        } else {
            ws::mbarrier_arrive(shared.q_barriers.full);
        }
    }
    stop_taking();
}

// --- Consumer: output --------------------------------------------------------------------------------------------

// Divides by the sums and stores 16 bytes a lane, 64 a row. `o` is the warpgroup's first row.
__device__ __forceinline__ void store_output(const Step &step, Element *o, int n_queries, int thread) {
    int lane = thread % 32;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float sum = step.sum[row];
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
        float inverse = ws::rcp_approx(sum);
        int query = thread / 32 * 16 + lane / 4 + 8 * row;
#pragma unroll
        for (int part = 0; part < kHeadDim / 32; part++) {
            unsigned words[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int at = (part * 4 + i) * 4 + 2 * row;
                words[i] = ws::pack<kBf16>(step.output[at] * inverse, step.output[at + 1] * inverse);
            }
            ws::transpose_quad(words, lane);
            if (query < n_queries) {
                int to = query * (kHeadDim / 8) + part * 4 + lane % 4;
                reinterpret_cast<uint4 *>(o)[to] = make_uint4(words[0], words[1], words[2], words[3]);
            }
        }
    }
}

// --- Consumer ----------------------------------------------------------------------------------------------------

// One warpgroup's part of a tile.
struct Consumer {
    typename Step::Operands stage0; // K and V are of stage 0
    int thread;                     // in the warpgroup
    int first_query;
    int s;
    int key_tile;                   // the one whose scores are ready; they run downwards
    RingPosition k_at, v_at;        // of the next product
    Step step;
};

// One arrival a warp: each has seen its own products finish.
__device__ __forceinline__ void release(ws::Mbarrier *empty, int thread) {
    if (thread % 32 == 0) {
        ws::mbarrier_arrive(empty);
    }
}

__device__ __forceinline__ void wait_for(const Barriers<kStages> &barriers, const RingPosition &at) {
    ws::mbarrier_wait(const_cast<ws::Mbarrier *>(&barriers.full[at.stage()]), at.parity());
}

__device__ __forceinline__ void finish(Barriers<kStages> &barriers, RingPosition &at, int thread) {
    release(&barriers.empty[at.stage()], thread);
    at.n_passed++;
}

__device__ __forceinline__ typename Step::Operands operands(const Consumer &self) {
    typename Step::Operands result = self.stage0;
    result.k = ws::descriptor_advance(result.k, self.k_at.stage() * sizeof(KeyTile));
    result.v = ws::descriptor_advance(result.v, self.v_at.stage() * sizeof(KeyTile));
    return result;
}

__device__ __forceinline__ void mask_tile(const Consumer &self, typename Step::Scores &scores) {
    int first_key = self.key_tile * kBlockN;
    int last_key = first_key + kBlockN - 1;
    if (__builtin_expect(last_key >= self.s || (kCausal && last_key > self.first_query), false)) {
        int key = first_key + self.thread % 4 * 2;
        int query = self.first_query + self.thread / 32 * 16 + self.thread % 32 / 4;
        ws::mask_scores<kCausal>(scores, query + 1 - key, self.s - key);
    }
}

// Adds the tile of keys whose scores are ready, beside the next one's scores and the output of the one before.
template <bool kBefore, bool kNext>
__device__ __forceinline__ void add_tile(Consumer &self, SharedPlan &shared, typename Step::Scores &scores,
                                         typename Step::Scores &next_scores) {
    mask_tile(self, scores);
    if (kNext) {
        wait_for(shared.k_barriers, self.k_at);
    }
    if (kBefore) {
        wait_for(shared.v_barriers, self.v_at);
    }
    const Barriers<kStages> &barriers = kNext ? shared.k_barriers : shared.v_barriers;
    const RingPosition &at = kNext ? self.k_at : self.v_at;
    self.step.template add_tile<kBefore, kNext>(scores, next_scores, operands(self),
                                                const_cast<ws::Mbarrier *>(&barriers.full[at.stage()]), at.parity());
    if (kNext) {
        finish(shared.k_barriers, self.k_at, self.thread);
        self.key_tile--;
    }
    if (kBefore) {
        finish(shared.v_barriers, self.v_at, self.thread);
    }
}

// All tiles of keys, from the last one on. Q is free when the last scores are ready.
__device__ __forceinline__ void add_tiles(Consumer &self, SharedPlan &shared) {
    typename Step::Scores scores[2];
    wait_for(shared.k_barriers, self.k_at);
    Step::first_scores(scores[0], operands(self));
    finish(shared.k_barriers, self.k_at, self.thread);
    if (self.key_tile == 0) {
        release(shared.q_barriers.empty, self.thread);
        add_tile<false, false>(self, shared, scores[0], scores[1]);
    } else {
        add_tile<false, true>(self, shared, scores[0], scores[1]);
        while (self.key_tile > 1) {
            add_tile<true, true>(self, shared, scores[1], scores[0]);
            add_tile<true, true>(self, shared, scores[0], scores[1]);
        }
        if (self.key_tile == 1) {
            add_tile<true, true>(self, shared, scores[1], scores[0]);
            release(shared.q_barriers.empty, self.thread);
            add_tile<true, false>(self, shared, scores[0], scores[1]);
        } else {
            release(shared.q_barriers.empty, self.thread);
            add_tile<true, false>(self, shared, scores[1], scores[0]);
        }
    }
    wait_for(shared.v_barriers, self.v_at);
    self.step.last_output(operands(self));
    finish(shared.v_barriers, self.v_at, self.thread);
}

__device__ __forceinline__ void consume(SharedPlan &shared, Element *o, int n_tiles, int n_heads, int s, float scale) {
    Consumer self;
    // From one lane, so that the compiler knows that the whole warp has the same.
    int consumer = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / kWarpgroup - 1, 0);
    self.stage0 = {ws::descriptor_k_major(shared.q[0][consumer * 64]), ws::descriptor_k_major(shared.k[0]),
                   ws::descriptor_n_major(shared.v[0], kBlockN * kSlab * 2),
                   ws::descriptor_k_major(&shared.p[consumer]), kBlockM * kSlab * 2, kBlockN * kSlab * 2};
    self.thread = threadIdx.x % kWarpgroup;
    self.s = s;
    unsigned q_parity = 0;
    while (true) {
        ws::mbarrier_wait(shared.q_barriers.full, q_parity);
        q_parity ^= 1;
        int index = __shfl_sync(0xFFFFFFFFu, shared.tile_index, 0);
        if (index >= n_tiles) {
            break;
        }
        Tile tile = decode_tile(index, n_heads, s);
        self.first_query = tile.first_query + consumer * 64;
        self.key_tile = tile.n_key_tiles - 1;
        self.step.begin(scale, &shared.p[consumer], self.thread);
        add_tiles(self, shared);
        long long offset = (static_cast<long long>(tile.head) * s + self.first_query) * kHeadDim;
        store_output(self.step, o + offset, s - self.first_query, self.thread);
    }
}

// --- Kernel ------------------------------------------------------------------------------------------------------

// The producer's one thread fills, and every consumer warp empties.
template <int kCount>
__device__ __forceinline__ void init(Barriers<kCount> &barriers) {
    for (int i = 0; i < kCount; i++) {
        ws::mbarrier_init(&barriers.full[i], 1);
        ws::mbarrier_init(&barriers.empty[i], 4 * kConsumers);
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    attention_fwd(const Element *q, const Element *k, const Element *v, Element *o, int b, int h, int s, int d_runtime,
                  int causal_runtime, int bf16_runtime, float scale, const __grid_constant__ ws::TensorMap q_map,
                  const __grid_constant__ ws::TensorMap k_map, const __grid_constant__ ws::TensorMap v_map) {
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    SharedPlan &shared = *reinterpret_cast<SharedPlan *>(shared_bytes);
    int n_heads = b * h;
    int n_tiles = n_heads * ((s + kBlockM - 1) / kBlockM);
    if (threadIdx.x == 0) {
        ws::tma_prefetch_map(q_map);
        ws::tma_prefetch_map(k_map);
        ws::tma_prefetch_map(v_map);
        init(shared.q_barriers);
        init(shared.k_barriers);
        init(shared.v_barriers);
        ws::fence_mbarrier_init();
        ws::fence_proxy_async();
        load_first(shared, n_heads, s, q_map, k_map);
    }
    __syncthreads();

    if (threadIdx.x < kWarpgroup) {
        ws::setmaxnreg_dec<kProducerRegisters>();
        if (threadIdx.x == 0) {
            produce(shared, n_tiles, n_heads, s, q_map, k_map, v_map);
        }
    } else {
        ws::setmaxnreg_inc<kConsumerRegisters>();
        consume(shared, o, n_tiles, n_heads, s, scale);
    }
}
