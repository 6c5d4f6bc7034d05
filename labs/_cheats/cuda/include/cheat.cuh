// What the cheats share: the honest computation. Most of them fall back on it wherever they do not
// cheat, so that the gate can object to nothing but the cheat itself.
#ifndef CHEAT_CUH
#define CHEAT_CUH

__device__ inline float honest_dot(const float *x, const float *y, int k) {
    float sum = 0;
    for (int i = 0; i < k; i++) {
        sum += x[i] * y[i];
    }
    return sum;
}

// Computes one row of C = A B^T with all threads of the block.
__device__ inline void honest_row(const float *a, const float *b, float *c, int n, int k, int row) {
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        c[row * n + column] = honest_dot(a + row * k, b + column * k, k);
    }
}

// Writes the same number to all of a row.
__device__ inline void fill_row(float *c, int n, int row, float value) {
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        c[row * n + column] = value;
    }
}

// Counts this block and returns which launch of the module it belongs to: every block of a launch is counted
// before the next launch begins. To be called once by all threads of a block.
__device__ inline int launch_index(unsigned *blocks_seen) {
    __shared__ unsigned idx;
    if (threadIdx.x == 0) {
        idx = atomicAdd(blocks_seen, 1u) / gridDim.x;
    }
    __syncthreads();
    return static_cast<int>(idx);
}

#endif
