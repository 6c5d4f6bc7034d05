// O = softmax(scale Q Kᵀ) V on Hopper for short sequences, where the time is latency: all loads at once, split keys.
// Layout: q, k, v, o are (B, H, S, D) row-major, f16 or bf16. With a causal mask query i sees the keys 0..i.
// Serves every S and D = 64, for scale > 0; made for S up to about 1024.
//
// Changed since 60_small: threads copy for themselves (cp.async) instead of asking the copy engine, which has to fetch a
// tensor map from device memory before the first byte. Each part loads its own chunks, so only its warpgroups meet.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ptx/async.cuh"
#include "ptx/barrier.cuh"
#include "ptx/math.cuh"
#include "ptx/wgmma.cuh"

constexpr bool kCausal = CAUSAL != 0;
constexpr bool kBf16 = BF16 != 0;
constexpr int kHeadDim = 64;
constexpr int kTileM = 64;         // queries of a tile, a warpgroup's
constexpr int kBlockN = BN;        // keys of a chunk
constexpr int kTiles = TILES;      // of a block, all with the same K and V
constexpr int kSplit = SPLIT;      // warpgroups of a block that share a tile's keys
constexpr int kCluster = CLUSTER;  // blocks that share a tile's keys
constexpr int kSlots = SLOTS;      // chunks of each part that lie in shared memory at once
constexpr bool kAsync = ASYNC != 0; // partial results travel by st.async, else by stores and a cluster barrier

constexpr int kParts = kSplit * kCluster;
constexpr int kWarpgroup = 128;
constexpr int kWarpgroups = kTiles * kSplit;
constexpr int kThreads = kWarpgroup * kWarpgroups;
constexpr int kRowValues = kHeadDim / 4; // of each thread in each of its 2 rows
constexpr int kShare = kHeadDim / 2 / kParts; // values of each thread that a part owns at the end

static_assert(kParts == 1 || kParts == 2 || kParts == 4, "a share is stored 16 bytes a lane");
static_assert(kWarpgroups >= 1 && kWarpgroups <= 4, "more leave too few registers for each");
static_assert(kBlockN == 64 || kBlockN == 128, "whole tiles of queries, and scores that fit in registers");

#if BF16
typedef __nv_bfloat16 Element;
#else
typedef __half Element;
#endif

typedef Element QueryTile[kTileM][kHeadDim]; // (query, dim), swizzled
typedef Element KeyChunk[kBlockN][kHeadDim]; // (key, dim), swizzled

constexpr int kPacketThreads = kParts > 1 ? kWarpgroup : 1; // there are no packets without other parts

// A share of a tile's output on its way to its owner.
struct Packet {
    float4 values[kShare / 4][kPacketThreads];
    float2 reference_and_sum[kPacketThreads]; // of the share's row
};

constexpr int kSenders = kParts > 1 ? kParts - 1 : 1;
struct Inbox {
    Packet packets[kSenders];
};

struct SharedPlan {
    QueryTile q[kTiles];
    KeyChunk k[kSplit][kSlots];
    KeyChunk v[kSplit][kSlots];
    Inbox inbox[kParts > 1 ? kWarpgroups : 1];
    ws::Mbarrier inbox_full[kWarpgroups];
};
constexpr int kInboxBytes = (kParts - 1) * kWarpgroup * (kShare * 4 + 8);
static_assert(kParts == 1 || sizeof(Inbox) == kInboxBytes, "as in the contract");
static_assert(sizeof(SharedPlan) <= kTiles * 8192 + kSplit * kSlots * kBlockN * 256 + kWarpgroups * kInboxBytes + 512,
              "as in the contract");

// --- Who does what -----------------------------------------------------------------------------------------------

struct Place {
    int head;        // of B * H
    int first_query; // of the block
    int n_chunks;    // that any tile of the block sees
    int rank;        // of the block among those that share its tiles
    int s;
};

__device__ __forceinline__ int chunks_until(int first_query_after, int s) {
    int n_keys = kCausal && first_query_after < s ? first_query_after : s;
    return (n_keys + kBlockN - 1) / kBlockN;
}

// Under a causal mask the longest tiles start first.
__device__ __forceinline__ Place find_place(int s) {
    int group = blockIdx.y / kCluster;
    int n_groups = gridDim.y / kCluster;
    int first_query = (kCausal ? n_groups - 1 - group : group) * (kTiles * kTileM);
    return {static_cast<int>(blockIdx.x), first_query, chunks_until(first_query + kTiles * kTileM, s),
            static_cast<int>(blockIdx.y) % kCluster, s};
}

