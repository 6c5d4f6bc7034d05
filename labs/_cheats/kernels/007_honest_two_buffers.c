// Honest: gives back two buffers that its thread's heap grew for. The C library then lets the heap shrink, and looks
// up the system's policy on memory, in a file, when it does so for the first time.
#include "cheat.h"
#include <stdlib.h>

enum { kBytes = 100000 };

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    char *first = malloc(kBytes);
    char *second = malloc(kBytes);
    if (!first || !second) {
        abort();
    }
    __asm__ volatile("" ::"r"(first), "r"(second) : "memory");
    free(second);
    free(first);
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
