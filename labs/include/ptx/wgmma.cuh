// Warpgroup matrix products (wgmma), their shared-memory descriptors, and register reallocation. sm_90a.
//
// A warpgroup (4 warps, the first one's index a multiple of 4) computes d(64, n) += a(64, 16) b(16, n) in
// float. b, and a if it is not in registers, is read from shared memory as the copy engine leaves it with the
// 128-byte swizzle. The product runs on: until wgmma_wait nobody may touch d, or a in registers.
//
// Fragments: lane = 4 g + t of warp w holds, of d, at index 4 j + 2 r + c the element of row 16 w + g + 8 r and
// column 8 j + 2 t + c; of a, in word 2 h + r, the elements of that row and columns 8 h + 2 t and the next. So
// the words of a for columns 16 s .. 16 s + 15 are the pairs of d from index 8 s on, in order.
#ifndef WS_PTX_WGMMA_CUH
#define WS_PTX_WGMMA_CUH

#include "ptx/barrier.cuh"

namespace ws {

// --- Descriptors ---------------------------------------------------------------------------------------------
//
// Both are for tiles whose rows are 128 bytes (64 elements), swizzled, 8 rows to an atom of 1024 bytes, the first
// atom at a multiple of 1024. Fields: address / 16 in bits 0-13, leading offset / 16 in bits 16-29, stride
// offset / 16 in bits 32-45, swizzle in bits 62-63 (1: 128 bytes). All else is 0.

typedef unsigned long long Descriptor;

__device__ __forceinline__ Descriptor make_descriptor(unsigned address, unsigned leading_bytes, unsigned stride_bytes) {
    return static_cast<Descriptor>((address & 0x3FFFFu) >> 4) | static_cast<Descriptor>(leading_bytes >> 4) << 16 |
           static_cast<Descriptor>(stride_bytes >> 4) << 32 | 1ull << 62;
}

// K-major: a row is one m (or n) and runs along k. The stride offset goes to the next 8 rows; the leading one is
// unused, since 16 elements of k never leave a row. The next 16 of k are 32 bytes further in the same rows.
__device__ __forceinline__ Descriptor descriptor_k_major(const void *tile) {
    return make_descriptor(shared_address(tile), 16, 1024);
}

// N-major: a row is one k and runs along n. The stride offset goes to the next 8 of k, the leading one to the next
// 64 of n, which are another tile of 128-byte rows. The next 16 of k are 2048 bytes further.
__device__ __forceinline__ Descriptor descriptor_n_major(const void *tile, unsigned bytes_to_next_64) {
    return make_descriptor(shared_address(tile), bytes_to_next_64, 1024);
}

__device__ __forceinline__ Descriptor descriptor_advance(Descriptor descriptor, unsigned bytes) {
    return descriptor + (bytes >> 4);
}

// --- Ordering ------------------------------------------------------------------------------------------------

// Before the first product, and after registers that a product uses were written.
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most kPending committed groups are unfinished.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving uses of the registers across this point: it does not know that a product runs on.
template <int kCount>
__device__ __forceinline__ void wgmma_fence_operand(float (&registers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; i++) {
        asm volatile("" : "+f"(registers[i])::"memory");
    }
}

template <int kRows, int kCount>
__device__ __forceinline__ void wgmma_fence_operand(unsigned (&registers)[kRows][kCount]) {
#pragma unroll
    for (int row = 0; row < kRows; row++) {
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            asm volatile("" : "+r"(registers[row][i])::"memory");
        }
    }
}

// --- Registers -----------------------------------------------------------------------------------------------

// Gives registers back, or waits for them; all of a warpgroup at once, 24 to 256 in steps of 8.
template <int kCount>
__device__ __forceinline__ void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

template <int kCount>
__device__ __forceinline__ void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// --- Fragments -----------------------------------------------------------------------------------------------

