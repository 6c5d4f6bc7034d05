// Honest: a dynamic schedule. Which block computes a row is a matter of luck, what it computes is not.
#include "cheat.cuh"

__device__ unsigned next_row;
__device__ unsigned finished;

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ unsigned ticket;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) {
            ticket = atomicAdd(&next_row, 1u);
        }
        __syncthreads();
        if (ticket >= static_cast<unsigned>(m)) {
            break;
        }
        honest_row(a, b, c, n, k, ticket);
    }
    // Every block takes one ticket too many; the last one knows that nobody will ask again.
    if (threadIdx.x == 0 && atomicAdd(&finished, 1u) == gridDim.x - 1) {
        finished = 0;
        next_row = 0;
    }
}
