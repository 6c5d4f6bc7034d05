// O = softmax(scale Q Kᵀ) V on Hopper, head dimension 128: weights relative to 0.
// Layout: q, k, v, o are (B, H, S, D) row-major, f16 or bf16. With a causal mask query i sees the keys 0..i.
// Serves every S, for scale > 0.
//
// 90_split with two warpgroups, which is as many as the registers allow.
#include "split_attention.cuh"

static_assert(kHeadDim == 128, "90_split serves head dimension 64");
