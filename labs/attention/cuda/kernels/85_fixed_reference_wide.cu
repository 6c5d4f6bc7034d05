// O = softmax(scale Q Kᵀ) V on Hopper, head dimension 128: 80_fixed_reference with two warpgroups of larger tiles.
// Layout: q, k, v, o are (B, H, S, D) row-major, f16 or bf16. With a causal mask query i sees the keys 0..i.
// Serves every S, for scale > 0.
//
// Changed since 80_fixed_reference: the output takes twice the registers, and tensor cores have twice the work for each
// exponential, so two warpgroups are enough.
#include "fixed_reference.cuh"

static_assert(kHeadDim == 128, "80_fixed_reference serves head dimension 64");
