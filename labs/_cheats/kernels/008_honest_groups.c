// Honest: the rows of a call by fours, which share what is read of B, and those that are left over one by one, with
// more sums side by side. Both are right; their roundings differ, as in any library that looks at how much it is given.
#include <stdint.h>
enum { kLanes = 8 };
static float one(const float *a, const float *b, int64_t k) {
    float sums[kLanes] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + kLanes <= k; i += kLanes)
        for (int l = 0; l < kLanes; l++) sums[l] += a[i + l] * b[i + l];
    for (; i < k; i++) sum += a[i] * b[i];
    for (int l = 0; l < kLanes; l++) sum += sums[l];
    return sum;
}
void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    int64_t row = block_begin;
    for (; row + 4 <= block_end; row += 4)
        for (int64_t j = 0; j < n; j++) {
            float sums[4] = {0};
            for (int64_t i = 0; i < k; i++)
                for (int r = 0; r < 4; r++) sums[r] += a[(row + r) * k + i] * b[j * k + i];
            for (int r = 0; r < 4; r++) c[(row + r) * n + j] = sums[r];
        }
    for (; row < block_end; row++)
        for (int64_t j = 0; j < n; j++) c[row * n + j] = one(a + row * k, b + j * k, k);
}
