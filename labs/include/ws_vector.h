// Vector types of a chosen width, for any CPU.
//
// VEC_BYTES chooses the width (16, 32 or 64); left undefined it is the widest that the target has.
// Everything is written with GCC's vector extensions, which gcc and clang compile for every target;
// an intrinsic appears only where the extensions have no word for an instruction, and has a fallback.
//
// Compile with -ffp-contract=fast (a * b + c becomes one instruction) and without -ffast-math
// (vec_exp2 depends on the order of its additions).
#ifndef WS_VECTOR_H
#define WS_VECTOR_H

#include <stdint.h>

#if defined(__SSE__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#ifndef VEC_BYTES
#if defined(__AVX512F__)
#define VEC_BYTES 64
#elif defined(__AVX__)
#define VEC_BYTES 32
#else
#define VEC_BYTES 16
#endif
#endif

_Static_assert(VEC_BYTES == 16 || VEC_BYTES == 32 || VEC_BYTES == 64, "VEC_BYTES is 16, 32 or 64");

enum { kLanes = VEC_BYTES / 4 };

typedef float vec __attribute__((vector_size(VEC_BYTES), may_alias));
typedef float vec_unaligned __attribute__((vector_size(VEC_BYTES), aligned(4), may_alias));
typedef int32_t vec_int __attribute__((vector_size(VEC_BYTES), may_alias));

#define WS_INLINE static inline __attribute__((always_inline))
#define WS_NOINLINE static __attribute__((noinline))

// Unrolls the loop that follows completely, so that an array indexed by its counter can live in registers.
// WS_UNROLL_BY(n) makes n steps of the loop that follows out of one.
#define WS_PRAGMA(x) _Pragma(#x)
#if defined(__clang__)
#define WS_UNROLL WS_PRAGMA(clang loop unroll(full))
#define WS_UNROLL_BY(n) WS_PRAGMA(clang loop unroll_count(n))
#else
#define WS_UNROLL WS_PRAGMA(GCC unroll 64)
#define WS_UNROLL_BY(n) WS_PRAGMA(GCC unroll n)
#endif

WS_INLINE vec vec_splat(float value) {
    return value - (vec){0};
}

// Loads from any float's address.
WS_INLINE vec vec_load(const float *from) {
    return *(const vec_unaligned *)from;
}

WS_INLINE void vec_store(float *to, vec value) {
    *(vec_unaligned *)to = value;
}

// Stores past the caches, to an address that is a multiple of VEC_BYTES. A function that does so ends with
// vec_stream_fence, because such stores are ordered with nothing else.
WS_INLINE void vec_stream(float *to, vec value) {
#if VEC_BYTES == 64 && defined(__AVX512F__)
    _mm512_stream_ps(to, (__m512)value);
#elif VEC_BYTES == 32 && defined(__AVX__)
    _mm256_stream_ps(to, (__m256)value);
#elif VEC_BYTES == 16 && defined(__SSE__)
    _mm_stream_ps(to, (__m128)value);
#else
    vec_store(to, value);
#endif
}

WS_INLINE void vec_stream_fence(void) {
#if defined(__SSE__)
    _mm_sfence();
#endif
}

// Returns `yes` where a lane of `mask` is all ones and `no` where it is all zeros.
WS_INLINE vec vec_select(vec_int mask, vec yes, vec no) {
    return (vec)(((vec_int)yes & mask) | ((vec_int)no & ~mask));
}

WS_INLINE vec vec_max(vec a, vec b) {
#if VEC_BYTES == 64 && defined(__AVX512F__)
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif VEC_BYTES == 32 && defined(__AVX__)
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#elif VEC_BYTES == 16 && defined(__SSE__)
    return (vec)_mm_max_ps((__m128)a, (__m128)b);
#elif VEC_BYTES == 16 && defined(__ARM_NEON)
    return (vec)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
#else
    return vec_select(a > b, a, b);
#endif
}

// EACH_LANE(f, x) is f(0, x), f(1, x), ... for every lane.
#define EACH_LANE_4(f, x) f(0, x), f(1, x), f(2, x), f(3, x)
#define EACH_LANE_8(f, x) EACH_LANE_4(f, x), f(4, x), f(5, x), f(6, x), f(7, x)
#define EACH_LANE_16(f, x) \
    EACH_LANE_8(f, x), f(8, x), f(9, x), f(10, x), f(11, x), f(12, x), f(13, x), f(14, x), f(15, x)
