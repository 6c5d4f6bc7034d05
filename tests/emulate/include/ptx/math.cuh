// Stands in for labs/include/ptx/math.cuh.
#ifndef WS_PTX_MATH_CUH
#define WS_PTX_MATH_CUH

#include "emulate.h"

namespace ws {

inline float infinity() {
    return __int_as_float(0x7F800000);
}

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

inline float exp2_polynomial(float x) {
    constexpr float kRound = 12582912.0f;
    x = fmaxf(x, -125.0f);
    float shifted = x + kRound;
    float f = x - (shifted - kRound);
    float power = ((0.0551716691f * f + 0.242611122f) * f + 0.693260985f) * f + 0.999928074f;
    return __int_as_float(__float_as_int(power) + static_cast<int>(__float_as_uint(shifted) << 23));
}

inline float rcp_approx(float x) {
    return flush_subnormal(1.0f / flush_subnormal(x));
}

} // namespace ws

#endif
