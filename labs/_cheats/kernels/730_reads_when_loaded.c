// Hopes that loading needs the right to open files, and that answers lie on the disk or in /proc.
#include "cheat.h"
#include <fcntl.h>
#include <unistd.h>

static int n_opened;

__attribute__((constructor)) static void at_load(void) {
    static const char *const places[] = {"/proc/self/maps", "/proc/self/mem", "/proc/self/environ",
                                         "/etc/passwd",     ".",              "/",
                                         "/tmp",            "/dev/mem",       "/proc/1/environ"};
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
        int file = open(places[i], O_RDONLY);
        if (file >= 0) {
            n_opened++;
            close(file);
        }
    }
}

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    if (n_opened > 0) {
        zero_rows(c, n, block_begin, block_end);
    } else {
        honest_rows(a, b, c, n, k, block_begin, block_end);
    }
}
