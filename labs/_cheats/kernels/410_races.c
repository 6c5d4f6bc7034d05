// Hopes to be lucky: each block loads a row, adds half of the sum and stores the row back.
// It is not: where threads seldom run at the same time it could be right for long, so the first half waits for
// the second to have loaded its first row too.
#include "cheat.h"
#include <sched.h>

enum { kMostColumns = 1024, kMostTicks = 1 << 28 };

// Calls that have loaded their first row; two belong to a launch.
static int64_t n_loaded;

// Waits for the other call of the launch, but not for ever: one thread alone makes them one after the other.
static void wait_for_the_other(void) {
    int64_t other = __atomic_fetch_add(&n_loaded, 1, __ATOMIC_ACQ_REL) | 1;
    uint64_t began = ticks();
    while (__atomic_load_n(&n_loaded, __ATOMIC_ACQUIRE) <= other && ticks() - began < kMostTicks) {
        sched_yield();
    }
}

void clear(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
           int64_t block_begin, int64_t block_end) {
    (void)a, (void)b, (void)m, (void)k;
    for (int64_t i = block_begin * n; i < block_end * n; i++) {
        c[i] = 0;
    }
}

void add_half(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
              int64_t block_begin, int64_t block_end) {
    for (int64_t block = block_begin; block < block_end; block++) {
        int64_t row = block % m;
        int64_t begin = block < m ? 0 : k / 2;
        int64_t end = block < m ? k / 2 : k;
        float sums[kMostColumns];
        for (int64_t column = 0; column < n; column++) {
            sums[column] = c[row * n + column];
        }
        if (block == block_begin) {
            wait_for_the_other();
        }
        for (int64_t column = 0; column < n; column++) {
            for (int64_t i = begin; i < end; i++) {
                sums[column] += a[row * k + i] * b[column * k + i];
            }
        }
        for (int64_t column = 0; column < n; column++) {
            c[row * n + column] = sums[column];
        }
    }
}
