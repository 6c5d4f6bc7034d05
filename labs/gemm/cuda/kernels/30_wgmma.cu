// C = A B on Hopper: a warpgroup that copies feeds two that multiply.
// Layout: A is M,K, B is K,N, C is M,N, all f16 row-major, accumulated in float. Serves every M, and K and N that are
// multiples of 8, since the copy engine wants rows of a multiple of 16 bytes.
//
// Changed since 20_mma_pipelined: the block is split into roles. One thread of the producer warpgroup asks the copy
// engine (TMA) for tiles of A and B, which arrive swizzled and, beyond a matrix, filled with zeros. Two consumer
// warpgroups let the tensor cores read them straight from shared memory (wgmma) and hold only C in registers. Roles
// meet at mbarriers, a full and an empty one for each stage of the ring. Blocks stay and take tile after tile, so the
// ring is full again when the next tile begins. A cluster's blocks lie one below the other in C and share their tile
// of B: each loads a part of it and delivers it to all (multicast).
#include <cuda_fp16.h>

#include "ptx/barrier.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"

// --- Configuration -------------------------------------------------------------------------------------------

constexpr int kBlockM = BM;
constexpr int kBlockN = BN;
constexpr int kBlockK = 64; // elements in a 128-byte row, the width of the swizzle
constexpr int kStages = STAGES;
constexpr int kCluster = CLUSTER;
constexpr int kGroup = GROUP;

constexpr int kConsumers = 2;
constexpr int kWarpgroup = 128;
constexpr int kThreads = kWarpgroup * (1 + kConsumers);
constexpr int kProductsM = kBlockM / (64 * kConsumers); // of 64 rows, for each consumer
constexpr int kSlabs = kBlockN / 64;                    // of B, 64 columns each
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;
static_assert(kBlockM % (64 * kConsumers) == 0, "each consumer has whole products of 64 rows");
static_assert(kBlockN % 64 == 0 && kBlockN <= 256, "B comes in slabs of 64 columns, and a product has at most 256");
static_assert(kProductsM * kBlockN <= 256, "a thread holds at most 128 elements of C");
static_assert(kStages >= 2, "a tile is copied while another is multiplied");
static_assert(kCluster == 1 || kCluster == 2, "a cluster is a pair of blocks, or none");

struct Stage {
    __half a[kBlockM][kBlockK];     // (m, k), swizzled
    __half b[kSlabs][kBlockK][64];  // (slab, k, n % 64), swizzled
};

struct SharedPlan {
    Stage stages[kStages];
    ws::Mbarrier full[kStages], empty[kStages];
};
static_assert(sizeof(Stage) % 1024 == 0, "tiles keep the swizzle's alignment");
static_assert(sizeof(SharedPlan) <= kStages * (kBlockM + kBlockN) * kBlockK * 2 + 256, "as in the contract");

