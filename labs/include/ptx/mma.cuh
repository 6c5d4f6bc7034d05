// Matrix products of one warp (mma.sync) and the loads and stores that feed them (ldmatrix, stmatrix).
// sm_80; stmatrix sm_90.
//
// Fragments of m16n8k16, for lane = 4 g + t. A word holds two 16-bit elements, the lower column first.
//   a[0]: row g,     columns 2t, 2t+1        a[1]: row g + 8, columns 2t, 2t+1
//   a[2]: row g,     columns 2t+8, 2t+9      a[3]: row g + 8, columns 2t+8, 2t+9
//   b0:   rows 2t, 2t+1 of column g          b1:   rows 2t+8, 2t+9 of column g
//   d[0], d[1]: row g, columns 2t, 2t+1      d[2], d[3]: row g + 8, columns 2t, 2t+1
// So two neighbouring d tiles, packed to 16 bit, are one a fragment: {d0, d1}, {d2, d3} of the left tile and then
// of the right one.
#ifndef WS_PTX_MMA_CUH
#define WS_PTX_MMA_CUH

#include "ptx/barrier.cuh" // shared_address

namespace ws {

// --- Loads and stores of 8 x 8 tiles -------------------------------------------------------------------------

// Loads four 8 x 8 tiles of 16-bit elements. Lane i gives the address of row i % 8 of tile i / 8 and receives in
// word j row g, columns 2t and 2t+1 of tile j.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&words)[4], unsigned row_address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(row_address)
                 : "memory");
}

// The same, each tile transposed: word j holds rows 2t and 2t+1 of column g of tile j.
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&words)[4], unsigned row_address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(row_address)
                 : "memory");
}

// An a fragment: 16 rows from `row` on and columns 16 step .. 16 step + 15, out of rows of 128 bytes in the order that
// the copy engine's swizzle leaves them in.
template <typename Element>
__device__ __forceinline__ void load_a_swizzled(unsigned (&words)[4], const Element (*rows)[64], unsigned row,
                                                unsigned step, unsigned lane) {
    row += lane % 16;
    unsigned piece = step * 2 + lane / 16;
    ldmatrix_x4(words, shared_address(&rows[row][(piece ^ row % 8) * 8]));
}

// The reverse of ldmatrix_x4.
__device__ __forceinline__ void stmatrix_x4(unsigned row_address, const unsigned (&words)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row_address), "r"(words[0]),
                 "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

// --- Products ------------------------------------------------------------------------------------------------

// d(16, 8) += a(16, 16) b(16, 8), all rows; f16 operands, float sums.
__device__ __forceinline__ void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same with bf16 operands.
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same for either operand type, chosen at compile time.
template <bool kBf16>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    if constexpr (kBf16) {
        mma_m16n8k16_bf16(d, a, b0, b1);
    } else {
        mma_m16n8k16_f16(d, a, b0, b1);
    }
}

} // namespace ws

#endif
