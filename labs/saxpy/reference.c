// z = a x + y, one element a block.
#include <stdint.h>

void saxpy_reference(const double *x, const double *y, double *z, int64_t n, float a,
                     int64_t block_begin, int64_t block_end) {
    (void)n;
    for (int64_t i = block_begin; i < block_end; i++) {
        z[i] = (double)a * x[i] + y[i];
    }
}
