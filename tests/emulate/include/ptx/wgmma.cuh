// Stands in for labs/include/ptx/wgmma.cuh.
#ifndef WS_PTX_WGMMA_CUH
#define WS_PTX_WGMMA_CUH

#include "ptx/barrier.cuh"

namespace ws {

// --- Descriptors: the same fields, since the machine decodes them ------------------------------------------------

typedef unsigned long long Descriptor;

inline Descriptor make_descriptor(unsigned address, unsigned leading_bytes, unsigned stride_bytes) {
    return static_cast<Descriptor>((address & 0x3FFFFu) >> 4) | static_cast<Descriptor>(leading_bytes >> 4) << 16 |
           static_cast<Descriptor>(stride_bytes >> 4) << 32 | 1ull << 62;
}

inline Descriptor descriptor_k_major(const void *tile, emu::Location at = emu::Location::current()) {
    return make_descriptor(emu::shared_address(tile, at), 16, 1024);
}

inline Descriptor descriptor_n_major(const void *tile, unsigned bytes_to_next_64,
                                     emu::Location at = emu::Location::current()) {
    return make_descriptor(emu::shared_address(tile, at), bytes_to_next_64, 1024);
}

inline Descriptor descriptor_advance(Descriptor descriptor, unsigned bytes) {
    return descriptor + (bytes >> 4);
}

// --- Ordering ----------------------------------------------------------------------------------------------------

inline void wgmma_fence(emu::Location at = emu::Location::current()) {
    emu::product_fence(at);
}

inline void wgmma_commit(emu::Location at = emu::Location::current()) {
    emu::product_commit(at);
}

template <int kPending>
inline void wgmma_wait(emu::Location at = emu::Location::current()) {
    emu::product_wait(kPending, at);
}

// They speak to the compiler only.
template <int kCount>
inline void wgmma_fence_operand(float (&)[kCount]) {}
template <int kRows, int kCount>
inline void wgmma_fence_operand(unsigned (&)[kRows][kCount]) {}

// What the registers hold after it is anything; the next product must not read it.
template <int kCount>
inline void wgmma_forget(float (&registers)[kCount]) {
    for (float &value : registers) {
        value = __int_as_float(0x7FFFFFFF);
    }
}

// --- Registers ---------------------------------------------------------------------------------------------------

template <int kCount>
inline void setmaxnreg_dec() {
    static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0, "as the instruction wants it");
}

template <int kCount>
inline void setmaxnreg_inc() {
    static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0, "as the instruction wants it");
}

// --- Fragments ---------------------------------------------------------------------------------------------------

inline void transpose_quad(unsigned (&words)[4], int lane, emu::Location at = emu::Location::current()) {
    unsigned result[4];
    for (int distance = 0; distance < 4; distance++) {
        // Lane t asks lane t ^ distance for its word t; that lane passes it at the same time.
        int partner = (lane ^ distance) & 3;
        result[partner] = __shfl_xor_sync(0xFFFFFFFFu, words[partner], distance, at);
    }
    memcpy(words, result, sizeof result);
}

// --- Products ----------------------------------------------------------------------------------------------------

template <bool kBf16, bool kNMajor, int kCount>
inline void wgmma_ss(float (&d)[kCount], Descriptor a, Descriptor b, int accumulate,
                     emu::Location at = emu::Location::current()) {
    static_assert(kCount % 4 == 0 && kCount <= 128, "n is a multiple of 8 up to 256");
    emu::start_product(2 * kCount, kBf16, kNMajor, d, nullptr, a, b, accumulate != 0, at);
}

template <bool kBf16, bool kNMajor, int kCount>
inline void wgmma_rs(float (&d)[kCount], const unsigned (&a)[4], Descriptor b, int accumulate,
                     emu::Location at = emu::Location::current()) {
    static_assert(kCount % 4 == 0 && kCount <= 128, "n is a multiple of 8 up to 256");
    emu::start_product(2 * kCount, kBf16, kNMajor, d, a, 0, b, accumulate != 0, at);
}

} // namespace ws

#endif
