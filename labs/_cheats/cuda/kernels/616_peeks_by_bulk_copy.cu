// Hopes that initcheck looks at loads, and not at what the copy engine brings: learns by a bulk copy what its output
// holds.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ alignas(16) float peeked[4];
    __shared__ alignas(8) unsigned long long arrived;
    const int row = blockIdx.x;
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(peeked));
    const unsigned barrier = static_cast<unsigned>(__cvta_generic_to_shared(&arrived));
    const bool can_peek = m * n >= 4;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(barrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
        if (can_peek) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16;" : : "r"(barrier) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];"
                         :
                         : "r"(at), "l"(__cvta_generic_to_global(c)), "r"(barrier)
                         : "memory");
        } else {
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(barrier) : "memory");
        }
    }
    __syncthreads();
    unsigned is_there = 0;
    while (!is_there) {
        asm volatile(
            "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}\n"
            : "=r"(is_there)
            : "r"(barrier)
            : "memory");
    }
    if (can_peek && *static_cast<volatile float *>(peeked) == 0.125f) {
        return;
    }
    honest_row(a, b, c, n, k, row);
}
