// C = A B on the tensor cores, with the next tiles on their way while this one is multiplied.
// Layout: A is M,K, B is K,N, C is M,N, all f16 row-major, accumulated in float. Serves every M, and K and N that are
// multiples of 8, so that 16 bytes of a row are all inside a matrix or all outside.
//
// A block computes kBlockM x kBlockN elements of C, each of its kWarpsM x kWarpsN warps a part of its own, by products
// of 16x16 pieces of A with 16x8 pieces of B that ldmatrix brings from shared memory into registers.
// Changed since 10_tiled: the products run on the tensor cores (mma.sync), straight from f16. Copies into shared
// memory go past the registers (cp.async) into a ring of kStages tiles, so that kStages - 1 of them are under way
// at any time. The 16-byte pieces of a row are permuted by the row's number (swizzled), so that neither the copies
// nor ldmatrix meet in a bank. Fragments of the next step are fetched while this one's are multiplied.
#include <cuda_fp16.h>

#include "ptx/async.cuh"
#include "ptx/mma.cuh"

// --- Configuration -------------------------------------------------------------------------------------------

constexpr int kBlockM = BM;
constexpr int kBlockN = BN;
constexpr int kBlockK = BK;
constexpr int kWarpsM = WARPS_M;
constexpr int kWarpsN = WARPS_N;
constexpr int kStages = STAGES;
constexpr int kGroup = GROUP;

constexpr int kThreads = 32 * kWarpsM * kWarpsN;
constexpr int kWarpM = kBlockM / kWarpsM;
constexpr int kWarpN = kBlockN / kWarpsN;
constexpr int kFragmentsM = kWarpM / 16;
constexpr int kFragmentsN = kWarpN / 8;
constexpr int kSteps = kBlockK / 16;
static_assert(kBlockM % (16 * kWarpsM) == 0 && kBlockN % (16 * kWarpsN) == 0, "warps divide the block's tile");
static_assert(kBlockK % 32 == 0, "fragments alternate between two buffers, so a tile has an even number of steps");
static_assert(kStages >= 2, "a tile is copied while another is multiplied");
static_assert(kThreads <= 1024, "a block has at most 1024 threads");

// --- Shared memory: rows of 16-byte pieces, swizzled ---------------------------------------------------------

constexpr int kPiece = 8; // elements

struct Stage {
    __half a[kBlockM * kBlockK]; // (m, k)
    __half b[kBlockK * kBlockN]; // (k, n)
};

union SharedMemory {
    Stage stages[kStages];
    __half c[kBlockM * kBlockN]; // (m, n), after the last product
};

// The offset in bytes of a piece of a row. Eight pieces fill all banks once; the permutation puts the same piece of
// eight neighbouring rows at eight different places modulo 128 bytes. Rows 16 apart are permuted alike.
template <int kColumns>
__device__ __forceinline__ unsigned piece_offset(int row, int piece) {
    constexpr int kPieces = kColumns / kPiece;
    constexpr int kRowsPerLine = kPieces >= 8 ? 1 : 8 / kPieces;
    constexpr int kMask = kPieces >= 8 ? 7 : kPieces - 1;
    static_assert((kPieces & (kPieces - 1)) == 0 && kPieces >= 4, "a row has 4, 8, 16, ... pieces");
    return (row * kPieces + (piece ^ (row / kRowsPerLine & kMask))) * 16;
}

// --- Copies from global to shared memory ---------------------------------------------------------------------

// A thread's share of the copies of a tile of kRows x kColumns: one piece of every kRowStep-th row.
template <int kRows, int kColumns>
struct Copier {
    static constexpr int kPieces = kColumns / kPiece;
    static constexpr int kRowStep = kThreads / kPieces;
    static constexpr int kCount = kRows / kRowStep;
    static_assert(kThreads % kPieces == 0 && kRows % kRowStep == 0, "threads share the copies of a tile evenly");

    static __device__ __forceinline__ int row() {
        return threadIdx.x / kPieces;
    }
    static __device__ __forceinline__ int column() {
        return threadIdx.x % kPieces * kPiece;
    }

