// Stands in for labs/include/ptx/math.cuh.
#ifndef WS_PTX_MATH_CUH
#define WS_PTX_MATH_CUH

#include "emulate.h"

namespace ws {

constexpr float kLog2E = 1.44269504088896341f;

inline float flush_subnormal(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

inline float exp2_approx(float x) {
    return flush_subnormal(exp2f(flush_subnormal(x)));
}

inline float exp2_approx_here(float x) {
    return exp2_approx(x);
}

inline float rcp_approx(float x) {
    return flush_subnormal(1.0f / flush_subnormal(x));
}

template <bool kBf16>
inline float float_of_half(unsigned pair, int half) {
    auto bits = static_cast<uint16_t>(pair >> 16 * half);
    return kBf16 ? emu::float_from_bf16(bits) : emu::float_from_half(bits);
}

template <bool kBf16>
inline unsigned add_pairs(unsigned a, unsigned b) {
    unsigned sum = 0;
    for (int half = 0; half < 2; half++) {
        float value = float_of_half<kBf16>(a, half) + float_of_half<kBf16>(b, half);
        uint16_t bits = kBf16 ? emu::bf16_from_float(value) : emu::half_from_float(value);
        sum |= static_cast<unsigned>(bits) << 16 * half;
    }
    return sum;
}

template <bool kBf16>
inline float sum_of_pair(unsigned pair) {
    return float_of_half<kBf16>(pair, 0) + float_of_half<kBf16>(pair, 1);
}

inline void compute_here(float &) {}
inline void compute_here(long long &) {}

inline int computed_anew(int number) {
    return number;
}

} // namespace ws

#include "plain/math.cuh"

#endif
