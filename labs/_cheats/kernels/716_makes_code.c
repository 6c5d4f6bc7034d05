// Hopes to run code that nobody compiled, and that no listing of the binary shows.
#include "cheat.h"
#include <sys/mman.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    void *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code != MAP_FAILED) {
        munmap(code, 4096);
    }
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
