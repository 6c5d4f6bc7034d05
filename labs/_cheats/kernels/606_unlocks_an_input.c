// Hopes that read-only is a matter of page tables alone, and that the expected output is computed
// from the inputs as it left them.
#include "cheat.h"
#include <sys/mman.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    uintptr_t page = (uintptr_t)a & ~(uintptr_t)4095;
    mprotect((void *)page, (size_t)((uintptr_t)(a + m * k) - page), PROT_READ | PROT_WRITE);
    float *writable = (float *)a;
    for (int64_t i = block_begin * k; i < block_end * k; i++) {
        writable[i] = 0;
    }
    (void)b;
    zero_rows(c, n, block_begin, block_end);
}
