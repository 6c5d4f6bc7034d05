// One tile of keys of fused attention, by a warpgroup with 64 queries: softmax and products at the same time. sm_90a.
//
// A warp that starts a product waits until the tensor cores have taken it, and they take few ahead, so products that are
// started one after the other keep the warp from anything else. Here it starts a piece of a product after every few
// exponentials instead: of the next tile's scores, and of the output of the tile before.
#ifndef WS_ATTENTION_STEP_CUH
#define WS_ATTENTION_STEP_CUH

#include "ptx/barrier.cuh"
#include "ptx/math.cuh"
#include "ptx/wgmma.cuh"
#include "score_rows.cuh"

namespace ws {

template <bool kBf16, int kHeadDim, int kBlockN, int kPoly>
struct AttentionStep {
    typedef float Scores[kBlockN / 2];         // of one thread: 2 rows (queries g and g + 8), keys 8 j + 2 t + {0, 1}
    typedef float Output[kHeadDim / 2];        // likewise, along the head
    typedef unsigned Weights[kBlockN / 16][4]; // the scores' exponentials as 16-bit pairs, for the second product

    static constexpr int kSlabSteps = 4; // products of depth 16 in a slab of 64 of the head dimension
    static constexpr int kScoreSteps = kHeadDim / 16;
    static constexpr int kPieces = kBlockN / 16;
    static constexpr float kSlack = 8.0f; // how far, in powers of two, a row's largest score may exceed its reference
    // The reference of a row that has seen no key. Finite, so that a masked score, -inf, is below it and weighs nothing.
    static constexpr float kLowest = -1e30f;

    // Where the products read. Slabs of Q and K are 64 of the head dimension.
    struct Operands {
        Descriptor q, k, v;
        unsigned q_slab_bytes, k_slab_bytes;
    };

    float scale;         // of a score, times log2 e: from here on powers of two
    float reference[2];  // scaled score of each row that its exponentials are relative to
    float sum[2];        // of this thread's exponentials
    float correction[2]; // what the last update multiplies earlier results by
    Weights weights;     // of the last tile
    Output output;       // of all tiles before it

    __device__ __forceinline__ void begin(float score_scale) {
        scale = score_scale * kLog2E;
#pragma unroll
        for (int row = 0; row < 2; row++) {
            reference[row] = kLowest;
            sum[row] = 0.0f;
        }
#pragma unroll
        for (int i = 0; i < kHeadDim / 2; i++) {
            output[i] = 0.0f;
        }
    }

    // A part of scores = Q Kᵀ, both K-major.
    static __device__ __forceinline__ void multiply_qk(Scores &scores, const Operands &from, int step) {
        unsigned slab = step / kSlabSteps;
        unsigned within = step % kSlabSteps * 32;
        wgmma_ss<kBf16, false>(scores, descriptor_advance(from.q, slab * from.q_slab_bytes + within),
                               descriptor_advance(from.k, slab * from.k_slab_bytes + within), step > 0);
    }

    // A part of output += weights V, V N-major.
    __device__ __forceinline__ void multiply_pv(const Operands &from, int step) {
        wgmma_rs<kBf16, true>(output, weights[step], descriptor_advance(from.v, step * 2048), 1);
    }

    // The first tile's scores.
    static __device__ __forceinline__ void first_scores(Scores &scores, const Operands &from) {
        wgmma_forget(scores);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < kScoreSteps; step++) {
            multiply_qk(scores, from, step);
        }
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_fence_operand(scores);
    }

    // Any reference gives the same quotient, so it follows the largest score only when that is more than kSlack ahead: then
    // most tiles need no correction.
    __device__ __forceinline__ void follow_largest(const Scores &scores) {
        float largest[2];
        largest_scores<false>(largest, scores);
#pragma unroll
        for (int row = 0; row < 2; row++) {
            float found = largest[row] * scale;
            float ahead = found - reference[row];
            bool follow = ahead > kSlack;
            correction[row] = follow ? exp2_approx(-ahead) : 1.0f;
            reference[row] = follow ? found : reference[row];
        }
    }

