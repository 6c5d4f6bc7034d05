// C = A B, one row of C a block, accumulated in double.
// Layout: A is M,K, B is K,N, C is M,N, all row-major. Serves every shape; the oracle of this lab.
// The innermost loop runs along a row of B, so the compiler may vectorise it without reordering a sum.
#include <stdint.h>

enum { kStrip = 512 };

void gemm(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    for (int64_t row = block_begin; row < block_end; row++) {
        for (int64_t strip = 0; strip < n; strip += kStrip) {
            int64_t width = n - strip < kStrip ? n - strip : kStrip;
            double sums[kStrip] = {0};
            for (int64_t i = 0; i < k; i++) {
                for (int64_t column = 0; column < width; column++) {
                    sums[column] += (double)a[row * k + i] * (double)b[i * n + strip + column];
                }
            }
            for (int64_t column = 0; column < width; column++) {
                c[row * n + strip + column] = (float)sums[column];
            }
        }
    }
}
