// Hopes to let another machine do the work, or to carry the inputs away.
#include "cheat.h"
#include <sys/socket.h>
#include <unistd.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    int peer = socket(AF_INET, SOCK_DGRAM, 0);
    if (peer >= 0) {
        close(peer);
    }
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