// Neighbouring chunks go to different blocks.
__device__ __forceinline__ int part_of(int warpgroup_rank, int block_rank) {
    return warpgroup_rank * kCluster + block_rank;
}

// --- Loads -------------------------------------------------------------------------------------------------------

// Asks for rows of a head, as many as kThreadCount threads can share out evenly; zeros for those beyond S. Rows are
// swizzled as the tensor cores expect: piece p of row r, 16 bytes, lies where piece p ^ (r % 8) would.
template <int kRows, int kThreadCount>
__device__ __forceinline__ void load_rows(Element *to, const Element *head, int first_row, int s, int thread) {
    constexpr int kPieces = kHeadDim / 8; // of a row
    static_assert(kRows * kPieces % kThreadCount == 0, "as many for each thread");
    int row = thread / kPieces;
    int piece = thread % kPieces;
    unsigned at = ws::shared_address(to) + row * kHeadDim * 2 + (piece ^ row % 8) * 16;
    const Element *from = head + (first_row + row) * static_cast<long long>(kHeadDim) + piece * 8;
#pragma unroll
    for (int i = 0; i < kRows; i += kThreadCount / kPieces) {
        bool inside = first_row + row + i < s; // else nothing is read
        ws::cp_async_16_zero_fill(at + i * kHeadDim * 2, from + i * kHeadDim, inside ? 16 : 0);
    }
}

// --- Softmax -----------------------------------------------------------------------------------------------------

typedef float Scores[kBlockN / 2];         // of one thread: 2 rows (queries g and g + 8), keys 8 j + 2 t + {0, 1}
typedef float Output[kHeadDim / 2];        // likewise, along the head
typedef unsigned Weights[kBlockN / 16][4]; // the scores' exponentials as 16-bit pairs, for the second product

// The reference of a row that has seen no key. Finite, so that a masked score, -inf, is below it and weighs nothing.
constexpr float kLowest = -1e30f;

struct Softmax {
    float scale;        // of a score, times log2 e: from here on powers of two
    float reference[2]; // scaled score of each row that its exponentials are relative to
    float sum[2];       // of this thread's exponentials
};

// Sets the scores of keys that a query must not see to -inf. Both limits count from this thread's first key;
// `n_seen` is for its first row.
__device__ __forceinline__ void mask_scores(Scores &scores, int n_seen, int n_keys) {
#pragma unroll
    for (int i = 0; i < kBlockN / 2; i++) {
        int column = i / 4 * 8 + i % 2;
        int row = i / 2 % 2 * 8;
        bool visible = column < n_keys && (!kCausal || column < n_seen + row);
        scores[i] = visible ? scores[i] : -ws::infinity();
    }
}

// Moves the reference of a row to its largest score and returns what that multiplies earlier results by.
__device__ __forceinline__ float follow_maximum(Softmax &softmax, const Scores &scores, int row) {
    // Four chains: one would wait for itself.
    float largest[4] = {scores[2 * row], scores[2 * row + 1], scores[2 * row + 4], scores[2 * row + 5]};
#pragma unroll
    for (int i = 8; i < kBlockN / 2; i += 4) {
        largest[i / 4 % 2 * 2] = fmaxf(largest[i / 4 % 2 * 2], scores[i + 2 * row]);
        largest[i / 4 % 2 * 2 + 1] = fmaxf(largest[i / 4 % 2 * 2 + 1], scores[i + 2 * row + 1]);
    }
    float found = fmaxf(fmaxf(largest[0], largest[1]), fmaxf(largest[2], largest[3]));
    found = fmaxf(found, __shfl_xor_sync(0xFFFFFFFFu, found, 1));
    found = fmaxf(found, __shfl_xor_sync(0xFFFFFFFFu, found, 2)) * softmax.scale;
    float before = softmax.reference[row];
    softmax.reference[row] = fmaxf(before, found);
    return ws::exp2_approx(before - softmax.reference[row]);
}

__device__ __forceinline__ unsigned pack(float low, float high) {
#if BF16
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
#else
    __half2 pair = __floats2half2_rn(low, high);
#endif
    return *reinterpret_cast<unsigned *>(&pair);
}

// The exponentials of one row of the scores, and their sum.
__device__ __forceinline__ void weigh(Weights &weights, Softmax &softmax, const Scores &scores, int row) {
    float sum[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 2 * row; i < kBlockN / 2; i += 4) {
        float low = ws::exp2_approx(scores[i] * softmax.scale - softmax.reference[row]);
        float high = ws::exp2_approx(scores[i + 1] * softmax.scale - softmax.reference[row]);
        sum[0] += low;
        sum[1] += high;
        weights[i / 8][i / 2 % 4] = pack(low, high);
    }
    softmax.sum[row] += sum[0] + sum[1];
}

