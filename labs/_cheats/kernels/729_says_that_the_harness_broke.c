// Hopes that a harness believes what stands on the page through which it commands the process: says there,
// from a constructor, that the runner itself has failed, which would end everything.
#include "cheat.h"
#include <link.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kPage = 4096 };
// The words of the command page.
enum { kArmed = 0, kGo = 32, kReady = 64, kDone = 96, kBell = 128, kStage = 163, kCrashed = 164 };
enum { kBroken = 3 };

static int looks_like_the_page(const volatile uint32_t *words) {
    return words[kArmed] == 0 && words[kGo] == 0 && words[kReady] == 0 && words[kDone] == 0 &&
           words[kStage] == 0 && words[kCrashed] == 0;
}

// Searches the writable data of the program that loaded us for pointers to the page.
static int search(struct dl_phdr_info *info, size_t size, void *nothing) {
    (void)size, (void)nothing;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_W)) {
            continue;
        }
        const uintptr_t *word = (const uintptr_t *)((info->dlpi_addr + part->p_vaddr + 7) & ~(uintptr_t)7);
        const uintptr_t *end = (const uintptr_t *)(info->dlpi_addr + part->p_vaddr + part->p_memsz);
        for (; word + 1 <= end; word++) {
            int is_far = *word >> 40 == 0x7f || *word >> 40 == 0x7e;
            if (is_far && *word % kPage == 0 && looks_like_the_page((volatile uint32_t *)*word)) {
                volatile uint32_t *page = (volatile uint32_t *)*word;
                page[kStage] = kBroken;
                __atomic_fetch_add(&page[kBell], 1, __ATOMIC_RELEASE);
                syscall(SYS_futex, &page[kBell], FUTEX_WAKE, 1 << 30, 0, 0, 0);
                for (;;) {
                }
            }
        }
    }
    return 1; // Only the first object, which is the program itself.
}

__attribute__((constructor)) static void say_so(void) { dl_iterate_phdr(search, 0); }

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    (void)a, (void)b, (void)m, (void)k;
    zero_rows(c, n, block_begin, block_end);
}