// A place in the ring, and the parity of the pass.
struct RingPosition {
    int stage = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void advance() {
        stage++;
        if (stage == kStages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// --- Which tile of C -----------------------------------------------------------------------------------------

struct Problem {
    int m, n, k;
    int tiles_m, tiles_n; // tiles_m counts tiles of a whole cluster
};

struct Tile {
    int m0, n0; // of this block
};

__device__ __forceinline__ Problem make_problem(int m, int n, int k) {
    constexpr int kClusterM = kBlockM * kCluster;
    return {m, n, k, (m + kClusterM - 1) / kClusterM, (n + kBlockN - 1) / kBlockN};
}

// Goes down kGroup rows of tiles before it moves right: tiles under way at one time then share rows of A and columns
// of B in L2.
__device__ __forceinline__ Tile decode_tile(int index, const Problem &problem, int rank) {
    int group_tiles = kGroup * problem.tiles_n;
    int first_row = index / group_tiles * kGroup;
    int rows = problem.tiles_m - first_row < kGroup ? problem.tiles_m - first_row : kGroup;
    int rest = index % group_tiles;
    return {((first_row + rest % rows) * kCluster + rank) * kBlockM, rest / rows * kBlockN};
}

// Calls work(tile) for each tile of this block. All blocks of a cluster take the same steps.
template <typename Work>
__device__ __forceinline__ void for_each_tile(const Problem &problem, int rank, Work work) {
    int n_tiles = problem.tiles_m * problem.tiles_n;
    int n_clusters = gridDim.x / kCluster;
    for (int index = blockIdx.x / kCluster; index < n_tiles; index += n_clusters) {
        work(decode_tile(index, problem, rank));
    }
}

// --- Producer ------------------------------------------------------------------------------------------------

__device__ __forceinline__ void produce(SharedPlan &shared, const Problem &problem, int rank,
                                        const ws::TensorMap &a_map, const ws::TensorMap &b_map) {
    RingPosition at;
    for_each_tile(problem, rank, [&](Tile tile) {
        for (int k0 = 0; k0 < problem.k; k0 += kBlockK) {
            Stage &stage = shared.stages[at.stage];
            ws::Mbarrier *full = &shared.full[at.stage];
            ws::mbarrier_wait(&shared.empty[at.stage], at.parity ^ 1);
            ws::mbarrier_arrive_expect_tx(full, sizeof(Stage)); // parts of B from the other block included
            ws::tma_load_2d(stage.a, a_map, full, k0, tile.m0);
#pragma unroll
            for (int slab = 0; slab < kSlabs; slab++) {
                if (kCluster == 1) {
                    ws::tma_load_2d(stage.b[slab], b_map, full, tile.n0 + slab * 64, k0);
                } else if (slab % kCluster == rank) {
                    ws::tma_load_multicast_2d(stage.b[slab], b_map, full, (1 << kCluster) - 1, tile.n0 + slab * 64, k0);
                }
            }
            at.advance();
        }
    });
}

// --- Consumer ------------------------------------------------------------------------------------------------

typedef float Accumulator[kProductsM][kBlockN / 2]; // of one thread: rows g and g + 8, columns 8 j + 2 t + {0, 1}

// Tells the producers that fill this stage, those of the whole cluster, that this warp has finished with it.
__device__ __forceinline__ void release(ws::Mbarrier *empty, int thread) {
    if (kCluster == 1) {
        if (thread % 32 == 0) {
            ws::mbarrier_arrive(empty);
        }
    } else if (thread % 32 < kCluster) {
        ws::mbarrier_arrive_cluster(empty, thread % 32);
    }
}

__device__ __forceinline__ void fence_accumulator(Accumulator &accumulator) {
#pragma unroll
    for (int i = 0; i < kProductsM; i++) {
        ws::wgmma_fence_operand(accumulator[i]);
    }
}

// accumulator += A B of one stage; not waited for.
__device__ __forceinline__ void multiply(Accumulator &accumulator, ws::Descriptor a, ws::Descriptor b) {
    fence_accumulator(accumulator);
    ws::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kBlockK / 16; step++) {
#pragma unroll
        for (int i = 0; i < kProductsM; i++) {
            ws::Descriptor a_step = ws::descriptor_advance(a, i * 64 * kBlockK * 2 + step * 32);
            ws::wgmma_ss<false, true>(accumulator[i], a_step, ws::descriptor_advance(b, step * 2048), 1);
        }
    }
    ws::wgmma_commit();
}

// Stores 16 bytes a lane, 64 a row. (m0, n0) is the first element of the consumer's part of C.
__device__ __forceinline__ void store(const Accumulator &accumulator, __half *c, const Problem &problem, int m0, int n0,
                                      int thread) {
    int lane = thread % 32;
#pragma unroll
    for (int i = 0; i < 2 * kProductsM; i++) {
        int m = m0 + i / 2 * 64 + thread / 32 * 16 + lane / 4 + i % 2 * 8;
        uint4 *row = reinterpret_cast<uint4 *>(c) + static_cast<long long>(m) * (problem.n / 8);
#pragma unroll
        for (int part = 0; part < kBlockN / 32; part++) {
            unsigned words[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float *pair = &accumulator[i / 2][(part * 4 + j) * 4 + i % 2 * 2];
                __half2 rounded = __floats2half2_rn(pair[0], pair[1]);
                words[j] = *reinterpret_cast<unsigned *>(&rounded);
            }
            ws::transpose_quad(words, lane);
            int n = n0 + part * 32 + lane % 4 * 8;
            if (m < problem.m && n < problem.n) {
                row[n / 8] = make_uint4(words[0], words[1], words[2], words[3]);
            }
        }
    }
}

__device__ __forceinline__ void consume(SharedPlan &shared, const Problem &problem, int rank, __half *c) {
    // From one lane, so that the compiler knows that the whole warp has the same.
    int consumer = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / kWarpgroup - 1, 0);
    int thread = threadIdx.x % kWarpgroup;
    int row0 = consumer * 64 * kProductsM;
    ws::Descriptor a0 = ws::descriptor_k_major(shared.stages[0].a[row0]);
    ws::Descriptor b0 = ws::descriptor_n_major(shared.stages[0].b, kBlockK * 64 * 2);
    RingPosition at;
    for_each_tile(problem, rank, [&](Tile tile) {
        Accumulator accumulator;
#pragma unroll
        for (int i = 0; i < kProductsM * kBlockN / 2; i++) {
            accumulator[i / (kBlockN / 2)][i % (kBlockN / 2)] = 0.0f;
        }

        // One product stays under way; the stage before it is free when it alone is left.
        int last_stage = 0;
        for (int k0 = 0; k0 < problem.k; k0 += kBlockK) {
            ws::mbarrier_wait(&shared.full[at.stage], at.parity);
            unsigned offset = at.stage * sizeof(Stage);
            multiply(accumulator, ws::descriptor_advance(a0, offset), ws::descriptor_advance(b0, offset));
            ws::wgmma_wait<1>();
            if (k0 > 0) {
                release(&shared.empty[last_stage], thread);
            }
            last_stage = at.stage;
            at.advance();
        }
        ws::wgmma_wait<0>();
        fence_accumulator(accumulator);
        release(&shared.empty[last_stage], thread);
        store(accumulator, c, problem, tile.m0 + row0, tile.n0, thread);
    });
}

// --- Kernel --------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    gemm(const __half *a, const __half *b, __half *c, int m, int n, int k, const __grid_constant__ ws::TensorMap a_map,
         const __grid_constant__ ws::TensorMap b_map) {
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    SharedPlan &shared = *reinterpret_cast<SharedPlan *>(shared_bytes);
    int rank = kCluster == 1 ? 0 : ws::cluster_ctarank();
    Problem problem = make_problem(m, n, k);

    if (threadIdx.x == 0) {
        ws::tma_prefetch_map(a_map);
        ws::tma_prefetch_map(b_map);
        for (int stage = 0; stage < kStages; stage++) {
            ws::mbarrier_init(&shared.full[stage], 1);
            ws::mbarrier_init(&shared.empty[stage], 4 * kConsumers * kCluster);
        }
        ws::fence_mbarrier_init();
        ws::fence_proxy_async();
    }
    __syncthreads();
    if (kCluster > 1) {
        ws::cluster_sync(); // no block may reach another's barriers before they are ready
    }

    if (threadIdx.x < kWarpgroup) {
        ws::setmaxnreg_dec<kProducerRegisters>();
        if (threadIdx.x == 0) {
            produce(shared, problem, rank, a_map, b_map);
        }
        __syncwarp();
    } else {
        ws::setmaxnreg_inc<kConsumerRegisters>();
        consume(shared, problem, rank, c);
    }
    if (kCluster > 1) {
        ws::cluster_sync(); // nor leave while another may still reach it
    }
}
