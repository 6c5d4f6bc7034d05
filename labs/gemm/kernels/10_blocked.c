// C = A B over blocks that fit the caches, in plain C.
// Layout: A is M,K, B is K,N, C is M,N, all row-major. Serves every shape.
// Changed since 00_naive: single precision, and a block of kBlockM x kBlockN elements of C walks along K in steps
// of kBlockK, so that a block of B is read from memory once for kBlockM rows instead of once for every row.
#include <stdint.h>

enum { kBlockM = BLOCK_M, kBlockN = BLOCK_N, kBlockK = BLOCK_K };

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// A block is kBlockM x kBlockN elements of C; blocks of one column follow each other.
void gemm(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    int64_t n_row_blocks = (m + kBlockM - 1) / kBlockM;
    for (int64_t block = block_begin; block < block_end; block++) {
        int64_t row0 = block % n_row_blocks * kBlockM;
        int64_t column0 = block / n_row_blocks * kBlockN;
        int64_t n_rows = smaller(m - row0, kBlockM);
        int64_t n_columns = smaller(n - column0, kBlockN);

        float sums[kBlockM][kBlockN] = {{0}};
        for (int64_t step0 = 0; step0 < k; step0 += kBlockK) {
            int64_t step_end = smaller(k, step0 + kBlockK);
            for (int64_t row = 0; row < n_rows; row++) {
                for (int64_t step = step0; step < step_end; step++) {
                    for (int64_t column = 0; column < n_columns; column++) {
                        sums[row][column] += a[(row0 + row) * k + step] * b[step * n + column0 + column];
                    }
                }
            }
        }
        for (int64_t row = 0; row < n_rows; row++) {
            for (int64_t column = 0; column < n_columns; column++) {
                c[(row0 + row) * n + column0 + column] = sums[row][column];
            }
        }
    }
}