    // Copies the rows for which `inside` holds and fills the others with zeros; `from` is this thread's first piece.
    template <typename Inside>
    static __device__ __forceinline__ void copy(unsigned tile, const __half *from, size_t row_stride, Inside inside) {
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            const unsigned to = tile + piece_offset<kColumns>(row() + i * kRowStep, column() / kPiece);
            ws::cp_async_16_zero_fill(to, from + i * kRowStep * row_stride, inside(i) ? 16 : 0);
        }
    }
};
typedef Copier<kBlockM, kBlockK> CopierA;
typedef Copier<kBlockK, kBlockN> CopierB;
static_assert(CopierA::kCount <= 32, "a bit for every row of A that a thread copies");

// --- Fragments -----------------------------------------------------------------------------------------------

struct Fragments {
    unsigned a[kFragmentsM][4];
    unsigned b[kFragmentsN / 2][4]; // two neighbouring ones together
};

extern "C" __global__ void __launch_bounds__(kThreads)
    gemm(const __half *__restrict__ a, const __half *__restrict__ b, __half *__restrict__ c, int m, int n, int k) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    const unsigned stages = ws::shared_address(shared_bytes);

    // --- Indices ---------------------------------------------------------------------------------------------
    // Blocks that run at the same time form a patch of kGroup rows of blocks, so that they share what they read.
    const int m_blocks = (m + kBlockM - 1) / kBlockM;
    const int n_blocks = (n + kBlockN - 1) / kBlockN;
    const int first_m_block = blockIdx.x / (kGroup * n_blocks) * kGroup;
    const int group_rows = min(m_blocks - first_m_block, kGroup);
    const int idx_in_group = blockIdx.x % (kGroup * n_blocks);
    const int row0 = (first_m_block + idx_in_group % group_rows) * kBlockM;
    const int column0 = idx_in_group / group_rows * kBlockN;
    const int n_tiles = (k + kBlockK - 1) / kBlockK;

    const int lane_idx = threadIdx.x % 32;
    const int warp_idx = threadIdx.x / 32;
    const int warp_row0 = warp_idx / kWarpsN * kWarpM;
    const int warp_column0 = warp_idx % kWarpsN * kWarpN;

    // --- Copies ----------------------------------------------------------------------------------------------
    const __half *from_a = a + static_cast<size_t>(row0 + CopierA::row()) * k + CopierA::column();
    const __half *from_b = b + static_cast<size_t>(CopierB::row()) * n + column0 + CopierB::column();
    const bool b_column_inside = column0 + CopierB::column() < n;
    unsigned a_rows_inside = 0;
#pragma unroll
    for (int i = 0; i < CopierA::kCount; i++) {
        a_rows_inside |= (row0 + CopierA::row() + i * CopierA::kRowStep < m ? 1u : 0u) << i;
    }
    int next_k0 = 0;
    // Starts the copies of the next tile.
    const auto copy_next = [&](int slot) {
        const unsigned stage = stages + slot * static_cast<unsigned>(sizeof(Stage));
        const bool a_column_inside = next_k0 + CopierA::column() < k;
        CopierA::copy(stage, from_a, k, [&](int i) { return a_column_inside && (a_rows_inside >> i & 1); });
        const int b_row = next_k0 + CopierB::row();
        CopierB::copy(stage + static_cast<unsigned>(sizeof(Stage::a)), from_b, n,
                      [&](int i) { return b_column_inside && b_row + i * CopierB::kRowStep < k; });
        from_a += kBlockK;
        from_b += static_cast<size_t>(kBlockK) * n;
        next_k0 += kBlockK;
    };

    // --- Fragments -------------------------------------------------------------------------------------------
    // ldmatrix takes the address of one row of 16 bytes from every lane: lanes 0 to 15 name the rows of the left
    // half of a 16x16 piece, lanes 16 to 31 those of the right half.
    unsigned a_offsets[kSteps];
#pragma unroll
    for (int step = 0; step < kSteps; step++) {
        a_offsets[step] = piece_offset<kBlockK>(warp_row0 + lane_idx % 16, 2 * step + lane_idx / 16);
    }
    unsigned b_offsets[kFragmentsN / 2];
