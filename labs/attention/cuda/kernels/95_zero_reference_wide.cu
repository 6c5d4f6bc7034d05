// O = softmax(scale Q Kᵀ) V on Hopper, head dimension 128: weights relative to 0.
// Layout: q, k, v, o are (B, H, S, D) row-major, f16 or bf16. With a causal mask query i sees the keys 0..i.
// Serves every S, for scale > 0.
//
// 90_zero_reference with two warpgroups, which is as many as the registers allow.
#include "zero_reference.cuh"

static_assert(kHeadDim == 128, "90_zero_reference serves head dimension 64");
