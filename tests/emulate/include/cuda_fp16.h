// Half precision for the host: storage and conversions.
#ifndef EMULATE_CUDA_FP16_H
#define EMULATE_CUDA_FP16_H

#include "emulate.h"

struct __half {
    uint16_t bits;
};

struct alignas(4) __half2 {
    __half x, y;
};

inline __half __float2half_rn(float value) { return {emu::half_from_float(value)}; }
inline __half __float2half(float value) { return __float2half_rn(value); }
inline float __half2float(__half value) { return emu::float_from_half(value.bits); }
inline __half2 __floats2half2_rn(float low, float high) { return {__float2half_rn(low), __float2half_rn(high)}; }
inline __half2 __float22half2_rn(float2 pair) { return __floats2half2_rn(pair.x, pair.y); }
inline float2 __half22float2(__half2 pair) { return {__half2float(pair.x), __half2float(pair.y)}; }

#endif
