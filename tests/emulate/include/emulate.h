// What a compiler for CUDA knows without a header, for the host: qualifiers, built-in variables and functions.
#ifndef EMULATE_EMULATE_H
#define EMULATE_EMULATE_H

#include <cmath>
#include <cstdint>
#include <cstring>

#include "../machine/machine.h"

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __restrict__

#define threadIdx (emu::self->thread_index)
#define blockIdx (emu::self->warp->block->index)
#define gridDim (emu::machine.launch.grid)
#define blockDim (emu::Dim3{emu::machine.launch.n_threads, 1, 1})
#define warpSize 32

// --- Vectors -----------------------------------------------------------------------------------------------------

#define EMULATE_VECTORS(T, NAME)                                                                                       \
    struct alignas(2 * sizeof(T)) NAME##2 {                                                                            \
        T x, y;                                                                                                        \
    };                                                                                                                 \
    struct alignas(4 * sizeof(T)) NAME##4 {                                                                            \
        T x, y, z, w;                                                                                                  \
    };                                                                                                                 \
    inline NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                                                         \
    inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMULATE_VECTORS(float, float)
EMULATE_VECTORS(int, int)
EMULATE_VECTORS(unsigned, uint)
#undef EMULATE_VECTORS

// --- Bits and numbers --------------------------------------------------------------------------------------------

template <typename To, typename From>
inline To emulate_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

// The device computes one NaN, a positive one; this machine also negative ones, and kernels look at the sign.
inline int __float_as_int(float x) { return x != x ? 0x7FFFFFFF : emulate_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return static_cast<unsigned>(__float_as_int(x)); }
inline float __int_as_float(int x) { return emulate_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return emulate_bits<float>(x); }

inline int max(int a, int b) { return a > b ? a : b; }
inline int min(int a, int b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline int __vimax3_s32(int a, int b, int c) { return max(max(a, b), c); }
inline int __vimin3_s32(int a, int b, int c) { return min(min(a, b), c); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fdividef(float a, float b) { return a / b; }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned nibble = selector >> 4 * i & 15;
        unsigned byte = static_cast<unsigned>(both >> 8 * (nibble & 7)) & 0xFF;
        byte = nibble & 8 ? (byte & 0x80 ? 0xFF : 0) : byte;
        result |= byte << 8 * i;
    }
    return result;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
template <typename T>
inline T __ldg(const T *pointer) {
    return *pointer;
}

// --- Threads together --------------------------------------------------------------------------------------------

inline void __syncthreads(emu::Location at = emu::Location::current()) {
    emu::named_barrier(0, static_cast<int>(emu::machine.launch.n_threads), true, at);
}

inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, emu::Location at = emu::Location::current()) {
    if (mask != 0xFFFFFFFFu) {
        emu::fail(at, "only whole warps are emulated");
    }
    emu::collective("__syncwarp", at, 0);
}

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __nanosleep(unsigned) { emu::yield(); }

template <typename T>
inline T emulate_shuffle(const char *name, unsigned mask, T value, int from, emu::Location at) {
    static_assert(sizeof(T) <= 8, "a register or two");
    if (mask != 0xFFFFFFFFu) {
        emu::fail(at, "only whole warps are emulated");
    }
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    const uint64_t *all = emu::collective(name, at, bits);
    T result;
    memcpy(&result, &all[from], sizeof result);
    return result;
}

template <typename T>
inline T __shfl_sync(unsigned mask, T value, int lane, emu::Location at = emu::Location::current()) {
    return emulate_shuffle("__shfl_sync", mask, value, lane & 31, at);
}

template <typename T>
inline T __shfl_xor_sync(unsigned mask, T value, int distance, emu::Location at = emu::Location::current()) {
    return emulate_shuffle("__shfl_xor_sync", mask, value, (emu::self->lane ^ distance) & 31, at);
}

template <typename T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned distance, emu::Location at = emu::Location::current()) {
    int from = emu::self->lane + static_cast<int>(distance);
    return emulate_shuffle("__shfl_down_sync", mask, value, from < 32 ? from : emu::self->lane, at);
}

template <typename T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned distance, emu::Location at = emu::Location::current()) {
    int from = emu::self->lane - static_cast<int>(distance);
    return emulate_shuffle("__shfl_up_sync", mask, value, from >= 0 ? from : emu::self->lane, at);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, emu::Location at = emu::Location::current()) {
    if (mask != 0xFFFFFFFFu) {
        emu::fail(at, "only whole warps are emulated");
    }
    const uint64_t *all = emu::collective("__ballot_sync", at, predicate != 0);
    unsigned result = 0;
    for (int lane = 0; lane < 32; lane++) {
        result |= static_cast<unsigned>(all[lane]) << lane;
    }
    return result;
}

inline int __any_sync(unsigned mask, int predicate, emu::Location at = emu::Location::current()) {
    return __ballot_sync(mask, predicate, at) != 0;
}

inline int __all_sync(unsigned mask, int predicate, emu::Location at = emu::Location::current()) {
    return __ballot_sync(mask, predicate, at) == 0xFFFFFFFFu;
}

// --- Atomics: fibers never interrupt each other ------------------------------------------------------------------

template <typename T>
inline T emulate_exchange(T *at, T value) {
    emu::maybe_yield();
    T before = *at;
    *at = value;
    return before;
}

template <typename T, typename U>
inline T atomicOr(T *at, U value) {
    emu::maybe_yield();
    T before = *at;
    *at = before | static_cast<T>(value);
    return before;
}

template <typename T, typename U>
inline T atomicAdd(T *at, U value) {
    emu::maybe_yield();
    T before = *at;
    *at = before + static_cast<T>(value);
    return before;
}

template <typename T, typename U>
inline T atomicMax(T *at, U value) {
    emu::maybe_yield();
    T before = *at;
    *at = before > static_cast<T>(value) ? before : static_cast<T>(value);
    return before;
}

template <typename T, typename U>
inline T atomicExch(T *at, U value) {
    return emulate_exchange(at, static_cast<T>(value));
}

inline size_t __cvta_generic_to_shared(const void *pointer) {
    return emu::shared_address(pointer, emu::Location::current());
}

#endif