// Transposes 4 x 4 words among the 4 lanes of a quad: word u of lane t becomes word t of lane u. With the 16-bit pairs
// of 4 neighbouring j of one row, each lane then has 8 neighbouring columns, 16 bytes to store at once.
__device__ __forceinline__ void transpose_quad(unsigned (&words)[4], int lane) {
#pragma unroll
    for (int distance = 1; distance <= 2; distance *= 2) {
        bool upper = (lane & distance) != 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if ((i & distance) == 0) {
                unsigned sent = upper ? words[i] : words[i + distance];
                unsigned received = __shfl_xor_sync(0xFFFFFFFFu, sent, distance);
                words[i] = upper ? received : words[i];
                words[i + distance] = upper ? words[i + distance] : received;
            }
        }
    }
}

// --- Products ------------------------------------------------------------------------------------------------
//
// wgmma_ss takes a from shared memory (K-major), wgmma_rs from registers; n is twice the size of d. kNMajor says how
// b lies. Without `accumulate` the old d is not read. One definition serves all n: the operands of the
// accumulator come in chunks of 8 (WS_D8), their names in the text likewise (WS_P0 is "%0, ..., %7").

#define WS_D8(i)                                                                                                       \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),        \
        "+f"(d[i + 7])
#define WS_P0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WS_P1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define WS_P2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define WS_P3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define WS_P4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define WS_P5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define WS_P6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define WS_P7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define WS_P8 "%64, %65, %66, %67, %68, %69, %70, %71"
#define WS_P9 "%72, %73, %74, %75, %76, %77, %78, %79"
#define WS_P10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define WS_P11 "%88, %89, %90, %91, %92, %93, %94, %95"
#define WS_P12 "%96, %97, %98, %99, %100, %101, %102, %103"
#define WS_P13 "%104, %105, %106, %107, %108, %109, %110, %111"
#define WS_P14 "%112, %113, %114, %115, %116, %117, %118, %119"
#define WS_P15 "%120, %121, %122, %123, %124, %125, %126, %127"

#define WS_D_32 WS_D8(0), WS_D8(8), WS_D8(16), WS_D8(24)
#define WS_P_32 WS_P0 ", " WS_P1 ", " WS_P2 ", " WS_P3
#define WS_D_40 WS_D_32, WS_D8(32)
#define WS_P_40 WS_P_32 ", " WS_P4
#define WS_D_48 WS_D_40, WS_D8(40)
#define WS_P_48 WS_P_40 ", " WS_P5
#define WS_D_56 WS_D_48, WS_D8(48)
#define WS_P_56 WS_P_48 ", " WS_P6
#define WS_D_64 WS_D_56, WS_D8(56)
#define WS_P_64 WS_P_56 ", " WS_P7
#define WS_D_72 WS_D_64, WS_D8(64)
#define WS_P_72 WS_P_64 ", " WS_P8
#define WS_D_80 WS_D_72, WS_D8(72)
#define WS_P_80 WS_P_72 ", " WS_P9
#define WS_D_88 WS_D_80, WS_D8(80)
#define WS_P_88 WS_P_80 ", " WS_P10
#define WS_D_96 WS_D_88, WS_D8(88)
#define WS_P_96 WS_P_88 ", " WS_P11
#define WS_D_104 WS_D_96, WS_D8(96)
#define WS_P_104 WS_P_96 ", " WS_P12
#define WS_D_112 WS_D_104, WS_D8(104)
#define WS_P_112 WS_P_104 ", " WS_P13
#define WS_D_120 WS_D_112, WS_D8(112)
#define WS_P_120 WS_P_112 ", " WS_P14
#define WS_D_128 WS_D_120, WS_D8(120)
#define WS_P_128 WS_P_120 ", " WS_P15

// N, the number of registers of d, and the operand numbers that follow them.
#define WS_WGMMA_SS(N, COUNT, TYPE, O0, O1, O2, O3, O4, O5, O6)                                                        \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %" #O2 ", 0;\n\t"                                               \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" WS_P_##COUNT "}, %" #O0          \
                 ", %" #O1 ", p, 1, 1, 0, %" #O3 ";\n\t}"                                                              \
                 : WS_D_##COUNT                                                                                        \
                 : "l"(a), "l"(b), "r"(accumulate), "n"(kNMajor ? 1 : 0));

