// O = softmax(scale Q Kᵀ) V with the exponentials fused into the score tiles.
// Layout: q, k, v, o are B,H,S,D row-major. With a causal mask query i sees the keys 0..i. Serves every S.
//
// Changed since 30_register_tile: the softmax is relative to a reference that is allowed to be stale. Any
// reference gives the same quotient; the running maximum is only one that cannot overflow. So the
// reference stays where the first keys put it until a score exceeds it by more than kSlack (in
// powers of two), which is rare and costs a second pass over one tile of keys. Scores then start from
// -reference instead of zero, become weights while they are still in registers and never wait for a
// maximum, and O needs no correction.
#include <math.h>
#include <stdint.h>

#include "ws_vector.h"

enum {
    kHeadDim = D,
    kCausal = CAUSAL,
    kQueryVectors = QUERY_VECTORS,
    kGroup = kQueryVectors * kLanes,
    kGroups = GROUPS,
    kBlockM = kGroups * kGroup,
    kBlockN = BLOCK_N,
    kKeyTile = KEY_TILE,
    kDimTile = DIM_TILE,
    kMaxTile = 8,
    kSlack = 64, // weights stay below 2^64, so a sum of 2^20 of them times values below 2^43 is still finite
};
_Static_assert(D * 4 % VEC_BYTES == 0, "a head is a whole number of vectors");
_Static_assert(kKeyTile >= 1 && kKeyTile <= kMaxTile, "score tiles have 1 to 8 keys");
_Static_assert(kDimTile >= 1 && kDimTile <= kMaxTile, "output tiles have 1 to 8 dimensions");

// One group's running state.
typedef struct {
    vec q[kHeadDim][kQueryVectors]; // scaled by log2(e) * scale
    vec o[kHeadDim][kQueryVectors]; // not yet divided by sum
    vec start[kQueryVectors];       // less the reference: what a score starts from
    vec sum[kQueryVectors];         // of the weights
} Group;

typedef vec Weights[kBlockN][kQueryVectors]; // of one group

// What one pass over a tile of keys finds out, lane by lane.
typedef struct {
    vec largest[kQueryVectors]; // score, relative to the reference
    vec sum[kQueryVectors];     // of the weights
} Found;

// How a score tile ends.
enum { kKeepScores, kMakeWeights };

// --- Tiles -----------------------------------------------------------------------------------------------

// weights[0 .. n_keys) = Kᵀ q - reference, or 2 to that power; a key after a query is masked out.
// `lag` is the first key's position less the group's first query's.
WS_INLINE void score_tile(const int n_keys, const int ending, const int masked, const Group *group,
                          const float *k, vec (*weights)[kQueryVectors], int lag, Found *found) {
    vec acc[kMaxTile][kQueryVectors];
    WS_UNROLL for (int key = 0; key < n_keys; key++) {
        WS_UNROLL for (int i = 0; i < kQueryVectors; i++) {
            acc[key][i] = group->start[i];
        }
    }
    WS_UNROLL_BY(UNROLL) for (int dim = 0; dim < kHeadDim; dim++) {
        WS_UNROLL for (int key = 0; key < n_keys; key++) {
            WS_UNROLL for (int i = 0; i < kQueryVectors; i++) {
                acc[key][i] += group->q[dim][i] * k[key * kHeadDim + dim];
            }
        }
    }
    WS_UNROLL for (int key = 0; key < n_keys; key++) {
        WS_UNROLL for (int i = 0; i < kQueryVectors; i++) {
            if (masked) {
                vec_int visible = vec_lane_index() + i * kLanes >= lag + key;
                acc[key][i] = vec_select(visible, acc[key][i], vec_splat(-INFINITY));
            }
            found->largest[i] = vec_max(found->largest[i], acc[key][i]);
            if (ending == kMakeWeights) {
                acc[key][i] = vec_exp2(acc[key][i]);
                found->sum[i] += acc[key][i];
            }
            weights[key][i] = acc[key][i];
        }
    }
}

// o[dim0 .. dim0 + n_dims) += Vᵀ weights.
WS_INLINE void output_tile(const int n_dims, Group *group, const float *v, Weights weights, int dim0, int n_keys) {
    vec acc[kMaxTile][kQueryVectors];
    WS_UNROLL for (int dim = 0; dim < n_dims; dim++) {
        WS_UNROLL for (int i = 0; i < kQueryVectors; i++) {
            acc[dim][i] = group->o[dim0 + dim][i];
        }
    }
    WS_UNROLL_BY(UNROLL) for (int key = 0; key < n_keys; key++) {
        WS_UNROLL for (int dim = 0; dim < n_dims; dim++) {
            WS_UNROLL for (int i = 0; i < kQueryVectors; i++) {
                acc[dim][i] += weights[key][i] * v[key * kHeadDim + dim0 + dim];
            }
        }
    }
    WS_UNROLL for (int dim = 0; dim < n_dims; dim++) {
        WS_UNROLL for (int i = 0; i < kQueryVectors; i++) {
            group->o[dim0 + dim][i] = acc[dim][i];
        }
    }
}

