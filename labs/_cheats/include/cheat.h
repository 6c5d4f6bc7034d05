// What the cheats share: the honest computation. Most of them fall back on it wherever they do not
// cheat, so that the gate can object to nothing but the cheat itself.
#ifndef CHEAT_H
#define CHEAT_H

#include <stdint.h>

static inline float honest_dot(const float *x, const float *y, int64_t k) {
    float sum = 0;
    for (int64_t i = 0; i < k; i++) {
        sum += x[i] * y[i];
    }
    return sum;
}

// Computes the rows [begin, end) of C = A B^T.
static inline void honest_rows(const float *a, const float *b, float *c, int64_t n, int64_t k,
                               int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++) {
        for (int64_t column = 0; column < n; column++) {
            c[row * n + column] = honest_dot(a + row * k, b + column * k, k);
        }
    }
}

// Writes zeros to the rows [begin, end).
static inline void zero_rows(float *c, int64_t n, int64_t begin, int64_t end) {
    for (int64_t i = begin * n; i < end * n; i++) {
        c[i] = 0;
    }
}

// Counts this call's blocks and returns which launch of the process the call belongs to.
// Every block of a launch is counted before the next launch begins.
static inline int64_t launch_index(int64_t *blocks_seen, int64_t m, int64_t begin, int64_t end) {
    return __atomic_fetch_add(blocks_seen, end - begin, __ATOMIC_RELAXED) / m;
}

// Reads a counter that no system call is needed for.
static inline uint64_t ticks(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t count;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#else
#error "this machine's counter is not known"
#endif
}

#endif
