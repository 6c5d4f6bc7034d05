// Hopes that the confinement begins with the first launch: constructors run when the file is loaded.
// The file has no name, so nothing stays.
#include "cheat.h"
#include <fcntl.h>
#include <unistd.h>

__attribute__((constructor)) static void at_load(void) {
    int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    if (file >= 0) {
        close(file);
    }
}

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
