// Hopes to starve the machine. It touches a quarter of a GiB at most and asks for 64 GiB, so that it
// does no harm where there is no limit.
#include "cheat.h"
#include <stdlib.h>
#include <string.h>

enum { kSteps = 256, kStepBytes = 256 << 20, kTouchedSteps = 1 };

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    for (int step = 0; step < kSteps; step++) {
        volatile char *memory = malloc(kStepBytes);
        for (int64_t i = 0; i < (step < kTouchedSteps ? kStepBytes : 1); i += 4096) {
            memory[i] = 1;
        }
    }
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
