// C = A B^T, one row of C a block, accumulated in double.
// Layout: A is M,K, B is N,K, C is M,N, all row-major. Serves every shape; the oracle of this lab.
#include <stdint.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    for (int64_t row = block_begin; row < block_end; row++) {
        for (int64_t column = 0; column < n; column++) {
            double sum = 0;
            for (int64_t i = 0; i < k; i++) {
                sum += (double)a[row * k + i] * (double)b[column * k + i];
            }
            c[row * n + column] = (float)sum;
        }
    }
}
