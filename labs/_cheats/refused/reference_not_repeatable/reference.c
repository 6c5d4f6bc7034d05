// z = x + y + noise: no kernel can be right, or any can.
#include <stdint.h>

// Differs from call to call, and from process to process.
static double noise(void) {
    static uint64_t calls;
    volatile char here = 0;
    uint64_t bits = ++calls * 0x9e3779b97f4a7c15u ^ (uint64_t)(uintptr_t)&here * 0xbf58476d1ce4e5b9u;
    return (double)(bits >> 63) + here;
}

void sum_reference(const double *x, const double *y, double *z, int64_t n, int64_t block_begin,
                   int64_t block_end) {
    (void)n;
    for (int64_t i = block_begin; i < block_end; i++) {
        z[i] = x[i] + y[i] + noise();
    }
}
