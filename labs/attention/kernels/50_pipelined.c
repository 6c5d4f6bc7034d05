// O = softmax(scale Q Kᵀ) V with the exponentials of one score tile under the products of the next.
// Layout: q, k, v, o are B,H,S,D row-major. With a causal mask query i sees the keys 0..i. Serves every S.
//
// Changed since 40_fused_softmax: a score tile no longer ends in a burst of exponentials, for which the
// FMA units wait. Its scores are stored, and the next tile stops after every kHeadDim / kKeyTile steps to
// turn one stored row into weights; the additions and shifts of that run beside the products, on other
// units. And the reference comes from the first kKeyTile keys alone, so that the way around through
// `rebase` is taken for one score tile instead of a whole tile of keys.
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
_Static_assert(kHeadDim % kLanes == 0, "a head is a whole number of vectors");
_Static_assert(kKeyTile >= 1 && kKeyTile <= kMaxTile, "score tiles of 1 to 8 keys are written out below");
_Static_assert(kDimTile >= 1 && kDimTile <= kMaxTile, "output tiles of 1 to 8 dimensions are written out below");

// One group's running state.
typedef struct {
    vec q[kHeadDim][kQueryVectors]; // scaled by log2(e) * scale
    vec o[kHeadDim][kQueryVectors]; // not yet divided by sum
    vec start[kQueryVectors];       // less the reference: what a score starts from
    vec sum[kQueryVectors];         // of the weights
} Group;

typedef vec Weights[kBlockN][kQueryVectors]; // of one group

// What the weights made so far amount to, lane by lane.
typedef struct {
    vec largest[kQueryVectors]; // score, relative to the reference
    vec sum[kQueryVectors];     // of the weights
} Found;

// --- Tiles -----------------------------------------------------------------------------------------------

// acc += Kᵀ q over n_dims dimensions.
WS_INLINE void multiply(const int n_keys, const int n_dims, const vec (*q)[kQueryVectors], const float *k,
                        vec acc[kMaxTile][kQueryVectors]) {
    WS_UNROLL_BY(UNROLL) for (int dim = 0; dim < n_dims; dim++) {
        WS_UNROLL for (int key = 0; key < n_keys; key++) {
            WS_UNROLL for (int i = 0; i < kQueryVectors; i++) {
                acc[key][i] += q[dim][i] * k[key * kHeadDim + dim];
            }
        }
    }
}

// Turns the i-th vector of a row of scores into weights.
WS_INLINE void make_weights(vec row[kQueryVectors], const int i, Found *found) {
    vec score = row[i];
    found->largest[i] = vec_max(found->largest[i], score);
    vec weight = vec_exp2(score);
    found->sum[i] += weight;
    row[i] = weight;
}

