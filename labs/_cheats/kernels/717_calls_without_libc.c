// Hopes that calls are caught by replacing the library's functions.
#include "cheat.h"

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
#if defined(__x86_64__)
    long parent = 110;
    __asm__ volatile("syscall" : "+a"(parent) : : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long number __asm__("x8") = 173;
    register long parent __asm__("x0");
    __asm__ volatile("svc 0" : "=r"(parent) : "r"(number) : "memory");
#endif
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
