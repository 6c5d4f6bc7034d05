// Hopes to leave the confinement behind. The program does not exist, so that nothing can happen.
#include "cheat.h"
#include <unistd.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    char *arguments[] = {"/nonexistent/program", 0};
    execv(arguments[0], arguments);
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
