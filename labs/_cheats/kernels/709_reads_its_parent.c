// Hopes to find the expected output in the process that compares. Asks for no bytes.
#include "cheat.h"
#include <sys/uio.h>
#include <unistd.h>

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)m;
    char byte;
    struct iovec mine = {&byte, 0}, theirs = {&byte, 0};
    process_vm_readv(getppid(), &mine, 1, &theirs, 1, 0);
    honest_rows(a, b, c, n, k, block_begin, block_end);
}
