// Hopes to be lucky: each block loads a row, adds half of the sum and stores the row back.
#include <stdint.h>

enum { kMostColumns = 1024 };

void clear(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
           int64_t block_begin, int64_t block_end) {
    (void)a, (void)b, (void)m, (void)k;
    for (int64_t i = block_begin * n; i < block_end * n; i++) {
        c[i] = 0;
    }
}

void add_half(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
              int64_t block_begin, int64_t block_end) {
    for (int64_t block = block_begin; block < block_end; block++) {
        int64_t row = block % m;
        int64_t begin = block < m ? 0 : k / 2;
        int64_t end = block < m ? k / 2 : k;
        float sums[kMostColumns];
        for (int64_t column = 0; column < n; column++) {
            sums[column] = c[row * n + column];
        }
        for (int64_t column = 0; column < n; column++) {
            for (int64_t i = begin; i < end; i++) {
                sums[column] += a[row * k + i] * b[column * k + i];
            }
        }
        for (int64_t column = 0; column < n; column++) {
            c[row * n + column] = sums[column];
        }
    }
}
