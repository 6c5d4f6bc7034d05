// Stands in for labs/include/ptx/mma.cuh.
#ifndef WS_PTX_MMA_CUH
#define WS_PTX_MMA_CUH

#include "ptx/barrier.cuh"

namespace ws {

// --- Loads and stores of 8 x 8 tiles -----------------------------------------------------------------------------

// The 16 bytes that each lane points to, passed around by address.
inline const uint64_t *emulate_rows(const char *name, unsigned row_address, emu::Location at) {
    emu::Block &block = emu::this_block();
    unsigned char *row = emu::shared_pointer(block, row_address, 16, at);
    emu::check_not_copying(block, row_address, 16, at, name);
    return emu::collective(name, at, reinterpret_cast<uint64_t>(row));
}

inline void ldmatrix_x4(unsigned (&words)[4], unsigned row_address, emu::Location at = emu::Location::current()) {
    const uint64_t *rows = emulate_rows("ldmatrix", row_address, at);
    int lane = emu::self->lane;
    for (int tile = 0; tile < 4; tile++) {
        memcpy(&words[tile], reinterpret_cast<const unsigned char *>(rows[tile * 8 + lane / 4]) + lane % 4 * 4, 4);
    }
}

inline void ldmatrix_x4_trans(unsigned (&words)[4], unsigned row_address,
                              emu::Location at = emu::Location::current()) {
    const uint64_t *rows = emulate_rows("ldmatrix.trans", row_address, at);
    int lane = emu::self->lane;
    for (int tile = 0; tile < 4; tile++) {
        for (int half = 0; half < 2; half++) {
            auto *row = reinterpret_cast<const unsigned char *>(rows[tile * 8 + lane % 4 * 2 + half]);
            memcpy(reinterpret_cast<unsigned char *>(&words[tile]) + 2 * half, row + lane / 4 * 2, 2);
        }
    }
}

inline void stmatrix_x4(unsigned row_address, const unsigned (&words)[4],
                        emu::Location at = emu::Location::current()) {
    const uint64_t *rows = emulate_rows("stmatrix", row_address, at);
    int lane = emu::self->lane;
    for (int tile = 0; tile < 4; tile++) {
        memcpy(reinterpret_cast<unsigned char *>(rows[tile * 8 + lane / 4]) + lane % 4 * 4, &words[tile], 4);
    }
}

// --- Products ----------------------------------------------------------------------------------------------------

template <bool kBf16>
inline void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                         emu::Location at = emu::Location::current()) {
    auto widen = [](unsigned word, int half) {
        auto bits = static_cast<uint16_t>(word >> 16 * half);
        return kBf16 ? emu::float_from_bf16(bits) : emu::float_from_half(bits);
    };
    struct Operands {
        unsigned a[4], b[2];
    } mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    const uint64_t *operands = emu::collective("mma.sync", at, reinterpret_cast<uint64_t>(&mine));
    int lane = emu::self->lane;
    for (int i = 0; i < 4; i++) {
        int row = lane / 4, column = lane % 4 * 2 + i % 2;
        float sum = 0.0f;
        for (int k = 0; k < 16; k++) {
            int from = k / 2 % 4;
            auto *of_a = reinterpret_cast<const Operands *>(operands[row * 4 + from]);
            auto *of_b = reinterpret_cast<const Operands *>(operands[column * 4 + from]);
            sum += widen(of_a->a[i / 2 + k / 8 * 2], k % 2) * widen(of_b->b[k / 8], k % 2);
        }
        d[i] += sum;
    }
    // Nobody leaves while others still read its operands.
    emu::collective("mma.sync", at, 0);
}

inline void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                             emu::Location at = emu::Location::current()) {
    mma_m16n8k16<false>(d, a, b0, b1, at);
}

inline void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                              emu::Location at = emu::Location::current()) {
    mma_m16n8k16<true>(d, a, b0, b1, at);
}

} // namespace ws

#include "plain/mma.cuh"

#endif
