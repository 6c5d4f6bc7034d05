// O = softmax(scale Q Kᵀ) V on Hopper for long sequences: the tensor cores are never to wait.
// Layout: q, k, v, o are (B, H, S, D) row-major, f16 or bf16. With a causal mask query i sees the keys 0..i.
// Serves every S and D = 64 or 128, for scale > 0.
//
// Changed since 70_pingpong: a consumer starts the product for the next scores before it turns these into weights, with
// registers for both. So it finds its next scores ready, and of two tiles of keys it waits for one output product alone.
// Consumers take no turns.
#include "ptx/barrier.cuh"
#include "ptx/math.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "score_rows.cuh"

constexpr int kHeadDim = D;
constexpr bool kCausal = CAUSAL != 0;
constexpr bool kBf16 = BF16 != 0;
constexpr int kConsumers = CONSUMERS;
constexpr int kBlockM = 64 * kConsumers; // queries
constexpr int kBlockN = BN;              // keys
constexpr int kStages = STAGES;
constexpr int kPoly = POLY;       // of 8 exponentials
constexpr bool kMax3 = MAX3 != 0; // compare scores as integers, three at a time
constexpr float kSlack = 8.0f;    // how far, in powers of two, a row's largest score may exceed its reference
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

typedef Element QueryTile[kSlabs][kBlockM][kSlab]; // (slab, query, dim % 64), swizzled
typedef Element KeyTile[kSlabs][kBlockN][kSlab];   // (slab, key, dim % 64), swizzled

template <int kCount>
struct Barriers {
    ws::Mbarrier full[kCount], empty[kCount];
};

struct SharedPlan {
    QueryTile q;
    KeyTile k[kStages];
    KeyTile v[kStages];
    Barriers<1> q_barriers;
    Barriers<kStages> k_barriers, v_barriers;
};
static_assert(sizeof(QueryTile) % 1024 == 0 && sizeof(KeyTile) % 1024 == 0, "tiles keep the swizzle's alignment");
static_assert(sizeof(SharedPlan) <= (kBlockM + 2 * kStages * kBlockN) * kHeadDim * 2 + 256, "as in the contract");

// A place in a ring of stages, and the parity of the pass.
struct RingPosition {
    int stage = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void advance() {
        stage = stage + 1 == kStages ? 0 : stage + 1;
        parity ^= stage == 0;
    }
};

// --- Which tile of queries ---------------------------------------------------------------------------------------

struct Tile {
    int head;        // of B * H
    int first_query;
    int n_key_tiles;
};

