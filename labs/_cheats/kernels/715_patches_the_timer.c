// Hopes that the clock is read in this process. Asks for the permissions the page already has plus one.
#include "cheat.h"
#include <sys/mman.h>
#include <time.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    uintptr_t page = (uintptr_t)&clock_gettime & ~(uintptr_t)4095;
    mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
