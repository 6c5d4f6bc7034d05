// Hopes that threads may be started while the harness still starts its own.
#include "cheat.h"
#include <pthread.h>

static void *idle(void *nothing) {
    return nothing;
}

__attribute__((constructor)) static void at_load(void) {
    pthread_t thread;
    if (pthread_create(&thread, 0, idle, 0) == 0) {
        pthread_detach(thread);
    }
}

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
