// C = A B, one row of C a block.
// Layout: A is M,K, B is K,N, C is M,N, all row-major.
// Each element of C is summed in the order of k; the loop over columns is the inner one, since a walk down a
// column of B would meet a new line of the cache at every step.
#include <stdint.h>

void gemm_reference(const double *a, const double *b, double *c, int64_t m, int64_t n, int64_t k,
                    int64_t block_begin, int64_t block_end) {
    (void)m;
    for (int64_t row = block_begin; row < block_end; row++) {
        for (int64_t column = 0; column < n; column++) {
            c[row * n + column] = 0;
        }
        for (int64_t i = 0; i < k; i++) {
            for (int64_t column = 0; column < n; column++) {
                c[row * n + column] += a[row * k + i] * b[i * n + column];
            }
        }
    }
}