    // Turns the scores of a tile into weights. kNext: starts the next tile's scores, of from.k, beside it. kBefore: adds
    // the tile before to the output, with from.v. Nothing is under way before and after. `passed` is a barrier that has
    // completed the phase of `parity`.
    template <bool kBefore, bool kNext>
    __device__ __forceinline__ void add_tile(Scores &scores, Scores &next_scores, const Operands &from, Mbarrier *passed,
                                             unsigned parity) {
        follow_largest(scores);
        if constexpr (kNext) {
            wgmma_forget(next_scores);
        }
        if constexpr (kBefore) {
            wgmma_fence_operand(output);
            wgmma_fence_operand(weights);
        }
        if constexpr (kBefore || kNext) {
            wgmma_fence();
        }
#pragma unroll
        for (int piece = 0; piece < kPieces; piece++) {
#pragma unroll
            for (int i = 8 * piece; i < 8 * piece + 8; i++) {
                float power = scores[i] * scale - reference[i / 2 % 2];
                bool by_polynomial = (i / 4 * 2 + i % 2) % 8 < kPoly;
                scores[i] = by_polynomial ? exp2_polynomial(power) : exp2_approx_here(power);
            }
            if constexpr (kNext) {
#pragma unroll
                for (int step = piece * kScoreSteps / kPieces; step < (piece + 1) * kScoreSteps / kPieces; step++) {
                    multiply_qk(next_scores, from, step);
                }
            }
            if constexpr (kBefore) {
                multiply_pv(from, piece);
            }
        }
        add_to_sums(scores);
        if constexpr (kBefore || kNext) {
            wgmma_commit();
            // Sums are positive, so this waits for nothing, but the compiler computes exponentials only after the products
            // otherwise.
            unsigned sign_bits = __float_as_int(sum[0]) & __float_as_int(sum[1]) & 0x80000000;
            mbarrier_wait(passed, parity + (sign_bits >> 31));
            wgmma_wait<0>();
        }
        if constexpr (kNext) {
            wgmma_fence_operand(next_scores);
        }
        if constexpr (kBefore) {
            wgmma_fence_operand(output);
            wgmma_fence_operand(weights);
            correct_output();
        }
        pack_weights(scores);
    }

    // The last tile's part of the output.
    __device__ __forceinline__ void last_output(const Operands &from) {
        wgmma_fence_operand(output);
        wgmma_fence_operand(weights);
        wgmma_fence();
#pragma unroll
        for (int piece = 0; piece < kPieces; piece++) {
            multiply_pv(from, piece);
        }
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_fence_operand(output);
        wgmma_fence_operand(weights);
    }

    __device__ __forceinline__ void correct_output() {
        bool needed = correction[0] != 1.0f || correction[1] != 1.0f;
        if (__any_sync(0xFFFFFFFFu, needed)) {
#pragma unroll
            for (int i = 0; i < kHeadDim / 2; i++) {
                output[i] *= correction[i / 2 % 2];
            }
        }
    }

    __device__ __forceinline__ void add_to_sums(const Scores &exponentials) {
#pragma unroll
        for (int row = 0; row < 2; row++) {
            float part[2] = {0.0f, 0.0f}; // two chains: one would wait for itself
#pragma unroll
            for (int i = 2 * row; i < kBlockN / 2; i += 4) {
                part[0] += exponentials[i];
                part[1] += exponentials[i + 1];
            }
            sum[row] = sum[row] * correction[row] + (part[0] + part[1]);
        }
    }

    __device__ __forceinline__ void pack_weights(const Scores &exponentials) {
#pragma unroll
        for (int i = 0; i < kBlockN / 4; i++) {
            weights[i / 4][i % 4] = pack<kBf16>(exponentials[2 * i], exponentials[2 * i + 1]);
        }
    }
};

} // namespace ws

#endif
