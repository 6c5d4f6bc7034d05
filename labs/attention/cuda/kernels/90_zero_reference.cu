// O = softmax(scale Q Kᵀ) V on Hopper, head dimension 64: weights relative to 0.
// Layout: q, k, v, o are (B, H, S, D) row-major, f16 or bf16. With a causal mask query i sees the keys 0..i.
// Serves every S, for scale > 0.
//
// Changed since 80_fixed_reference: weights are relative to 0, so there is no maximum at all, and a row's parts are merged by
// adding them. Where there are many tiles, four warpgroups have one each, as before. A multiprocessor that has only two
// tiles of 64 queries splits their keys, so that four warpgroups work on them at the same time; under a causal mask all
// four work on the long tile, and then on the short one. Every part has a ring of its own, filled by a warp of its own,
// and the first loads do not wait for the block. Up to two warpgroups have their queries in registers; where nothing is
// split and a block is alone, output leaves in whole rows.
#include "zero_reference.cuh"

static_assert(kHeadDim == 64, "95_zero_reference_wide serves head dimension 128");
