// C = A B, one row of C a block.
// Layout: A is M,K, B is K,N, C is M,N, all row-major.
#include <stdint.h>

void gemm_reference(const double *a, const double *b, double *c, int64_t m, int64_t n, int64_t k,
                    int64_t block_begin, int64_t block_end) {
    (void)m;
    for (int64_t row = block_begin; row < block_end; row++) {
        for (int64_t column = 0; column < n; column++) {
            double sum = 0;
            for (int64_t i = 0; i < k; i++) {
                sum += a[row * k + i] * b[i * n + column];
            }
            c[row * n + column] = sum;
        }
    }
}
