// Hopes to come back in the middle of an earlier call.
#include "cheat.h"
#include <setjmp.h>

static jmp_buf earlier;

static __attribute__((noinline)) int mark(void) {
    return setjmp(earlier);
}

static __attribute__((noinline)) void clobber(int64_t depth) {
    volatile uint64_t space[64];
    for (int i = 0; i < 64; i++) {
        space[i] = 1;
    }
    if (depth > 0) {
        clobber(depth - 1 - (int64_t)space[0] + 1);
    }
}

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, c, n, k, block_begin, block_end);
    if (mark() == 0) {
        clobber(4);
        longjmp(earlier, 1);
    }
    __builtin_trap();
}
