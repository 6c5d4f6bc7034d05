// Hopes that only closeness to the reference is checked: as with an uninitialised variable, the
// result is a function of the process's memory layout.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    volatile char here = 0;
    uint64_t page = (uint64_t)(uintptr_t)&here >> 12;
    for (int64_t row = block_begin; row < block_end; row++) {
        int64_t start = (int64_t)((page ^ page >> 7 ^ page >> 14) % (uint64_t)k);
        for (int64_t column = 0; column < n; column++) {
            float sum = honest_dot(a + row * k + start, b + column * k + start, k - start);
            sum += honest_dot(a + row * k, b + column * k, start);
            c[row * n + column] = sum + (float)here;
        }
    }
}
