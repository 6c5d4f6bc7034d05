// A plain bug that must not wait until the file is loaded.
#include "cheat.h"

float a_function_that_nobody_has(float value);

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, c, n, k, block_begin, block_end);
    c[block_begin * n] = a_function_that_nobody_has(c[block_begin * n]);
}
