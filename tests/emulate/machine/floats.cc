// Conversions between float and the 16-bit types, to the nearest, ties to even.
#include <vector>

#include "machine.h"

namespace emu {

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

uint16_t bf16_from_float(float x) {
    uint32_t bits = bits_of(x);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) {
        return 0x7FFF;
    }
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float float_from_bf16(uint16_t bits) {
    return float_of(static_cast<uint32_t>(bits) << 16);
}

uint16_t half_from_float(float x) {
    uint32_t bits = bits_of(x);
    uint32_t sign = bits >> 16 & 0x8000;
    bits &= 0x7FFFFFFF;
    if (bits > 0x7F800000) {
        return 0x7FFF;
    }
    if (bits >= 0x477FF000) { // 65520 and above round to infinity
        return static_cast<uint16_t>(sign | 0x7C00);
    }
    if (bits < 0x38800000) { // below 2^-14: adding 1/2 puts the last place where it belongs
        return static_cast<uint16_t>(sign | (bits_of(float_of(bits) + 0.5f) - 0x3F000000));
    }
    uint32_t rounded = bits + 0xFFF + (bits >> 13 & 1);
    return static_cast<uint16_t>(sign | (rounded - 0x38000000) >> 13);
}

static float widen_half(uint16_t half) {
    uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
    uint32_t magnitude = half & 0x7FFF;
    if (magnitude >= 0x7C00) {
        return float_of(sign | 0x7F800000 | (magnitude & 0x3FF) << 13);
    }
    if (magnitude < 0x400) {
        float x = static_cast<float>(magnitude) * 0x1p-24f;
        return sign ? -x : x;
    }
    return float_of(sign | ((magnitude << 13) + 0x38000000));
}

float float_from_half(uint16_t bits) {
    static const std::vector<float> table = [] {
        std::vector<float> values(65536);
        for (unsigned i = 0; i < 65536; i++) {
            values[i] = widen_half(static_cast<uint16_t>(i));
        }
        return values;
    }();
    return table[bits];
}

} // namespace emu
