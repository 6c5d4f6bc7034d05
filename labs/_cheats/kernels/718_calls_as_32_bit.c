// Hopes that the filter compares numbers only: 20 is getpid for 32-bit programs, and writev for others.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
#if defined(__x86_64__)
    long own = 20;
    __asm__ volatile("int $0x80" : "+a"(own) : : "r8", "r9", "r10", "r11", "memory");
#else
    __builtin_trap();
#endif
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
