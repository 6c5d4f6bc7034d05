// Hopes that the filter does not know the second set of numbers: bit 30 and getppid's 110.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
#if defined(__x86_64__)
    long parent = 0x40000000 + 110;
    __asm__ volatile("syscall" : "+a"(parent) : : "rcx", "r11", "memory");
#else
    __builtin_trap();
#endif
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
