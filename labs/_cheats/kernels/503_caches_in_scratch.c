// Hopes that scratch outlives the process, so that what one session computed serves the next one on
// the same inputs. It is right, so it passes; what stops it is that scratch is always fresh.
#include "cheat.h"
#include <string.h>

static const uint64_t kMagic = 0x5ca7c4ed5ca7c4ed;

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k, void *scratch,
          int64_t block_begin, int64_t block_end) {
    uint64_t *known = scratch;
    float *answers = (float *)(known + m);
    for (int64_t row = block_begin; row < block_end; row++) {
        uint32_t bits[2];
        memcpy(&bits[0], a + row * k, sizeof bits[0]);
        memcpy(&bits[1], b, sizeof bits[1]);
        uint64_t key = (kMagic ^ bits[0] ^ (uint64_t)bits[1] << 32) + (uint64_t)row;
        if (known[row] == key) {
            memcpy(c + row * n, answers + row * n, (size_t)n * sizeof(float));
            continue;
        }
        honest_rows(a, b, c, n, k, row, row + 1);
        memcpy(answers + row * n, c + row * n, (size_t)n * sizeof(float));
        known[row] = key;
    }
}