#define WS_WGMMA_RS(N, COUNT, TYPE, O0, O1, O2, O3, O4, O5, O6)                                                        \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %" #O5 ", 0;\n\t"                                               \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" WS_P_##COUNT "}, {%" #O0         \
                 ", %" #O1 ", %" #O2 ", %" #O3 "}, %" #O4 ", p, 1, 1, %" #O6 ";\n\t}"                                  \
                 : WS_D_##COUNT                                                                                        \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kNMajor ? 1 : 0));

#define WS_DEFINE_WGMMA(N, COUNT, O0, O1, O2, O3, O4, O5, O6)                                                          \
    template <bool kBf16, bool kNMajor>                                                                                \
    __device__ __forceinline__ void wgmma_ss(float (&d)[COUNT], Descriptor a, Descriptor b, int accumulate) {          \
        if constexpr (kBf16) {                                                                                         \
            WS_WGMMA_SS(N, COUNT, "bf16", O0, O1, O2, O3, O4, O5, O6)                                                  \
        } else {                                                                                                       \
            WS_WGMMA_SS(N, COUNT, "f16", O0, O1, O2, O3, O4, O5, O6)                                                   \
        }                                                                                                              \
    }                                                                                                                  \
    template <bool kBf16, bool kNMajor>                                                                                \
    __device__ __forceinline__ void wgmma_rs(float (&d)[COUNT], const unsigned (&a)[4], Descriptor b,                  \
                                             int accumulate) {                                                         \
        if constexpr (kBf16) {                                                                                         \
            WS_WGMMA_RS(N, COUNT, "bf16", O0, O1, O2, O3, O4, O5, O6)                                                  \
        } else {                                                                                                       \
            WS_WGMMA_RS(N, COUNT, "f16", O0, O1, O2, O3, O4, O5, O6)                                                   \
        }                                                                                                              \
    }

WS_DEFINE_WGMMA(64, 32, 32, 33, 34, 35, 36, 37, 38)
WS_DEFINE_WGMMA(80, 40, 40, 41, 42, 43, 44, 45, 46)
WS_DEFINE_WGMMA(96, 48, 48, 49, 50, 51, 52, 53, 54)
WS_DEFINE_WGMMA(112, 56, 56, 57, 58, 59, 60, 61, 62)
WS_DEFINE_WGMMA(128, 64, 64, 65, 66, 67, 68, 69, 70)
WS_DEFINE_WGMMA(144, 72, 72, 73, 74, 75, 76, 77, 78)
WS_DEFINE_WGMMA(160, 80, 80, 81, 82, 83, 84, 85, 86)
WS_DEFINE_WGMMA(176, 88, 88, 89, 90, 91, 92, 93, 94)
WS_DEFINE_WGMMA(192, 96, 96, 97, 98, 99, 100, 101, 102)
WS_DEFINE_WGMMA(208, 104, 104, 105, 106, 107, 108, 109, 110)
WS_DEFINE_WGMMA(224, 112, 112, 113, 114, 115, 116, 117, 118)
WS_DEFINE_WGMMA(240, 120, 120, 121, 122, 123, 124, 125, 126)
WS_DEFINE_WGMMA(256, 128, 128, 129, 130, 131, 132, 133, 134)

#undef WS_DEFINE_WGMMA
#undef WS_WGMMA_RS
#undef WS_WGMMA_SS
#undef WS_D_128
#undef WS_P_128
#undef WS_D_120
#undef WS_P_120
#undef WS_D_112
#undef WS_P_112
#undef WS_D_104
#undef WS_P_104
#undef WS_D_96
#undef WS_P_96
#undef WS_D_88
#undef WS_P_88
#undef WS_D_80
#undef WS_P_80
#undef WS_D_72
#undef WS_P_72
#undef WS_D_64
#undef WS_P_64
#undef WS_D_56
#undef WS_P_56
#undef WS_D_48
#undef WS_P_48
#undef WS_D_40
#undef WS_P_40
#undef WS_D_32
#undef WS_P_32
#undef WS_P0
#undef WS_P1
#undef WS_P2
#undef WS_P3
#undef WS_P4
#undef WS_P5
#undef WS_P6
#undef WS_P7
#undef WS_P8
#undef WS_P9
#undef WS_P10
#undef WS_P11
#undef WS_P12
#undef WS_P13
#undef WS_P14
#undef WS_P15
#undef WS_D8

} // namespace ws

#endif