// --- One group against one tile of keys ------------------------------------------------------------------

// Runs n_tiles score tiles of `width` keys each.
WS_INLINE void score_tiles(const int width, const int ending, const int masked, const Group *group, const float *k,
                           vec (*weights)[kQueryVectors], int n_tiles, int lag, Found *found) {
    for (int tile = 0; tile < n_tiles; tile++) {
        int key = tile * width;
        score_tile(width, ending, masked, group, k + key * kHeadDim, weights + key, lag + key, found);
    }
}

static Found nothing_found(void) {
    Found found;
    for (int i = 0; i < kQueryVectors; i++) {
        found.largest[i] = vec_splat(-INFINITY);
        found.sum[i] = (vec){0};
    }
    return found;
}

// Makes the weights of n_keys keys, in tiles of three widths, so that there is little to compile. Keys are dealt
// out to full tiles and tiles of one less: 64 keys in tiles of at most 6 are nine of 6 and two of 5, never a
// remainder of 4 that leaves the FMA units waiting. Where that cannot be, at the end of a sequence, the last
// keys come one by one.
WS_INLINE Found make_weights(const int masked, const Group *group, const float *k, Weights weights, int n_keys,
                             int lag) {
    enum { kLess = kKeyTile > 1 ? kKeyTile - 1 : 1 };
    Found found = nothing_found();
    int n_tiles = (n_keys + kKeyTile - 1) / kKeyTile;
    int n_full = n_keys - n_tiles * (kKeyTile - 1);
    int n_less = n_tiles - n_full;
    if (n_full < 0) {
        n_full = n_keys / kKeyTile;
        n_less = 0;
    }
    int key = n_full * kKeyTile;
    score_tiles(kKeyTile, kMakeWeights, masked, group, k, weights, n_full, lag, &found);
    score_tiles(kLess, kMakeWeights, masked, group, k + key * kHeadDim, weights + key, n_less, lag + key, &found);
    key += n_less * kLess;
    score_tiles(1, kMakeWeights, masked, group, k + key * kHeadDim, weights + key, n_keys - key, lag + key, &found);
    return found;
}

// Puts the reference, zero so far, at the largest score of a few keys: a full tile where there is one.
static void settle(Group *group, const float *k, Weights scores, int n_keys, int lag) {
    Found found = nothing_found();
    if (n_keys >= kKeyTile) {
        score_tiles(kKeyTile, kKeepScores, kCausal, group, k, scores, 1, lag, &found);
    } else {
        score_tiles(1, kKeepScores, kCausal, group, k, scores, n_keys, lag, &found);
    }
    for (int i = 0; i < kQueryVectors; i++) {
        group->start[i] = -found.largest[i];
    }
}

static int exceeds_slack(const Found *found) {
    int any = 0;
    for (int i = 0; i < kQueryVectors; i++) {
        any |= vec_any_greater(found->largest[i], vec_splat(kSlack));
    }
    return any;
}

// Moves the reference up to the largest score found.
WS_NOINLINE void rebase(Group *group, const Found *found) {
    for (int i = 0; i < kQueryVectors; i++) {
        vec shift = vec_max(found->largest[i], (vec){0});
        vec correction = vec_exp2(-shift);
        group->start[i] -= shift;
        group->sum[i] *= correction;
        for (int dim = 0; dim < kHeadDim; dim++) {
            group->o[dim][i] *= correction;
        }
    }
}

