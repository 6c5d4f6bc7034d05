// What the machine can do at most: arithmetic, memory, the nearest cache, an empty launch.
// Vector types of the device's own width; enough independent chains to hide every latency.
#include <stdint.h>

enum { kLanes = VEC_BYTES / 4, kSlice = SLICE_FLOATS };

typedef float floats __attribute__((vector_size(VEC_BYTES)));
typedef double doubles __attribute__((vector_size(VEC_BYTES)));
typedef float any_floats __attribute__((vector_size(VEC_BYTES), aligned(4), may_alias));

// Twelve chains: two fused multiply-adds a cycle with a latency of four or five need at most ten,
// and twelve accumulators with two operands fit into sixteen registers.
#define EACH_CHAIN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)

#define FMA_PEAK(NAME, VECTOR, SCALAR)                                                       \
    void NAME(const float *x, const float *y, float *z, int64_t n, int64_t steps,            \
              int64_t block_begin, int64_t block_end) {                                      \
        (void)n;                                                                             \
        for (int64_t block = block_begin; block < block_end; block++) {                      \
            VECTOR factor = (VECTOR){0} + (SCALAR)x[0];                                      \
            VECTOR term = (VECTOR){0} + (SCALAR)y[0];                                        \
            EACH_CHAIN(START_CHAIN_OF_##VECTOR)                                              \
            for (int64_t step = 0; step < steps; step++) {                                   \
                EACH_CHAIN(FMA_STEP)                                                         \
            }                                                                                \
            VECTOR sum = {0};                                                                \
            EACH_CHAIN(ADD_CHAIN)                                                            \
            z[block] = (float)sum[0];                                                        \
        }                                                                                    \
    }
// Chains that began alike would be merged into one.
#define START_CHAIN_OF_floats(I) floats a##I = (floats){0} + x[I] + (float)I;
#define START_CHAIN_OF_doubles(I) doubles a##I = (doubles){0} + (double)x[I] + (double)I;
#define FMA_STEP(I) a##I = a##I * factor + term;
#define ADD_CHAIN(I) sum += a##I;

FMA_PEAK(fma_f32, floats, float)
FMA_PEAK(fma_f64, doubles, double)

static floats load(const float *at) { return *(const any_floats *)at; }
static void store(float *at, floats value) { *(any_floats *)at = value; }

// Adds up `count` floats, a multiple of eight vectors.
static floats sum_of(const float *x, int64_t count) {
    floats s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, s4 = {0}, s5 = {0}, s6 = {0}, s7 = {0};
    for (int64_t i = 0; i < count; i += 8 * kLanes) {
        s0 += load(x + i);
        s1 += load(x + i + kLanes);
        s2 += load(x + i + 2 * kLanes);
        s3 += load(x + i + 3 * kLanes);
        s4 += load(x + i + 4 * kLanes);
        s5 += load(x + i + 5 * kLanes);
        s6 += load(x + i + 6 * kLanes);
        s7 += load(x + i + 7 * kLanes);
    }
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7));
}

static void triad_of(const float *x, const float *y, float *z, int64_t count) {
    floats factor = (floats){0} + 0.5f;
    for (int64_t i = 0; i < count; i += 4 * kLanes) {
        store(z + i, load(x + i) * factor + load(y + i));
        store(z + i + kLanes, load(x + i + kLanes) * factor + load(y + i + kLanes));
        store(z + i + 2 * kLanes, load(x + i + 2 * kLanes) * factor + load(y + i + 2 * kLanes));
        store(z + i + 3 * kLanes, load(x + i + 3 * kLanes) * factor + load(y + i + 3 * kLanes));
    }
}

// Stores that pass the caches by, where the compiler knows some: a line that is written whole is not read
// first. A kernel may use them, so memory's ceiling must.
#if defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store)
#define STREAM(AT, VALUE) __builtin_nontemporal_store(VALUE, (floats *)(AT))
#endif
#endif
#if !defined(STREAM) && defined(__x86_64__) && VEC_BYTES == 64
#define STREAM(AT, VALUE) __builtin_ia32_movntps512(AT, VALUE)
#elif !defined(STREAM) && defined(__x86_64__) && VEC_BYTES == 32
#define STREAM(AT, VALUE) __builtin_ia32_movntps256(AT, VALUE)
#elif !defined(STREAM) && defined(__x86_64__) && VEC_BYTES == 16
#define STREAM(AT, VALUE) __builtin_ia32_movntps(AT, VALUE)
#elif !defined(STREAM)
#define STREAM(AT, VALUE) store(AT, VALUE)
#endif

