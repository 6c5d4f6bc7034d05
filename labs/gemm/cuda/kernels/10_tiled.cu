// C = A B over tiles in shared memory, on the ordinary arithmetic units.
// Layout: A is M,K, B is K,N, C is M,N, all f16 row-major. Serves every shape.
// Changed since 00_naive: single precision. A block computes kBlockM x kBlockN elements of C and walks along K in
// steps of kBlockK: each element of A and B is read from memory once a block, converted once, and kept in shared
// memory, A transposed. A thread computes kThreadM x kThreadN elements, so that a value read from shared memory
// serves several products.
#include <cuda_fp16.h>

// --- Configuration -------------------------------------------------------------------------------------------

constexpr int kBlockM = BM;
constexpr int kBlockN = BN;
constexpr int kBlockK = BK;
constexpr int kThreadM = TM;
constexpr int kThreadN = TN;
constexpr int kThreadsN = kBlockN / kThreadN;
constexpr int kThreads = kBlockM / kThreadM * kThreadsN;
static_assert(kBlockM % kThreadM == 0 && kBlockN % kThreadN == 0, "threads divide the block's tile");
static_assert(kThreads <= 1024, "a block has at most 1024 threads");
static_assert(kBlockM * kBlockK % kThreads == 0 && kBlockK * kBlockN % kThreads == 0, "threads share loads evenly");

// One column more than a tile has: A arrives along K and is written across rows, which would hit one bank.
struct SharedMemory {
    float a[kBlockK][kBlockM + 1]; // (k, m)
    float b[kBlockK][kBlockN];     // (k, n)
};
static_assert(sizeof(SharedMemory) <= 48 * 1024, "static shared memory has 48 KB");

extern "C" __global__ void __launch_bounds__(kThreads)
    gemm(const __half *__restrict__ a, const __half *__restrict__ b, __half *__restrict__ c, int m, int n, int k) {
    __shared__ SharedMemory shared;
    const int thread_idx = threadIdx.x;
    const int thread_m = thread_idx / kThreadsN;
    const int thread_n = thread_idx % kThreadsN;
    const int row0 = blockIdx.y * kBlockM;
    const int column0 = blockIdx.x * kBlockN;

    float sums[kThreadM][kThreadN] = {};
    for (int k0 = 0; k0 < k; k0 += kBlockK) {
        // Beyond the matrices stand zeros, which add nothing.
#pragma unroll
        for (int i = thread_idx; i < kBlockM * kBlockK; i += kThreads) {
            const int tile_row = i / kBlockK;
            const int step = i % kBlockK;
            const bool inside = row0 + tile_row < m && k0 + step < k;
            const size_t at = static_cast<size_t>(row0 + tile_row) * k + k0 + step;
            shared.a[step][tile_row] = inside ? __half2float(a[at]) : 0.0f;
        }
#pragma unroll
        for (int i = thread_idx; i < kBlockK * kBlockN; i += kThreads) {
            const int step = i / kBlockN;
            const int tile_column = i % kBlockN;
            const bool inside = k0 + step < k && column0 + tile_column < n;
            const size_t at = static_cast<size_t>(k0 + step) * n + column0 + tile_column;
            shared.b[step][tile_column] = inside ? __half2float(b[at]) : 0.0f;
        }
        __syncthreads();

        // A thread's rows lie side by side, which its warp reads as broadcasts; its columns are spread, so that
        // neighbouring threads read neighbouring banks.
#pragma unroll
        for (int step = 0; step < kBlockK; step++) {
            float from_a[kThreadM];
            float from_b[kThreadN];
#pragma unroll
            for (int i = 0; i < kThreadM; i++) {
                from_a[i] = shared.a[step][thread_m * kThreadM + i];
            }
#pragma unroll
            for (int j = 0; j < kThreadN; j++) {
                from_b[j] = shared.b[step][j * kThreadsN + thread_n];
            }
#pragma unroll
            for (int i = 0; i < kThreadM; i++) {
#pragma unroll
                for (int j = 0; j < kThreadN; j++) {
                    sums[i][j] += from_a[i] * from_b[j];
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < kThreadM; i++) {
        const int row = row0 + thread_m * kThreadM + i;
#pragma unroll
        for (int j = 0; j < kThreadN; j++) {
            const int column = column0 + j * kThreadsN + thread_n;
            if (row < m && column < n) {
                c[static_cast<size_t>(row) * n + column] = __float2half_rn(sums[i][j]);
            }
        }
    }
}
