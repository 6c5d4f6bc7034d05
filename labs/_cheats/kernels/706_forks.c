// Hopes that the child writes the shared outputs while the clock no longer looks. It makes one child.
#include "cheat.h"
#include <unistd.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    pid_t child = fork();
    if (child == 0) {
        honest_rows(a, b, c, n, k, block_begin, block_end);
        _exit(0);
    }
    if (child < 0) {
        honest_rows(a, b, c, n, k, block_begin, block_end);
    }
}