#if VEC_BYTES == 16
#define EACH_LANE EACH_LANE_4
#elif VEC_BYTES == 32
#define EACH_LANE EACH_LANE_8
#else
#define EACH_LANE EACH_LANE_16
#endif

#if defined(__clang__)
#define WS_SHUFFLE(a, b, f, x) __builtin_shufflevector(a, b, EACH_LANE(f, x))
#else
#define WS_SHUFFLE(a, b, f, x) __builtin_shuffle(a, b, (vec_int){EACH_LANE(f, x)})
#endif

// Returns 0, 1, 2, ...
#define WS_LANE_INDEX(lane, unused) (lane)
WS_INLINE vec_int vec_lane_index(void) {
    return (vec_int){EACH_LANE(WS_LANE_INDEX, 0)};
}

// Transposes a square of kLanes vectors in place.
// Each stage swaps the off-diagonal quarters of squares of 2, 4, 8, ... lanes.
#define WS_UPPER(lane, step) (((lane) & (step)) ? kLanes + (lane) - (step) : (lane))
#define WS_LOWER(lane, step) (((lane) & (step)) ? kLanes + (lane) : (lane) + (step))
#define WS_TRANSPOSE_STAGE(rows, step)                                              \
    WS_UNROLL for (int row = 0; row < kLanes; row++) {                              \
        if (!(row & (step))) {                                                      \
            vec upper = WS_SHUFFLE(rows[row], rows[row + (step)], WS_UPPER, step);  \
            rows[row + (step)] = WS_SHUFFLE(rows[row], rows[row + (step)], WS_LOWER, step); \
            rows[row] = upper;                                                      \
        }                                                                           \
    }
WS_INLINE void vec_transpose(vec rows[kLanes]) {
    WS_TRANSPOSE_STAGE(rows, 1)
    WS_TRANSPOSE_STAGE(rows, 2)
#if VEC_BYTES >= 32
    WS_TRANSPOSE_STAGE(rows, 4)
#endif
#if VEC_BYTES >= 64
    WS_TRANSPOSE_STAGE(rows, 8)
#endif
}

// Returns whether any lane of `a` is greater than the same lane of `b`.
WS_INLINE int vec_any_greater(vec a, vec b) {
#if VEC_BYTES == 64 && defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ) != 0;
#elif VEC_BYTES == 32 && defined(__AVX__)
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GT_OQ)) != 0;
#elif VEC_BYTES == 16 && defined(__SSE__)
    return _mm_movemask_ps(_mm_cmpgt_ps((__m128)a, (__m128)b)) != 0;
#else
    vec_int greater = a > b;
    int32_t any = 0;
    for (int lane = 0; lane < kLanes; lane++) {
        any |= greater[lane];
    }
    return any != 0;
#endif
}

// Returns the sum of all lanes.
WS_INLINE float vec_sum(vec a) {
    float sum = 0;
    for (int lane = 0; lane < kLanes; lane++) {
        sum += a[lane];
    }
    return sum;
}

// Returns 2 to the power of x for x <= 127: exactly 1 at 0, exactly 0 at and below -127 (and at -infinity),
// elsewhere in the normal range within 2.5 units in the last place.
//
// x = n + f with n the nearest integer: adding 1.5 * 2^23 rounds x to n in the low bits of the mantissa,
// where they are ready to be shifted into the exponent. 2^f is a polynomial of degree 5 on [-1/2, 1/2]
// (minimax in relative error with the constant term fixed at 1, found by Lawson's iteration; within 1e-7).
// Its terms are paired (Estrin's scheme): one multiplication more than Horner's, but half the latency, and
// latency is what a burst of exponentials between two matrix products waits for.
WS_INLINE vec vec_exp2(vec x) {
    const float shifter = 12582912.0f;
    x = vec_max(x, vec_splat(-127.0f));
    vec shifted = x + shifter;
    vec f = x - (shifted - shifter);
    vec f2 = f * f;
    vec p01 = 0x1.62e42ap-1f * f + 1.0f;
    vec p23 = 0x1.c6b752p-5f * f + 0x1.ebf9bcp-3f;
    vec p45 = 0x1.5bba14p-10f * f + 0x1.3cea88p-7f;
    vec p = (p45 * f2 + p23) * f2 + p01;
    return (vec)((vec_int)p + ((vec_int)shifted << 23));
}

#endif