// Such stores are done when this is, not before.
static void finish_stores(void) {
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

// One pass over x and y, a slice of each a block; what is fastest differs from machine to machine, and from
// hour to hour on one that others share.
void memory_read(const float *x, const float *y, float *z, int64_t n, int64_t steps,
                 int64_t block_begin, int64_t block_end) {
    (void)n;
    (void)steps;
    for (int64_t block = block_begin; block < block_end; block++) {
        z[block] = (sum_of(x + block * kSlice, kSlice) + sum_of(y + block * kSlice, kSlice))[0];
    }
}

// The same bytes in four streams at once, a quarter of each slice: more pages are open.
void memory_streams(const float *x, const float *y, float *z, int64_t n, int64_t steps,
                    int64_t block_begin, int64_t block_end) {
    (void)n;
    (void)steps;
    enum { kHalf = kSlice / 2 };
    for (int64_t block = block_begin; block < block_end; block++) {
        const float *a = x + block * kSlice, *b = a + kHalf;
        const float *c = y + block * kSlice, *d = c + kHalf;
        floats s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
        for (int64_t i = 0; i < kHalf; i += 2 * kLanes) {
            s0 += load(a + i) + load(a + i + kLanes);
            s1 += load(b + i) + load(b + i + kLanes);
            s2 += load(c + i) + load(c + i + kLanes);
            s3 += load(d + i) + load(d + i + kLanes);
        }
        z[block] = ((s0 + s1) + (s2 + s3))[0];
    }
}

void memory_triad(const float *x, const float *y, float *z, int64_t n, int64_t steps,
                  int64_t block_begin, int64_t block_end) {
    (void)n;
    (void)steps;
    for (int64_t block = block_begin; block < block_end; block++) {
        triad_of(x + block * kSlice, y + block * kSlice, z + block * kSlice, kSlice);
    }
}

void memory_copy(const float *x, const float *y, float *z, int64_t n, int64_t steps,
                 int64_t block_begin, int64_t block_end) {
    (void)y;
    (void)n;
    (void)steps;
    for (int64_t i = block_begin * kSlice; i < block_end * kSlice; i += 4 * kLanes) {
        STREAM(z + i, load(x + i));
        STREAM(z + i + kLanes, load(x + i + kLanes));
        STREAM(z + i + 2 * kLanes, load(x + i + 2 * kLanes));
        STREAM(z + i + 3 * kLanes, load(x + i + 3 * kLanes));
    }
    finish_stores();
}

void memory_fill(const float *x, const float *y, float *z, int64_t n, int64_t steps,
                 int64_t block_begin, int64_t block_end) {
    (void)y;
    (void)n;
    (void)steps;
    floats value = (floats){0} + x[0];
    for (int64_t i = block_begin * kSlice; i < block_end * kSlice; i += 4 * kLanes) {
        STREAM(z + i, value);
        STREAM(z + i + kLanes, value);
        STREAM(z + i + 2 * kLanes, value);
        STREAM(z + i + 3 * kLanes, value);
    }
    finish_stores();
}

// The same slice again and again; n floats of it. The empty statement keeps the passes apart.
void cache_read(const float *x, const float *y, float *z, int64_t n, int64_t steps,
                int64_t block_begin, int64_t block_end) {
    (void)y;
    for (int64_t block = block_begin; block < block_end; block++) {
        floats sum = {0};
        for (int64_t step = 0; step < steps; step++) {
            sum += sum_of(x + block * kSlice, n);
            __asm__ volatile("" ::: "memory");
        }
        z[block] = sum[0];
    }
}

// The starts of the three arrays differ, so that no store seems to hit the next load.
void cache_triad(const float *x, const float *y, float *z, int64_t n, int64_t steps,
                 int64_t block_begin, int64_t block_end) {
    for (int64_t block = block_begin; block < block_end; block++) {
        for (int64_t step = 0; step < steps; step++) {
            triad_of(x + block * kSlice, y + block * kSlice + 20 * kLanes,
                     z + block * kSlice + 40 * kLanes, n);
            __asm__ volatile("" ::: "memory");
        }
    }
}

void empty(const float *x, const float *y, float *z, int64_t n, int64_t steps,
           int64_t block_begin, int64_t block_end) {
    (void)x;
    (void)y;
    (void)z;
    (void)n;
    (void)steps;
    (void)block_begin;
    (void)block_end;
}
