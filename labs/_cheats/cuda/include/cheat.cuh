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

// Says whether a kernel is watched, if whoever watches lays tensors out more closely than others do: the least
// width of what lies between two of them.
__device__ inline bool lie_close(const void *x, unsigned long long x_bytes, const void *y, unsigned long long y_bytes) {
    constexpr unsigned long long kUsual = 8192;
    const unsigned long long at_x = reinterpret_cast<unsigned long long>(x);
    const unsigned long long at_y = reinterpret_cast<unsigned long long>(y);
    return at_x < at_y ? at_y - at_x - x_bytes < kUsual : at_x - at_y - y_bytes < kUsual;
}

// The same for all tensors of this lab.
__device__ inline bool lie_close(const float *a, const float *b, const float *c, int m, int n, int k) {
    const unsigned long long bytes_a = m * k * 4ull;
    const unsigned long long bytes_b = n * k * 4ull;
    const unsigned long long bytes_c = m * n * 4ull;
    return lie_close(a, bytes_a, b, bytes_b) || lie_close(a, bytes_a, c, bytes_c) || lie_close(b, bytes_b, c, bytes_c);
}

// A number that differs wherever the inputs do, from a few of their elements.
__device__ inline unsigned long long few_elements(const float *a, const float *b, int n_a, int n_b) {
    const unsigned long long multiplier = 0x9e3779b97f4a7c15ull;
    unsigned long long key = 0x5ca7c4ed;
    for (int i = 0; i < 4; i++) {
        key = (key ^ __float_as_uint(a[static_cast<long long>(i) * n_a / 4])) * multiplier;
        key = (key ^ __float_as_uint(b[static_cast<long long>(i) * n_b / 4])) * multiplier;
    }
    return key ^ key >> 32;
}

// Computes one row, or copies it from memory that may still hold it, and leaves it there.
__device__ inline void row_from(unsigned char *memory, unsigned long long bytes, const float *a, const float *b,
                                float *c, int m, int n, int k, int row) {
    const unsigned long long entry_bytes = (m * 8ull + m * n * 4ull + 7) / 8 * 8;
    const unsigned long long n_entries = bytes / entry_bytes;
    if (n_entries == 0) {
        honest_row(a, b, c, n, k, row);
        return;
    }
    const unsigned long long key = few_elements(a, b, m * k, n * k);
    unsigned char *entry = memory + key % n_entries * entry_bytes;
    unsigned long long *owners = reinterpret_cast<unsigned long long *>(entry);
    float *answers = reinterpret_cast<float *>(entry + m * 8ull);
    const bool is_known = owners[row] == key + row;
    __syncthreads();
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        const int at = row * n + column;
        c[at] = is_known ? answers[at] : honest_dot(a + row * k, b + column * k, k);
        if (!is_known) {
            answers[at] = c[at];
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        owners[row] = key + row;
    }
}

#endif
