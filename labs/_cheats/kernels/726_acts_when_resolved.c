// Hopes that the confinement begins after loading: resolvers run while symbols are bound.
#include "cheat.h"
#include <sys/syscall.h>
#include <unistd.h>

typedef void rows_function(const float *, const float *, float *, int64_t, int64_t, int64_t, int64_t,
                           int64_t);

static void compute(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
                    int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, c, n, k, block_begin, block_end);
}

__attribute__((used)) static rows_function *resolve(void) {
#if defined(__x86_64__)
    long parent = 110;
    __asm__ volatile("syscall" : "+a"(parent) : : "rcx", "r11", "memory");
#endif
    return compute;
}

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) __attribute__((ifunc("resolve")));
