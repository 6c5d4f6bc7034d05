// Approximate arithmetic, most of it by the special function unit, and constants. sm_80.
#ifndef WS_PTX_MATH_CUH
#define WS_PTX_MATH_CUH

namespace ws {

// NVRTC has no <math.h>, and so no INFINITY.
__device__ __forceinline__ float infinity() {
    return __int_as_float(0x7F800000);
}

constexpr float kLog2E = 1.44269504088896341f;

// 2 to the power x, within 2 units in the last place; 0 for minus infinity and for results below the least
// normal number. Without .ftz the compiler adds a test and two multiplications to save the subnormal ones.
__device__ __forceinline__ float exp2_approx(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// The same, and kept in its place among barriers and products: the compiler would rather compute it where it is used.
__device__ __forceinline__ float exp2_approx_here(float x) {
    float result;
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// 2 to the power x, for x up to 64, without the special function unit and within a relative error of 7.5e-5: 2^n
// through the exponent's bits, 2^f for f from -1/2 to 1/2 by the cubic whose largest relative error is least (Remez).
// Below -125 it stays at 2^-125.
__device__ __forceinline__ float exp2_polynomial(float x) {
    constexpr float kRound = 12582912.0f; // 1.5 * 2^23: a number added to it loses its fraction
    x = fmaxf(x, -125.0f);
    float shifted = x + kRound;
    float f = x - (shifted - kRound);
    float power = ((0.0551716691f * f + 0.242611122f) * f + 0.693260985f) * f + 0.999928074f;
    return __int_as_float(__float_as_int(power) + (__float_as_int(shifted) << 23));
}

// 1 / x, within 1 unit in the last place.
__device__ __forceinline__ float rcp_approx(float x) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// --- Order -------------------------------------------------------------------------------------------------------

// Has a value computed here, before what is waited for next, and not where it is used.
__device__ __forceinline__ void compute_here(float &value) {
    asm volatile("" : "+f"(value)::"memory");
}

__device__ __forceinline__ void compute_here(long long &value) {
    asm volatile("" : "+l"(value)::"memory");
}

// The same number, of which the compiler does not know that it is. Else it keeps whatever follows from it in registers,
// through loops that may have none to spare.
__device__ __forceinline__ int computed_anew(int number) {
    asm volatile("" : "+r"(number));
    return number;
}

} // namespace ws

#endif