// Of the block's tile in a round; forth and back under a causal mask, where tiles get shorter.
__device__ __forceinline__ int tile_in_round(int round) {
    bool back = kCausal && round % 2 != 0;
    return round * gridDim.x + (back ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
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

// Loads rows from row0 on of a head into a tile, when its last users have left it.
template <typename SomeTile>
__device__ __forceinline__ void load(SomeTile &tile, const ws::TensorMap &map, ws::Mbarrier *full, ws::Mbarrier *empty,
                                     unsigned parity, int row0, int head) {
    ws::mbarrier_wait(empty, parity ^ 1);
    ws::mbarrier_arrive_expect_tx(full, sizeof(SomeTile));
#pragma unroll
    for (int slab = 0; slab < kSlabs; slab++) {
        ws::tma_load_3d(tile[slab], map, full, slab * kSlab, row0, head);
    }
}

__device__ __forceinline__ void load_keys(KeyTile *ring, Barriers<kStages> &barriers, RingPosition &at,
                                          const ws::TensorMap &map, int key, int head) {
    load(ring[at.stage], map, &barriers.full[at.stage], &barriers.empty[at.stage], at.parity, key, head);
    at.advance();
}

// Loads in the order of use: the keys' last tile first, K one tile ahead of V.
__device__ __forceinline__ void produce(SharedPlan &shared, int n_tiles, int n_heads, int s, const ws::TensorMap &q_map,
                                        const ws::TensorMap &k_map, const ws::TensorMap &v_map) {
    RingPosition k_at, v_at;
    unsigned q_parity = 0;
    for (int round = 0; tile_in_round(round) < n_tiles; round++) {
        Tile tile = decode_tile(tile_in_round(round), n_heads, s);
        load(shared.q, q_map, shared.q_barriers.full, shared.q_barriers.empty, q_parity, tile.first_query, tile.head);
        q_parity ^= 1;
        for (int i = tile.n_key_tiles - 1; i >= -1; i--) {
            if (i >= 0) {
                load_keys(shared.k, shared.k_barriers, k_at, k_map, i * kBlockN, tile.head);
            }
            if (i + 1 < tile.n_key_tiles) {
                load_keys(shared.v, shared.v_barriers, v_at, v_map, (i + 1) * kBlockN, tile.head);
            }
        }
    }
}

// --- Consumer: products ------------------------------------------------------------------------------------------

typedef float Scores[kBlockN / 2];         // of one thread: 2 rows (queries g and g + 8), keys 8 j + 2 t + {0, 1}
typedef float Output[kHeadDim / 2];        // likewise, along the head
typedef unsigned Weights[kBlockN / 16][4]; // the scores' exponentials as 16-bit pairs, for the second product

// scores = Q Kᵀ, both K-major; not waited for.
__device__ __forceinline__ void multiply_qk(Scores &scores, ws::Descriptor q, ws::Descriptor k) {
    ws::wgmma_fence_operand(scores);
    ws::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; step++) {
        int slab = step / (kSlab / 16);
        int within = step % (kSlab / 16) * 32;
        ws::wgmma_ss<kBf16, false>(scores, ws::descriptor_advance(q, slab * kBlockM * kSlab * 2 + within),
                                   ws::descriptor_advance(k, slab * kBlockN * kSlab * 2 + within), step > 0);
    }
    ws::wgmma_commit();
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

// --- Consumer: softmax -------------------------------------------------------------------------------------------

// The reference of a row that has seen no key. Finite, so that a masked score, -inf, is below it and weighs nothing.
constexpr float kLowest = -1e30f;

struct Softmax {
    float scale;         // of a score, times log2 e: from here on powers of two
    float reference[2];  // scaled score of each row that its exponentials are relative to
    float sum[2];        // of this thread's exponentials
    float correction[2]; // what the last update multiplies earlier results by
};

// Turns scores into exponentials relative to the reference. Any reference gives the same quotient, so it follows
// the largest score only when that is more than kSlack ahead: then most updates need no correction.
__device__ __forceinline__ void update_softmax(Softmax &softmax, Scores &scores) {
    float largest[2];
    ws::largest_scores<kMax3>(largest, scores);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float found = largest[row] * softmax.scale;
        float ahead = found - softmax.reference[row];
        bool follow = ahead > kSlack;
        softmax.correction[row] = follow ? ws::exp2_approx(-ahead) : 1.0f;
        softmax.reference[row] = follow ? found : softmax.reference[row];

        float sum[2] = {0.0f, 0.0f}; // two chains
#pragma unroll
        for (int i = 0; i < kBlockN / 2; i += 4) {
#pragma unroll
            for (int c = 0; c < 2; c++) {
                float power = scores[i + 2 * row + c] * softmax.scale - softmax.reference[row];
                bool by_polynomial = (i / 4 * 2 + c) % 8 < kPoly;
                float weight = by_polynomial ? ws::exp2_polynomial(power) : ws::exp2_approx(power);
                scores[i + 2 * row + c] = weight;
                sum[c] += weight;
            }
        }
        softmax.sum[row] = softmax.sum[row] * softmax.correction[row] + (sum[0] + sum[1]);
    }
}

__device__ __forceinline__ void pack_weights(Weights &weights, const Scores &scores) {
#pragma unroll
    for (int i = 0; i < kBlockN / 4; i++) {
        weights[i / 4][i % 4] = ws::pack<kBf16>(scores[2 * i], scores[2 * i + 1]);
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

// Divides by the sums and stores 16 bytes a lane, 64 a row. `o` is the warpgroup's first row.
__device__ __forceinline__ void store_output(const Output &output, const Softmax &softmax, Element *o, int n_queries,
                                             int thread) {
    int lane = thread % 32;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float sum = softmax.sum[row];
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
                words[i] = ws::pack<kBf16>(output[at] * inverse, output[at + 1] * inverse);
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
    ws::Descriptor q, k0, v0; // k0 and v0 are of stage 0
    int thread;               // in the warpgroup
    int first_query;
    int s;
    int key_tile;             // the one whose scores are ready; they run downwards
    RingPosition k_at, v_at;
    Softmax softmax;
    Weights weights;
    Output output;
};

// One arrival a warp: each has seen its own products finish.
__device__ __forceinline__ void release(ws::Mbarrier *empty, int thread) {
    if (thread % 32 == 0) {
        ws::mbarrier_arrive(empty);
    }
}

__device__ __forceinline__ void start_scores(Consumer &self, SharedPlan &shared, Scores &scores) {
    ws::mbarrier_wait(&shared.k_barriers.full[self.k_at.stage], self.k_at.parity);
    multiply_qk(scores, self.q, ws::descriptor_advance(self.k0, self.k_at.stage * sizeof(KeyTile)));
}

// kPending: products that were started after the scores'.
template <int kPending>
__device__ __forceinline__ void finish_scores(Consumer &self, SharedPlan &shared, Scores &scores) {
    ws::wgmma_wait<kPending>();
    ws::wgmma_fence_operand(scores);
    release(&shared.k_barriers.empty[self.k_at.stage], self.thread);
    self.k_at.advance();
}

template <int kPending>
__device__ __forceinline__ void finish_output(Consumer &self, SharedPlan &shared) {
    ws::wgmma_wait<kPending>();
    ws::wgmma_fence_operand(self.output);
    ws::wgmma_fence_operand(self.weights);
    release(&shared.v_barriers.empty[self.v_at.stage], self.thread);
    self.v_at.advance();
}

__device__ __forceinline__ void mask_tile(const Consumer &self, Scores &scores) {
    int first_key = self.key_tile * kBlockN;
    int last_key = first_key + kBlockN - 1;
    if (__builtin_expect(last_key >= self.s || (kCausal && last_key > self.first_query), false)) {
        int key = first_key + self.thread % 4 * 2;
        int query = self.first_query + self.thread / 32 * 16 + self.thread % 32 / 4;
        ws::mask_scores<kCausal>(scores, query + 1 - key, self.s - key);
    }
}

// Adds a tile of keys whose scores are ready. kNext: another follows, whose scores are ready at the end. kBefore: the
// output of the one before is under way.
template <bool kBefore, bool kNext>
__device__ __forceinline__ void add_tile(Consumer &self, SharedPlan &shared, Scores &scores, Scores &next_scores) {
    if constexpr (kNext) {
        start_scores(self, shared, next_scores);
    }
    mask_tile(self, scores);
    update_softmax(self.softmax, scores);
    int v_stage = self.v_at.stage;
    unsigned v_parity = self.v_at.parity;
    if (kBefore) { // the stage after the one that is still in use
        v_parity ^= v_stage + 1 == kStages;
        v_stage = v_stage + 1 == kStages ? 0 : v_stage + 1;
    }
    // Sums are positive, so this adds nothing, but the compiler puts the wait before the exponentials otherwise.
    unsigned sign_bits = __float_as_int(self.softmax.sum[0]) & __float_as_int(self.softmax.sum[1]) & 0x80000000;
    ws::mbarrier_wait(&shared.v_barriers.full[v_stage], v_parity + (sign_bits >> 31));
    if constexpr (kBefore) {
        finish_output<kNext ? 1 : 0>(self, shared);
    }
    pack_weights(self.weights, scores);
    correct_output(self.output, self.softmax);
    multiply_pv(self.output, self.weights, ws::descriptor_advance(self.v0, v_stage * sizeof(KeyTile)));
    if constexpr (kNext) {
        finish_scores<1>(self, shared, next_scores);
        self.key_tile--;
    }
}

__device__ __forceinline__ void consume(SharedPlan &shared, Element *o, int n_tiles, int n_heads, int s, float scale) {
    Consumer self;
    // From one lane, so that the compiler knows that the whole warp has the same.
    int consumer = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / kWarpgroup - 1, 0);
    self.q = ws::descriptor_k_major(shared.q[0][consumer * 64]);
    self.k0 = ws::descriptor_k_major(shared.k[0]);
    self.v0 = ws::descriptor_n_major(shared.v[0], kBlockN * kSlab * 2);
    self.thread = threadIdx.x % kWarpgroup;
    self.s = s;
    unsigned q_parity = 0;

    for (int round = 0; tile_in_round(round) < n_tiles; round++) {
        Tile tile = decode_tile(tile_in_round(round), n_heads, s);
        self.first_query = tile.first_query + consumer * 64;
        self.softmax = {scale * ws::kLog2E, {kLowest, kLowest}, {0.0f, 0.0f}, {1.0f, 1.0f}};
#pragma unroll
        for (int i = 0; i < kHeadDim / 2; i++) {
            self.output[i] = 0.0f;
        }
        self.key_tile = tile.n_key_tiles - 1;
        ws::mbarrier_wait(shared.q_barriers.full, q_parity);
        q_parity ^= 1;
        Scores scores[2];
        start_scores(self, shared, scores[0]);
        finish_scores<0>(self, shared, scores[0]);
        // No product is under way at the end of the loop: the compiler would not let it.
        while (self.key_tile > 1) {
            add_tile<false, true>(self, shared, scores[0], scores[1]);
            add_tile<true, true>(self, shared, scores[1], scores[0]);
            finish_output<0>(self, shared);
        }
        if (self.key_tile == 1) {
            add_tile<false, true>(self, shared, scores[0], scores[1]);
            release(shared.q_barriers.empty, self.thread);
            add_tile<true, false>(self, shared, scores[1], scores[0]);
        } else {
            release(shared.q_barriers.empty, self.thread);
            add_tile<false, false>(self, shared, scores[0], scores[1]);
        }
        finish_output<0>(self, shared);
        long long offset = (static_cast<long long>(tile.head) * s + self.first_query) * kHeadDim;
        store_output(self.output, self.softmax, o + offset, s - self.first_query, self.thread);
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
