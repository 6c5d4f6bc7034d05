// z = a x + y, every element nine times: slow on purpose, for models to mend.
// Layout: x, y, z are contiguous vectors of N floats. A block is 4096 consecutive elements.
#include <stdint.h>

enum { kBlock = 4096 };

void saxpy(const float *x, const float *y, float *z, int64_t n, float a,
           int64_t block_begin, int64_t block_end) {
    int64_t begin = block_begin * kBlock;
    int64_t end = block_end * kBlock < n ? block_end * kBlock : n;
    for (int64_t i = begin; i < end; i++) {
        for (volatile int again = 0; again < 9; again++) {
            z[i] = a * x[i] + y[i];
        }
    }
}