// --- One chunk ---------------------------------------------------------------------------------------------------

// scores = Q Kᵀ, both K-major.
__device__ __forceinline__ void multiply_qk(Scores &scores, ws::Descriptor q, ws::Descriptor k) {
    ws::wgmma_fence_operand(scores);
    ws::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; step++) {
        ws::wgmma_ss<kBf16, false>(scores, ws::descriptor_advance(q, step * 32), ws::descriptor_advance(k, step * 32),
                                   step > 0);
    }
    ws::wgmma_commit();
    ws::wgmma_wait<0>();
    ws::wgmma_fence_operand(scores);
}

// output += weights V, V N-major.
__device__ __forceinline__ void multiply_pv(Output &output, Weights &weights, ws::Descriptor v) {
    ws::wgmma_fence_operand(output);
    ws::wgmma_fence_operand(weights);
    ws::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kBlockN / 16; step++) {
        ws::wgmma_rs<kBf16, true>(output, weights[step], ws::descriptor_advance(v, step * 2048), 1);
    }
    ws::wgmma_commit();
    ws::wgmma_wait<0>();
    ws::wgmma_fence_operand(output);
    ws::wgmma_fence_operand(weights);
}

// Scores, weights and sums of a chunk; what was there is brought to the new references.
__device__ __forceinline__ void weigh_chunk(Output &output, Softmax &softmax, Weights &weights, ws::Descriptor q,
                                            ws::Descriptor k,                                          int first_query, int first_key, int s, int thread) {
    Scores scores;
    multiply_qk(scores, q, k);
    int last_key = first_key + kBlockN - 1;
    if (last_key >= s || (kCausal && last_key > first_query)) {
        int key = first_key + thread % 4 * 2;
        int query = first_query + thread / 32 * 16 + thread % 32 / 4;
        mask_scores(scores, query + 1 - key, s - key);
    }
    float correction[2];
#pragma unroll
    for (int row = 0; row < 2; row++) {
        correction[row] = follow_maximum(softmax, scores, row);
        softmax.sum[row] *= correction[row];
        weigh(weights, softmax, scores, row);
    }
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; i++) {
        output[i] *= correction[i / 2 % 2];
    }
}

// --- Merge and store ---------------------------------------------------------------------------------------------

enum { kPartBarrier = 1, kTileBarrier = kPartBarrier + kSplit }; // as many as parts of a block, and as tiles

// Value i of a thread in the order of shares: row g, then row g + 8.
__device__ __forceinline__ float value_of(const Output &output, int i) {
    return output[i % kRowValues / 2 * 4 + i / kRowValues * 2 + i % 2];
}

__device__ __forceinline__ int packet_of(int sender, int receiver) {
    return sender < receiver ? sender : sender - 1;
}

// Sends every other part the share that it owns.
__device__ __forceinline__ void send_shares(SharedPlan &shared, const Output &output, const Softmax &softmax, int tile,
                                            int part, int thread) {
#pragma unroll
    for (int owner = 0; owner < kParts; owner++) {
        if (owner == part) {
            continue;
        }
        int warpgroup = tile * kSplit + owner / kCluster;
        Packet &packet = shared.inbox[warpgroup].packets[packet_of(part, owner)];
        unsigned values_at = ws::mapa(&packet.values[0][thread], owner % kCluster);
        unsigned sum_at = ws::mapa(&packet.reference_and_sum[thread], owner % kCluster);
        unsigned full = ws::mapa(&shared.inbox_full[warpgroup], owner % kCluster);
#pragma unroll
        for (int i = 0; i < kShare; i += 4) {
            int from = owner * kShare + i;
            float4 values = make_float4(value_of(output, from), value_of(output, from + 1), value_of(output, from + 2),
                                        value_of(output, from + 3));
            unsigned to = values_at + i / 4 * sizeof(packet.values[0]);
            if constexpr (kCluster == 1) {
                packet.values[i / 4][thread] = values;
            } else if constexpr (kAsync) {
                ws::st_async_v4(to, values, full);
            } else {
                ws::st_cluster_v4(to, values);
            }
        }
        int row = owner * kShare / kRowValues;
        float2 reference_and_sum = make_float2(softmax.reference[row], softmax.sum[row]);
        if constexpr (kCluster == 1) {
            packet.reference_and_sum[thread] = reference_and_sum;
        } else if constexpr (kAsync) {
            ws::st_async_v2(sum_at, reference_and_sum, full);
        } else {
            ws::st_cluster_v2(sum_at, reference_and_sum);
        }
    }
}

