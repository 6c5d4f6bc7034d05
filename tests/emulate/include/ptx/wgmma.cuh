// Stands in for labs/include/ptx/wgmma.cuh.
#ifndef WS_PTX_WGMMA_CUH
#define WS_PTX_WGMMA_CUH

#include "ptx/barrier.cuh"

namespace ws {

typedef unsigned long long Descriptor;

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

// --- Registers ---------------------------------------------------------------------------------------------------

template <int kCount>
inline void setmaxnreg_dec() {
    static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0, "as the instruction wants it");
}

template <int kCount>
inline void setmaxnreg_inc() {
    static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0, "as the instruction wants it");
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

#include "plain/wgmma.cuh"

#endif
