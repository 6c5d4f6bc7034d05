// z = x + y, with a last bit of noise.
#include <stdint.h>

// Differs from call to call, and from process to process.
static float noise(void) {
    static uint64_t calls;
    volatile char here = 0;
    uint64_t bits = ++calls * 0x9e3779b97f4a7c15u ^ (uint64_t)(uintptr_t)&here * 0xbf58476d1ce4e5b9u;
    return (float)(bits >> 63) + here;
}

void sum(const float *x, const float *y, float *z, int64_t n, int64_t block_begin, int64_t block_end) {
    (void)n;
    for (int64_t i = block_begin; i < block_end; i++) {
        z[i] = (x[i] + y[i]) * (1 + noise() * 1.2e-7f);
    }
}