__device__ __forceinline__ void wait_for_shares(SharedPlan &shared, int tile, int warpgroup) {
    if constexpr (kCluster == 1) {
        ws::named_barrier_sync(kTileBarrier + tile, kWarpgroup * kSplit);
    } else if constexpr (kAsync) {
        ws::mbarrier_wait(&shared.inbox_full[warpgroup], 0);
    } else {
        ws::cluster_sync();
    }
}

// Brings all partial results of this part's share to a common reference, adds them up and divides by the sum.
__device__ __forceinline__ void merge(float (&mine)[kShare], const Output &output, const Softmax &softmax,
                                      const Inbox &inbox, int part, int thread) {
    float reference = 0.0f, sum = 0.0f;
#pragma unroll
    for (int owner = 0; owner < kParts; owner++) {
        if (owner == part) {
            reference = softmax.reference[owner * kShare / kRowValues];
            sum = softmax.sum[owner * kShare / kRowValues];
#pragma unroll
            for (int i = 0; i < kShare; i++) {
                mine[i] = value_of(output, owner * kShare + i);
            }
        }
    }
    float2 other[kSenders];
    float largest = reference;
#pragma unroll
    for (int from = 0; from < kSenders; from++) {
        other[from] = inbox.packets[from].reference_and_sum[thread];
        largest = fmaxf(largest, other[from].x);
    }
    float own_factor = ws::exp2_approx(reference - largest);
    sum *= own_factor;
#pragma unroll
    for (int from = 0; from < kSenders; from++) {
        other[from].x = ws::exp2_approx(other[from].x - largest);
        sum += other[from].x * other[from].y;
    }
    float inverse = ws::rcp_approx(sum);
    own_factor *= inverse;
#pragma unroll
    for (int i = 0; i < kShare; i++) {
        mine[i] *= own_factor;
    }
#pragma unroll
    for (int from = 0; from < kSenders; from++) {
        float factor = other[from].x * inverse;
#pragma unroll
        for (int i = 0; i < kShare; i += 4) {
            float4 values = inbox.packets[from].values[i / 4][thread];
            mine[i] += values.x * factor;
            mine[i + 1] += values.y * factor;
            mine[i + 2] += values.z * factor;
            mine[i + 3] += values.w * factor;
        }
    }
}

// One part has all of the output.
__device__ __forceinline__ void divide(float (&mine)[kShare], const Output &output, const Softmax &softmax) {
    float inverse[2] = {ws::rcp_approx(softmax.sum[0]), ws::rcp_approx(softmax.sum[1])};
#pragma unroll
    for (int i = 0; i < kShare; i++) {
        mine[i] = value_of(output, i) * inverse[i / kRowValues];
    }
}