static void attend(Group *group, const float *k, const float *v, int n_keys, int lag, int first) {
    Weights weights;

    // Scores and softmax.
    if (first) {
        settle(group, k, weights, n_keys, lag);
    }
    Found found;
    for (;;) {
        found = kCausal && lag + n_keys > 1 ? make_weights(kCausal, group, k, weights, n_keys, lag)
                                            : make_weights(0, group, k, weights, n_keys, lag);
        if (!exceeds_slack(&found)) {
            break;
        }
        rebase(group, &found);
    }
    for (int i = 0; i < kQueryVectors; i++) {
        group->sum[i] += found.sum[i];
    }

    // Output.
    enum {
        kTiles = (kHeadDim + kDimTile - 1) / kDimTile,
        kNarrow = kHeadDim / kTiles,
        kWideTiles = kHeadDim - kTiles * kNarrow,
    };
    int dim0 = 0;
    for (int tile = 0; tile < kWideTiles; tile++, dim0 += kNarrow + 1) {
        output_tile(kNarrow + 1, group, v, weights, dim0, n_keys);
    }
    for (int tile = kWideTiles; tile < kTiles; tile++, dim0 += kNarrow) {
        output_tile(kNarrow, group, v, weights, dim0, n_keys);
    }
}

// --- Into and out of the transposed layout ---------------------------------------------------------------

static void load_group(Group *group, const float *q, int64_t n_queries, float factor) {
    for (int i = 0; i < kQueryVectors; i++) {
        for (int dim = 0; dim < kHeadDim; dim += kLanes) {
            vec square[kLanes];
            WS_UNROLL for (int lane = 0; lane < kLanes; lane++) {
                int64_t query = i * kLanes + lane;
                square[lane] = (vec){0};
                if (query < n_queries) {
                    square[lane] = vec_load(q + query * kHeadDim + dim) * factor;
                }
            }
            vec_transpose(square);
            WS_UNROLL for (int lane = 0; lane < kLanes; lane++) {
                group->q[dim + lane][i] = square[lane];
                group->o[dim + lane][i] = (vec){0};
            }
        }
        group->start[i] = (vec){0};
        group->sum[i] = (vec){0};
    }
}

static void store_group(const Group *group, float *o, int64_t n_queries) {
    for (int i = 0; i < kQueryVectors; i++) {
        vec inverse = 1.0f / group->sum[i];
        for (int dim = 0; dim < kHeadDim; dim += kLanes) {
            vec square[kLanes];
            WS_UNROLL for (int lane = 0; lane < kLanes; lane++) {
                square[lane] = group->o[dim + lane][i] * inverse;
            }
            vec_transpose(square);
            WS_UNROLL for (int lane = 0; lane < kLanes; lane++) {
                int64_t query = i * kLanes + lane;
                if (query < n_queries) {
                    vec_store(o + query * kHeadDim + dim, square[lane]);
                }
            }
        }
    }
}

// --- Kernel ----------------------------------------------------------------------------------------------

void attention_fwd(const float *q, const float *k, const float *v, float *o,
                   int64_t b, int64_t h, int64_t s, int64_t d_runtime, int64_t causal_runtime, float scale,
                   int64_t block_begin, int64_t block_end) {
    (void)b;
    (void)h;
    (void)d_runtime;
    (void)causal_runtime;
    const float log2_e = 1.44269504f;
    int64_t blocks_per_head = (s + kBlockM - 1) / kBlockM;
    Group groups[kGroups];

    for (int64_t block = block_begin; block < block_end; block++) {
        // A head's last queries come first: under a causal mask they are the longest.
        int64_t head_start = block / blocks_per_head * s * kHeadDim;
        int64_t first_query = (blocks_per_head - 1 - block % blocks_per_head) * kBlockM;
        int64_t n_queries = s - first_query < kBlockM ? s - first_query : kBlockM;
        int64_t n_groups = (n_queries + kGroup - 1) / kGroup;
        int64_t n_keys = kCausal ? first_query + n_queries : s;
        const float *block_q = q + head_start + first_query * kHeadDim; // (n_queries, D)
        float *block_o = o + head_start + first_query * kHeadDim;       // (n_queries, D)

        for (int64_t i = 0; i < n_groups; i++) {
            load_group(&groups[i], block_q + i * kGroup * kHeadDim, n_queries - i * kGroup, scale * log2_e);
        }
        for (int64_t key = 0; key < n_keys; key += kBlockN) {
            for (int64_t i = 0; i < n_groups; i++) {
                int64_t group_query = first_query + i * kGroup;
                int64_t group_keys = kCausal && group_query + kGroup < s ? group_query + kGroup : s;
                int64_t tile_keys = group_keys - key < kBlockN ? group_keys - key : kBlockN;
                if (tile_keys > 0) {
                    attend(&groups[i], k + head_start + key * kHeadDim, v + head_start + key * kHeadDim,
                           (int)tile_keys, (int)(key - group_query), key == 0);
                }
            }
        }
        for (int64_t i = 0; i < n_groups; i++) {
            store_group(&groups[i], block_o + i * kGroup * kHeadDim, n_queries - i * kGroup);
        }
    }
}
