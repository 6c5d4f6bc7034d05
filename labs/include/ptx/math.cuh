// Approximate arithmetic of the special function unit, and constants. sm_80.
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

// 1 / x, within 1 unit in the last place.
__device__ __forceinline__ float rcp_approx(float x) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

} // namespace ws

#endif