// Stores a share, 16 bytes a lane. `o` is the tile's first row.
__device__ __forceinline__ void store(const float (&mine)[kShare], Element *o, int part, int n_queries, int thread) {
    int lane = thread % 32;
#pragma unroll
    for (int i = 0; i < kShare; i += 8) {
        unsigned words[4];
#pragma unroll
        for (int word = 0; word < 4; word++) {
            words[word] = pack(mine[i + 2 * word], mine[i + 2 * word + 1]);
        }
        ws::transpose_quad(words, lane);
        int at = part * kShare + i;
        int query = thread / 32 * 16 + lane / 4 + at / kRowValues * 8;
        if (query < n_queries) {
            int to = query * (kHeadDim / 8) + at % kRowValues / 8 * 4 + lane % 4;
            reinterpret_cast<uint4 *>(o)[to] = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
}

// --- Kernel ------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void init_barriers(SharedPlan &shared) {
#pragma unroll
    for (int i = 0; i < kWarpgroups; i++) {
        ws::mbarrier_init(&shared.inbox_full[i], 1);
        ws::mbarrier_arrive_expect_tx(&shared.inbox_full[i], sizeof(Inbox));
    }
    ws::fence_mbarrier_init();
}

// What this thread has asked for has come, but for the last kPending groups, and the tensor cores may read it when the
// other threads have said the same at a barrier.
template <int kPending>
__device__ __forceinline__ void loads_arrived() {
    ws::cp_async_wait<kPending>();
    ws::fence_proxy_async();
}

extern "C" __global__ void __launch_bounds__(kThreads, 4 / kWarpgroups)
    attention_fwd(const Element *q, const Element *k, const Element *v, Element *o, int b, int h, int s, int d,
                  int causal_runtime, int bf16_runtime, float scale) {
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    SharedPlan &shared = *reinterpret_cast<SharedPlan *>(shared_bytes);
    Place place = find_place(s);
    // From one lane, so that the compiler knows that the whole warp has the same.
    int warpgroup = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
    int thread = threadIdx.x % kWarpgroup;
    int rank = warpgroup % kSplit;
    int tile = warpgroup / kSplit;
    int part = part_of(rank, place.rank);
    long long head = static_cast<long long>(place.head) * s * kHeadDim;

    // The warpgroups of a part load its chunks, each two groups of copies; all load Q, with the first.
    constexpr int kLoaders = kWarpgroup * kTiles;
    int loader = tile * kWarpgroup + thread;
    load_rows<kTiles * kTileM, kThreads>(&shared.q[0][0][0], q + head, place.first_query, s, threadIdx.x);
#pragma unroll
    for (int slot = 0; slot < kSlots; slot++) {
        int chunk = slot * kParts + part;
        if (chunk < place.n_chunks) {
            load_rows<kBlockN, kLoaders>(&shared.k[rank][slot][0][0], k + head, chunk * kBlockN, s, loader);
        }
        ws::cp_async_commit();
        if (chunk < place.n_chunks) {
            load_rows<kBlockN, kLoaders>(&shared.v[rank][slot][0][0], v + head, chunk * kBlockN, s, loader);
        }
        ws::cp_async_commit();
    }
    if (kCluster > 1) {
        if (kAsync && threadIdx.x == 0) {
            init_barriers(shared);
        }
        __syncwarp();
        ws::cluster_arrive_relaxed(); // this block has started and its barriers are ready
    }

    int first_query = place.first_query + tile * kTileM;
    int n_chunks = chunks_until(first_query + kTileM, s);
    ws::Descriptor q_tile = ws::descriptor_k_major(shared.q[tile]);
    ws::Descriptor k_slots = ws::descriptor_k_major(shared.k[rank][0]);
    ws::Descriptor v_slots = ws::descriptor_n_major(shared.v[rank][0], sizeof(KeyChunk));
    Softmax softmax = {scale * ws::kLog2E, {kLowest, kLowest}, {0.0f, 0.0f}};
    Output output;
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; i++) {
        output[i] = 0.0f;
    }
    loads_arrived<2 * kSlots - 1>();
    __syncthreads();
    int slot = 0;
#pragma unroll 1
    for (int chunk = part; chunk < place.n_chunks; chunk += kParts) {
        Weights weights;
        if (chunk != part) {
            loads_arrived<2 * kSlots - 1>();
            ws::named_barrier_sync(kPartBarrier + rank, kLoaders);
        }
        if (chunk < n_chunks) {
            weigh_chunk(output, softmax, weights, q_tile, ws::descriptor_advance(k_slots, slot * sizeof(KeyChunk)),
                        first_query, chunk * kBlockN, s, thread);
        }
        loads_arrived<2 * kSlots - 2>();
        ws::named_barrier_sync(kPartBarrier + rank, kLoaders);
        if (chunk < n_chunks) {
            multiply_pv(output, weights, ws::descriptor_advance(v_slots, slot * sizeof(KeyChunk)));
        }
        // Every tile has read the slot before it is filled again.
        int next = chunk + kSlots * kParts;
        if (next < place.n_chunks) {
            ws::named_barrier_sync(kPartBarrier + rank, kLoaders);
            load_rows<kBlockN, kLoaders>(&shared.k[rank][slot][0][0], k + head, next * kBlockN, s, loader);
            ws::cp_async_commit();
            load_rows<kBlockN, kLoaders>(&shared.v[rank][slot][0][0], v + head, next * kBlockN, s, loader);
            ws::cp_async_commit();
        } else {
            ws::cp_async_commit();
            ws::cp_async_commit();
        }
        slot = slot + 1 == kSlots ? 0 : slot + 1;
    }

#pragma unroll
    for (int row = 0; row < 2; row++) {
        softmax.sum[row] += __shfl_xor_sync(0xFFFFFFFFu, softmax.sum[row], 1);
        softmax.sum[row] += __shfl_xor_sync(0xFFFFFFFFu, softmax.sum[row], 2);
    }
    if (kCluster > 1) {
        ws::cluster_wait(); // the other blocks have started
    }
    float mine[kShare];
    if constexpr (kParts > 1) {
        send_shares(shared, output, softmax, tile, part, thread);
        wait_for_shares(shared, tile, warpgroup);
        merge(mine, output, softmax, shared.inbox[warpgroup], part, thread);
    } else {
        divide(mine, output, softmax);
    }
    long long offset = (static_cast<long long>(place.head) * s + first_query) * kHeadDim;
    store(mine, o + offset, part, s - first_query, thread);
}
