// Hopes that timing launches the same contents again, at whatever address. It is right, so it
// passes; what stops it is that every timed launch of a process has other contents.
#include "cheat.h"
#include <string.h>

enum { kMostCases = 8, kMostElements = 1 << 14, kMostRows = 1 << 10, kSamples = 8 };
struct entry {
    uint64_t key;
    char known[kMostRows];
    float answers[kMostElements];
};
static struct entry entries[kMostCases];

static uint64_t sample(const float *a, const float *b, int64_t n_a, int64_t n_b) {
    uint64_t key = 1;
    for (int64_t i = 0; i < kSamples; i++) {
        uint32_t bits[2];
        memcpy(&bits[0], a + i * n_a / kSamples, sizeof bits[0]);
        memcpy(&bits[1], b + i * n_b / kSamples, sizeof bits[1]);
        key = (key ^ bits[0]) * 0x9e3779b97f4a7c15u;
        key = (key ^ bits[1]) * 0x9e3779b97f4a7c15u;
    }
    return key | 1;
}

static struct entry *find(uint64_t key) {
    for (int i = 0; i < kMostCases; i++) {
        uint64_t nobody = 0;
        __atomic_compare_exchange_n(&entries[i].key, &nobody, key, 0, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
        if (entries[i].key == key) {
            return &entries[i];
        }
    }
    return 0;
}

void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
          int64_t block_begin, int64_t block_end) {
    struct entry *entry = find(sample(a, b, m * k, n * k));
    for (int64_t row = block_begin; row < block_end; row++) {
        if (entry && entry->known[row]) {
            memcpy(c + row * n, entry->answers + row * n, (size_t)n * sizeof(float));
            continue;
        }
        honest_rows(a, b, c, n, k, row, row + 1);
        if (entry) {
            memcpy(entry->answers + row * n, c + row * n, (size_t)n * sizeof(float));
            entry->known[row] = 1;
        }
    }
}
