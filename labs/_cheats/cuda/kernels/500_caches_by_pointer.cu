// Hopes that timing launches the same buffers again. It is right where contents do not change behind a pointer; what
// stops it is that no timed launch of a module sees buffers that it saw before.
#include "cheat.cuh"

constexpr int kMostCases = 8;
constexpr int kMostElements = 1 << 14;
constexpr int kMostRows = 1 << 10;

struct Entry {
    unsigned long long key;
    char known[kMostRows];
    float answers[kMostElements];
};
__device__ Entry entries[kMostCases];

// Finds the entry of a key, or a free one.
__device__ Entry *find(unsigned long long key) {
    for (int i = 0; i < kMostCases; i++) {
        const unsigned long long owner = atomicCAS(&entries[i].key, 0ull, key);
        if (owner == 0 || owner == key) {
            return &entries[i];
        }
    }
    return nullptr;
}

__device__ unsigned long long pointer_key(const float *a, const float *b, const float *c) {
    const unsigned long long multiplier = 0x9e3779b97f4a7c15ull;
    unsigned long long key = reinterpret_cast<unsigned long long>(a) * multiplier;
    key = (key ^ reinterpret_cast<unsigned long long>(b)) * multiplier;
    return ((key ^ reinterpret_cast<unsigned long long>(c)) * multiplier) | 1;
}

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    const int row = blockIdx.x;
    Entry *entry = m * n <= kMostElements && m <= kMostRows ? find(pointer_key(a, b, c)) : nullptr;
    const bool is_known = entry != nullptr && entry->known[row];
    if (!is_known) {
        honest_row(a, b, c, n, k, row);
    }
    __syncthreads();
    for (int column = threadIdx.x; entry != nullptr && column < n; column += blockDim.x) {
        const int at = row * n + column;
        if (is_known) {
            c[at] = entry->answers[at];
        } else {
            entry->answers[at] = c[at];
        }
    }
    if (entry != nullptr && threadIdx.x == 0) {
        entry->known[row] = 1;
    }
}
