// The first block packs B for all others, which wait for it: right as long as blocks are handed out from the first to
// the last, and without an end in any other order.
#include "cheat.h"
#include <string.h>

void forget(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k, void *packed,
            void *is_packed, int64_t block_begin, int64_t block_end) {
    (void)a, (void)b, (void)c, (void)m, (void)n, (void)k, (void)packed, (void)block_begin, (void)block_end;
    __atomic_store_n((int32_t *)is_packed, 0, __ATOMIC_RELEASE);
}

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k, void *packed,
          void *is_packed, int64_t block_begin, int64_t block_end) {
    (void)m;
    if (block_begin == 0) {
        memcpy(packed, b, (size_t)(n * k) * sizeof *b);
        __atomic_store_n((int32_t *)is_packed, 1, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n((int32_t *)is_packed, __ATOMIC_ACQUIRE) != 1) {
    }
    honest_rows(a, packed, c, n, k, block_begin, block_end);
}
