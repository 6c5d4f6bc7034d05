// O = softmax(scale Q Kᵀ) V with the exponentials under the first output tile.
// Layout: q, k, v, o are B,H,S,D row-major. With a causal mask query i sees the keys 0..i. Serves every S.
//
// Changed since 40_fused_softmax: there a score tile ends in a burst of exponentials during which the FMA units
// are half idle, and has no register left to do anything else meanwhile. Now score tiles store their scores,
// and the first output tile of a tile of keys, kFirstTile head dimensions wide and so with registers to spare,
// turns them into weights on the way: exponentials and products fill each other's gaps. And since the largest
// score is known before a weight is made, moving the reference only shifts the stored scores.
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
    kFirstTile = FIRST_TILE,
    kMaxTile = 8,
    kSlack = 64, // weights stay below 2^64, so a sum of 2^20 of them times values below 2^43 is still finite
};
_Static_assert(D * 4 % VEC_BYTES == 0, "a head is a whole number of vectors");
_Static_assert(kKeyTile >= 1 && kKeyTile <= kMaxTile, "score tiles of 1 to 8 keys are written out below");
_Static_assert(kDimTile >= 1 && kDimTile <= kMaxTile, "output tiles of 1 to 8 dimensions are written out below");

// One group's running state.
typedef struct {
    vec q[kHeadDim][kQueryVectors]; // scaled by log2(e) * scale
    vec o[kHeadDim][kQueryVectors]; // not yet divided by sum
    vec start[kQueryVectors];       // less the reference: what a score starts from
    vec sum[kQueryVectors];         // of the weights
} Group;

typedef vec Scores[kBlockN][kQueryVectors]; // of one group: first the scores, then the weights

// --- Tiles -----------------------------------------------------------------------------------------------

// scores[0 .. n_keys) = Kᵀ q - reference, and their largest; a key after a query is masked out.
// `lag` is the first key's position less the group's first query's.
WS_INLINE void score_tile(const int n_keys, const int masked, const Group *group, const float *k,
                          vec (*scores)[kQueryVectors], int lag, vec largest[kQueryVectors]) {
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
            largest[i] = vec_max(largest[i], acc[key][i]);
            scores[key][i] = acc[key][i];
        }
    }
}

// o[dim0 .. dim0 + n_dims) += Vᵀ weights. The first tile makes the weights from the scores.
WS_INLINE void output_tile(const int n_dims, const int first, Group *group, const float *v, Scores scores, int dim0,
                           int n_keys) {
    vec acc[kMaxTile][kQueryVectors];
    WS_UNROLL for (int dim = 0; dim < n_dims; dim++) {
        WS_UNROLL for (int i = 0; i < kQueryVectors; i++) {
            acc[dim][i] = group->o[dim0 + dim][i];
        }
    }
    WS_UNROLL_BY(UNROLL) for (int key = 0; key < n_keys; key++) {
        if (first) {
            WS_UNROLL for (int i = 0; i < kQueryVectors; i++) {
                scores[key][i] = vec_exp2(scores[key][i]);
                group->sum[i] += scores[key][i];
            }
        }
        WS_UNROLL for (int dim = 0; dim < n_dims; dim++) {
            WS_UNROLL for (int i = 0; i < kQueryVectors; i++) {
                acc[dim][i] += scores[key][i] * v[key * kHeadDim + dim0 + dim];
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
WS_INLINE void score_tiles(const int masked, const Group *group, const float *k, vec (*scores)[kQueryVectors],
                           int width, int n_tiles, int lag, vec largest[kQueryVectors]) {
    switch (width) {
#define SCORE_CASE(n)                                                                                     \
    case n:                                                                                               \
        for (int tile = 0; tile < n_tiles; tile++) {                                                      \
            score_tile(n, masked, group, k + tile * n * kHeadDim, scores + tile * n, lag + tile * n, largest);      \
        }                                                                                                 \
        break;
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
}

// Keys are dealt out to the tiles evenly: 64 keys in tiles of at most 6 are nine tiles of 6 and two of 5,
// never a remainder of 4 that leaves the FMA units waiting.
WS_INLINE void score_keys(const int masked, const Group *group, const float *k, Scores scores, int n_keys, int lag,
                          vec largest[kQueryVectors]) {
    int n_tiles = (n_keys + kKeyTile - 1) / kKeyTile;
    int narrow = n_keys / n_tiles;
    int n_wide = n_keys - n_tiles * narrow;
    int wide_keys = n_wide * (narrow + 1);
    score_tiles(masked, group, k, scores, narrow + 1, n_wide, lag, largest);
    score_tiles(masked, group, k + wide_keys * kHeadDim, scores + wide_keys, narrow, n_tiles - n_wide,
                lag + wide_keys, largest);
}

static int exceeds_slack(const vec largest[kQueryVectors]) {
    int any = 0;
    for (int i = 0; i < kQueryVectors; i++) {
        any |= vec_any_greater(largest[i], vec_splat(kSlack));
    }
    return any;
}

// Moves the reference to the largest score of the first tile of keys, later only upwards.
WS_NOINLINE void move_reference(Group *group, Scores scores, int n_keys, int first, const vec largest[kQueryVectors]) {
    for (int i = 0; i < kQueryVectors; i++) {
        vec shift = first ? largest[i] : vec_max(largest[i], vec_splat(0));
        group->start[i] -= shift;
        for (int key = 0; key < n_keys; key++) {
            scores[key][i] -= shift;
        }
        if (!first) {
            vec correction = vec_exp2(-shift);
            group->sum[i] *= correction;
            for (int dim = 0; dim < kHeadDim; dim++) {
                group->o[dim][i] *= correction;
            }
        }
    }
}

static void attend(Group *group, const float *k, const float *v, int n_keys, int lag, int first) {
    Scores scores;

    // Scores.
    vec largest[kQueryVectors];
    for (int i = 0; i < kQueryVectors; i++) {
        largest[i] = vec_splat(-INFINITY);
    }
    if (kCausal && lag + n_keys > 1) {
        score_keys(kCausal, group, k, scores, n_keys, lag, largest);
    } else {
        score_keys(0, group, k, scores, n_keys, lag, largest);
    }
    if (first || exceeds_slack(largest)) {
        move_reference(group, scores, n_keys, first, largest);
    }

    // Softmax and output.
    enum {
        kRest = kHeadDim - kFirstTile,
        kTiles = (kRest + kDimTile - 1) / kDimTile,
        kNarrow = kRest / kTiles,
        kWideTiles = kRest - kTiles * kNarrow,
    };
    output_tile(kFirstTile, 1, group, v, scores, 0, n_keys);
    int dim0 = kFirstTile;
    for (int tile = 0; tile < kWideTiles; tile++, dim0 += kNarrow + 1) {
        output_tile(kNarrow + 1, 0, group, v, scores, dim0, n_keys);
    }
    for (int tile = kWideTiles; tile < kTiles; tile++, dim0 += kNarrow) {
        output_tile(kNarrow, 0, group, v, scores, dim0, n_keys);
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
