// Sorts in every call more than the C library sorts on the stack, for which it asks how much memory there is.
#include "cheat.h"
#include <stdlib.h>

enum { kElements = 20000 };

static int is_larger(const void *first, const void *second) {
    int one = *(const int *)first, other = *(const int *)second;
    return (one > other) - (one < other);
}

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    int *order = malloc(kElements * sizeof(int));
    if (!order) {
        return;
    }
    for (int i = 0; i < kElements; i++) {
        order[i] = (int)((unsigned)i * 2654435761u % kElements);
    }
    qsort(order, kElements, sizeof(int), is_larger);
    if (order[0] <= order[kElements - 1]) {
        honest_rows(a, b, c, n, k, block_begin, block_end);
    }
    free(order);
}
