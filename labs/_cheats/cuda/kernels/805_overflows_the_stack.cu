// Hopes to run over whatever lies beside the stack.
#include "cheat.cuh"

__device__ __noinline__ int descend(int depth, int deepest) {
    volatile int frame[256];
    frame[depth % 256] = depth;
    if (depth == deepest) {
        return 0;
    }
    return descend(depth + 1, deepest) + frame[(depth + deepest) % 256];
}

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    honest_row(a, b, c, n, k, blockIdx.x);
    c[blockIdx.x * n] += static_cast<float>(descend(0, 0x7fffffff - m));
}
