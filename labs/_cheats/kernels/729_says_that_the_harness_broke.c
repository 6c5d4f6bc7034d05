// Hopes that a harness believes what stands on the page through which it commands the process: says there,
// from a constructor, that the runner itself has failed, which would end everything.
#include "cheat.h"
#include "command_page.h"

enum { kBroken = 3 };

static int looks_like_the_page(const volatile uint32_t *words) {
    return words[kArmed] == 0 && words[kGo] == 0 && words[kReady] == 0 && words[kDone] == 0 &&
           words[kStage] == 0 && words[kCrashed] == 0;
}

__attribute__((constructor)) static void say_so(void) {
    volatile uint32_t *page = find_command_page();
    if (page) {
        page[kStage] = kBroken;
        ring_the_bell(page);
        for (;;) {
        }
    }
}

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)a, (void)b, (void)m, (void)k;
    zero_rows(c, n, block_begin, block_end);
}
