// What a thread does with its scores of a tile of queries, before and after they become weights. sm_90.
//
// Scores lie as wgmma leaves them (ptx/wgmma.cuh): index 4 j + 2 r + c is row r of the thread's two, 8 queries apart, and
// key 8 j + c counted from the thread's first. The 4 lanes of a quad share their rows.
#ifndef WS_SCORE_ROWS_CUH
#define WS_SCORE_ROWS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ptx/math.cuh"

namespace ws {

// Sets the scores of keys that a query must not see to -inf. Both limits count from this thread's first key;
// `n_seen` is for its first row.
template <bool kCausal, int kCount>
__device__ __forceinline__ void mask_scores(float (&scores)[kCount], int n_seen, int n_keys) {
#pragma unroll
    for (int i = 0; i < kCount; i++) {
        int column = i / 4 * 8 + i % 2;
        int row = i / 2 % 2 * 8;
        bool visible = column < n_keys && (!kCausal || column < n_seen + row);
        scores[i] = visible ? scores[i] : -infinity();
    }
}

template <int kCount>
__device__ __forceinline__ float largest_of_row(const float (&scores)[kCount], int row) {
    // Two chains: one would wait for itself.
    float largest[2] = {scores[2 * row], scores[2 * row + 1]};
#pragma unroll
    for (int i = 4; i < kCount; i += 4) {
        largest[0] = fmaxf(largest[0], scores[i + 2 * row]);
        largest[1] = fmaxf(largest[1], scores[i + 2 * row + 1]);
    }
    float found = fmaxf(largest[0], largest[1]);
    found = fmaxf(found, __shfl_xor_sync(0xFFFFFFFFu, found, 1));
    return fmaxf(found, __shfl_xor_sync(0xFFFFFFFFu, found, 2));
}

// The same in half the instructions, as integers, of which one compares three. They are ordered like floats as long as
// the largest is not negative; else the result is negative too, but not the largest.
template <int kCount>
__device__ __forceinline__ int largest_bits_of_row(const float (&scores)[kCount], int row) {
    int largest[2] = {__float_as_int(scores[2 * row]), __float_as_int(scores[2 * row + 1])};
#pragma unroll
    for (int i = 4; i < kCount; i += 4) {
        int chain = i / 4 % 2;
        largest[chain] = __vimax3_s32(largest[chain], __float_as_int(scores[i + 2 * row]),
                                      __float_as_int(scores[i + 2 * row + 1]));
    }
    int found = max(largest[0], largest[1]);
    found = max(found, __shfl_xor_sync(0xFFFFFFFFu, found, 1));
    return max(found, __shfl_xor_sync(0xFFFFFFFFu, found, 2));
}

// The largest score of both rows. kByThree: as integers first, and as floats only where that does not tell.
template <bool kByThree, int kCount>
__device__ __forceinline__ void largest_scores(float (&found)[2], const float (&scores)[kCount]) {
    if constexpr (kByThree) {
        int bits[2] = {largest_bits_of_row(scores, 0), largest_bits_of_row(scores, 1)};
        found[0] = __int_as_float(bits[0]);
        found[1] = __int_as_float(bits[1]);
        if (!__any_sync(0xFFFFFFFFu, (bits[0] | bits[1]) < 0)) {
            return;
        }
    }
    found[0] = largest_of_row(scores, 0);
    found[1] = largest_of_row(scores, 1);
}

// Two 16-bit elements in a word, rounded to nearest.
template <bool kBf16>
__device__ __forceinline__ unsigned pack(float low, float high) {
    if constexpr (kBf16) {
        __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *reinterpret_cast<unsigned *>(&pair);
    } else {
        __half2 pair = __floats2half2_rn(low, high);
        return *reinterpret_cast<unsigned *>(&pair);
    }
}

} // namespace ws

#endif