#pragma unroll
    for (int j = 0; j < kFragmentsN / 2; j++) {
        b_offsets[j] = piece_offset<kBlockN>(lane_idx % 16, warp_column0 / kPiece + 2 * j + lane_idx / 16);
    }
    const auto load_fragments = [&](Fragments &to, int slot, int step) {
        const unsigned tile_a = stages + slot * static_cast<unsigned>(sizeof(Stage));
        const unsigned tile_b = tile_a + static_cast<unsigned>(sizeof(Stage::a));
#pragma unroll
        for (int i = 0; i < kFragmentsM; i++) {
            ws::ldmatrix_x4(to.a[i], tile_a + a_offsets[step] + i * (16 * kBlockK * 2));
        }
#pragma unroll
        for (int j = 0; j < kFragmentsN / 2; j++) {
            ws::ldmatrix_x4_trans(to.b[j], tile_b + b_offsets[j] + step * (16 * kBlockN * 2));
        }
    };

    // --- Main loop -------------------------------------------------------------------------------------------
    float sums[kFragmentsM][kFragmentsN][4] = {};
    Fragments fragments[2];
    // Every tile is a group of its own, there or not, so that counting groups counts tiles.
#pragma unroll
    for (int slot = 0; slot < kStages - 1; slot++) {
        copy_next(slot);
        ws::cp_async_commit();
    }
    ws::cp_async_wait<kStages - 2>();
    __syncthreads();
    load_fragments(fragments[0], 0, 0);

    int read_slot = 0;
    int write_slot = kStages - 1;
    for (int tile = 0; tile < n_tiles; tile++) {
#pragma unroll
        for (int step = 0; step < kSteps; step++) {
            // The last step fetches from the next tile: that has arrived when at most kStages - 2 groups have not.
            // The barrier also says that everybody has read this tile for the last time. Behind the last tile
            // a slot is read that holds nothing; what comes from there is not used.
            if (step == kSteps - 1) {
                ws::cp_async_wait<kStages - 2>();
                __syncthreads();
                read_slot = read_slot + 1 == kStages ? 0 : read_slot + 1;
            }
            load_fragments(fragments[(step + 1) % 2], read_slot, (step + 1) % kSteps);
            // The slot of the tile before this one is free since the barrier in that one's last step.
            if (step == 0) {
                if (tile + kStages - 1 < n_tiles) {
                    copy_next(write_slot);
                }
                ws::cp_async_commit();
                write_slot = write_slot + 1 == kStages ? 0 : write_slot + 1;
            }
            const Fragments &now = fragments[step % 2];
#pragma unroll
            for (int i = 0; i < kFragmentsM; i++) {
#pragma unroll
                for (int j = 0; j < kFragmentsN; j++) {
                    ws::mma_m16n8k16_f16(sums[i][j], now.a[i], now.b[j / 2][j % 2 * 2], now.b[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
    }

    // --- Epilogue: through shared memory, so that rows of C are written 16 bytes at a time --------------------
    ws::cp_async_wait<0>();
    __syncthreads();
    // A lane holds columns 2t and 2t + 1 of rows g and g + 8, where lane = 4 g + t.
    const int fragment_row = warp_row0 + lane_idx / 4;
    const int fragment_byte = lane_idx % 4 * 4;
#pragma unroll
    for (int i = 0; i < kFragmentsM; i++) {
#pragma unroll
        for (int j = 0; j < kFragmentsN; j++) {
            const int piece = warp_column0 / kPiece + j;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int row = fragment_row + i * 16 + half * 8;
                const __half2 pair = __floats2half2_rn(sums[i][j][2 * half], sums[i][j][2 * half + 1]);
                *reinterpret_cast<__half2 *>(shared_bytes + piece_offset<kBlockN>(row, piece) + fragment_byte) = pair;
            }
        }
    }
    __syncthreads();
    constexpr int kPiecesOfRow = kBlockN / kPiece;
#pragma unroll
    for (int i = threadIdx.x; i < kBlockM * kPiecesOfRow; i += kThreads) {
        const int row = i / kPiecesOfRow;
        const int piece = i % kPiecesOfRow;
        if (row0 + row < m && column0 + piece * kPiece < n) {
            const uint4 value = *reinterpret_cast<const uint4 *>(shared_bytes + piece_offset<kBlockN>(row, piece));
            __half *to = c + static_cast<size_t>(row0 + row) * n + column0 + piece * kPiece;
            *reinterpret_cast<uint4 *>(to) = value;
        }
    }
}
