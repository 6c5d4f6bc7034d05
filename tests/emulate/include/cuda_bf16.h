// bfloat16 for the host: storage and conversions.
#ifndef EMULATE_CUDA_BF16_H
#define EMULATE_CUDA_BF16_H

#include "emulate.h"

struct __nv_bfloat16 {
    uint16_t bits;
};

struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

inline __nv_bfloat16 __float2bfloat16_rn(float value) { return {emu::bf16_from_float(value)}; }
inline __nv_bfloat16 __float2bfloat16(float value) { return __float2bfloat16_rn(value); }
inline float __bfloat162float(__nv_bfloat16 value) { return emu::float_from_bf16(value.bits); }
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
    return {__float2bfloat16_rn(low), __float2bfloat16_rn(high)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 pair) { return __floats2bfloat162_rn(pair.x, pair.y); }
inline float2 __bfloat1622float2(__nv_bfloat162 pair) {
    return {__bfloat162float(pair.x), __bfloat162float(pair.y)};
}

#endif