// scores[0 .. n_keys) = Kᵀ q - reference, where a key after a query is masked out.
// `lag` is the first key's position less the group's first query's. Meanwhile n_keys rows of earlier scores
// become weights, if there are any.
WS_INLINE void score_tile(const int n_keys, const int masked, const Group *group, const float *k,
                          vec (*scores)[kQueryVectors], int lag, vec (*earlier)[kQueryVectors], Found *found) {
    enum { kStretch = kHeadDim / (kKeyTile * kQueryVectors) };
    vec acc[kMaxTile][kQueryVectors];
    WS_UNROLL for (int key = 0; key < n_keys; key++) {
        WS_UNROLL for (int i = 0; i < kQueryVectors; i++) {
            acc[key][i] = group->start[i];
        }
    }
    const vec (*q)[kQueryVectors] = group->q;
    if (earlier) {
        for (int row = 0; row < n_keys; row++) {
            WS_UNROLL for (int i = 0; i < kQueryVectors; i++) {
                multiply(n_keys, kStretch, q, k, acc);
                make_weights(earlier[row], i, found);
                q += kStretch;
                k += kStretch;
            }
        }
        multiply(n_keys, kHeadDim - n_keys * kQueryVectors * kStretch, q, k, acc);
    } else {
        multiply(n_keys, kHeadDim, q, k, acc);
    }
    WS_UNROLL for (int key = 0; key < n_keys; key++) {
        WS_UNROLL for (int i = 0; i < kQueryVectors; i++) {
            if (masked) {
                vec_int visible = vec_lane_index() + i * kLanes >= lag + key;
                acc[key][i] = vec_select(visible, acc[key][i], vec_splat(-INFINITY));
            }
            scores[key][i] = acc[key][i];
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

// Runs n_tiles score tiles of n_keys keys each; `n_made` rows of weights are made already.
// Returns how many are afterwards.
WS_INLINE int score_tiles(const int n_keys, const int masked, const Group *group, const float *k, Weights weights,
                          int lag, int begin, int n_tiles, int n_made, Found *found) {
    for (int tile = 0; tile < n_tiles; tile++) {
        int key = begin + tile * n_keys;
        int overlap = n_made + n_keys <= key;
        score_tile(n_keys, masked, group, k + key * kHeadDim, weights + key, lag + key,
                   overlap ? weights + n_made : 0, found);
        n_made += overlap ? n_keys : 0;
    }
    return n_made;
}

WS_INLINE int score_tiles_of(int width, const int masked, const Group *group, const float *k, Weights weights,
                             int lag, int begin, int n_tiles, int n_made, Found *found) {
    switch (width) {
#define SCORE_CASE(n) \
    case n: return score_tiles(n, masked, group, k, weights, lag, begin, n_tiles, n_made, found);
        SCORE_CASE(1)
#if KEY_TILE >= 2
        SCORE_CASE(2)
#endif
#if KEY_TILE >= 3
        SCORE_CASE(3)
#endif
#if KEY_TILE >= 4
        SCORE_CASE(4)
#endif
#if KEY_TILE >= 5
        SCORE_CASE(5)
#endif
#if KEY_TILE >= 6
        SCORE_CASE(6)
#endif
#if KEY_TILE >= 7
        SCORE_CASE(7)
#endif
#if KEY_TILE >= 8
        SCORE_CASE(8)
#endif
    }
    return n_made;
}

// Scores the keys begin .. end, dealt out to the tiles evenly: 64 keys in tiles of at most 6 are nine tiles
// of 6 and two of 5, never a remainder of 4 that leaves the FMA units waiting. Returns how many rows of
// weights are made.
WS_INLINE int score_keys(const int masked, const Group *group, const float *k, Weights weights, int lag,
                         int begin, int end, Found *found) {
    int n_tiles = (end - begin + kKeyTile - 1) / kKeyTile;
    if (n_tiles == 0) {
        return 0;
    }
    int narrow = (end - begin) / n_tiles;
    int n_wide = end - begin - n_tiles * narrow;
    int n_made = score_tiles_of(narrow + 1, masked, group, k, weights, lag, begin, n_wide, 0, found);
    return score_tiles_of(narrow, masked, group, k, weights, lag, begin + n_wide * (narrow + 1), n_tiles - n_wide,
                          n_made, found);
}

// Puts the reference at the largest of the first n_keys scores, which are relative to zero so far.
static void settle(Group *group, Weights scores, int n_keys) {
    for (int i = 0; i < kQueryVectors; i++) {
        vec largest = scores[0][i];
        for (int key = 1; key < n_keys; key++) {
            largest = vec_max(largest, scores[key][i]);
        }
        group->start[i] = -largest;
        for (int key = 0; key < n_keys; key++) {
            scores[key][i] -= largest;
        }
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
static void __attribute__((noinline)) rebase(Group *group, const Found *found) {
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
    Found found;

    // Scores and softmax.
    int n_scored = 0;
    if (first) {
        n_scored = n_keys < kKeyTile ? n_keys : kKeyTile;
        score_tiles_of(n_scored, kCausal, group, k, weights, lag, 0, 1, 0, &found);
        settle(group, weights, n_scored);
    }
    for (;;) {
        for (int i = 0; i < kQueryVectors; i++) {
            found.largest[i] = vec_splat(-INFINITY);
            found.sum[i] = (vec){0};
        }
        int n_made = kCausal && lag + n_keys > 1
                         ? score_keys(kCausal, group, k, weights, lag, n_scored, n_keys, &found)
                         : score_keys(0, group, k, weights, lag, n_scored, n_keys, &found);
        for (; n_made < n_keys; n_made++) {
            WS_UNROLL for (int i = 0; i < kQueryVectors; i++) {
                make_weights(weights[n_made], i, &found);
            }
        }
        if (!exceeds_slack(&found)) {
            break;
        }
        rebase(group, &found);
        n_scored = 0;
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
