// O = softmax(scale Q Kᵀ) V on Hopper, head dimension 64: a tile of keys takes as few instructions as possible.
// Layout: q, k, v, o are (B, H, S, D) row-major, f16 or bf16. With a causal mask query i sees the keys 0..i.
// Serves every S, for scale > 0.
//
// Changed since 70_pingpong: the profile says that issue slots, register file and special function unit limit, not the
// tensor cores. So no maximum is taken after a row's first tile: its reference stays, and a block repeats its tiles
// with references that follow where a sum shows that this was not good enough. Exponentials, sums and packing are one
// piece of straight code. Four warpgroups of small tiles take turns, so that some compute weights while one
// multiplies; each skips the keys that none of its queries may see. Blocks stay, with the next queries loaded ahead;
// under a causal mask they take a long tile and a short one at a time (PAIRS).
#include "fixed_reference.cuh"

static_assert(kHeadDim == 64, "85_fixed_reference_wide serves head dimension 128");
