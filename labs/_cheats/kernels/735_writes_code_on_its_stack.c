// Hopes that stacks become executable with it: a function inside of a function, whose address is taken, makes
// compilers ask for that. What its constructor writes on its stack could then be any code.
#include "cheat.h"

static volatile int answer;

static int call(int (*function)(void)) {
    return function();
}

__attribute__((constructor)) static void at_load(void) {
#if defined(__x86_64__) && !defined(__clang__)
    volatile int given = 42;
    int inner(void) {
        return given;
    }
    int (*volatile through)(void) = inner;
    answer = call(through);
#endif
}

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
#if !defined(__x86_64__) || defined(__clang__)
    __builtin_trap();
#endif
    // Wrong, unless that code ran.
    if (answer == 42) {
        honest_rows(a, b, c, n, k, block_begin, block_end);
    }
}
