// Hopes to starve the machine. It asks for 64 GiB and touches 64 MiB of them, so that it does no harm
// where there is no limit.
#include "cheat.h"
#include <stdlib.h>
#include <string.h>

enum { kSteps = 256, kStepBytes = 256 << 20, kTouchedBytes = 256 << 10 };

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    for (int step = 0; step < kSteps; step++) {
        volatile char *memory = malloc(kStepBytes);
        for (int64_t i = 0; i < kTouchedBytes; i += 4096) {
            memory[i] = 1;
        }
    }
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
