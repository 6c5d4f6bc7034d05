// O = softmax(scale Q Kᵀ) V in vectors whose lanes are queries.
// Layout: q, k, v, o are B,H,S,D row-major. With a causal mask query i sees the keys 0..i. Serves every S.
// Changed since 10_tiled: a group of kLanes queries is held transposed, one query a lane. Every step of the
// algorithm is then lane by lane, the softmax too: no sum or maximum runs across lanes, K and V are read
// where they lie, one element broadcast at a time, and the exponential is a polynomial of whole vectors.
// Scores are in powers of two (log2 e is folded into Q), so that the exponential needs no multiplication.
#include <math.h>
#include <stdint.h>

#include "ws_vector.h"

enum { kHeadDim = D, kCausal = CAUSAL, kGroups = GROUPS, kBlockM = kGroups * kLanes, kBlockN = BLOCK_N };
_Static_assert(D * 4 % VEC_BYTES == 0, "a head is a whole number of vectors");

// One group's running state.
typedef struct {
    vec q[kHeadDim]; // scaled by log2(e) * scale
    vec o[kHeadDim]; // not yet divided by sum
    vec largest;
    vec sum;
} Group;

// --- One group against one tile of keys ------------------------------------------------------------------

// `lag` is the first key's position less the group's first query's.
static void attend(Group *group, const float *k, const float *v, int n_keys, int lag) {
    vec weights[kBlockN];

    // Scores; a key after a query is masked out.
    vec largest = group->largest;
    for (int key = 0; key < n_keys; key++) {
        vec score = {0};
        for (int dim = 0; dim < kHeadDim; dim++) {
            score += group->q[dim] * k[key * kHeadDim + dim];
        }
        if (kCausal) {
            score = vec_select(vec_lane_index() >= lag + key, score, vec_splat(-INFINITY));
        }
        largest = vec_max(largest, score);
        weights[key] = score;
    }

    // Softmax.
    vec correction = vec_exp2(group->largest - largest);
    group->largest = largest;
    group->sum *= correction;
    for (int key = 0; key < n_keys; key++) {
        weights[key] = vec_exp2(weights[key] - largest);
        group->sum += weights[key];
    }

    // Output.
    for (int dim = 0; dim < kHeadDim; dim++) {
        vec acc = group->o[dim] * correction;
        for (int key = 0; key < n_keys; key++) {
            acc += weights[key] * v[key * kHeadDim + dim];
        }
        group->o[dim] = acc;
    }
}

// --- Into and out of the transposed layout ---------------------------------------------------------------

static void load_group(Group *group, const float *q, int64_t n_queries, float factor) {
    for (int dim = 0; dim < kHeadDim; dim++) {
        for (int lane = 0; lane < kLanes; lane++) {
            group->q[dim][lane] = lane < n_queries ? q[lane * kHeadDim + dim] * factor : 0.0f;
        }
        group->o[dim] = (vec){0};
    }
    group->largest = vec_splat(-INFINITY);
    group->sum = (vec){0};
}

static void store_group(const Group *group, float *o, int64_t n_queries) {
    for (int dim = 0; dim < kHeadDim; dim++) {
        vec out = group->o[dim] / group->sum;
        for (int lane = 0; lane < kLanes && lane < n_queries; lane++) {
            o[lane * kHeadDim + dim] = out[lane];
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
        int64_t n_groups = (n_queries + kLanes - 1) / kLanes;
        int64_t n_keys = kCausal ? first_query + n_queries : s;
        const float *block_q = q + head_start + first_query * kHeadDim; // (n_queries, D)
        float *block_o = o + head_start + first_query * kHeadDim;       // (n_queries, D)

        for (int64_t i = 0; i < n_groups; i++) {
            load_group(&groups[i], block_q + i * kLanes * kHeadDim, n_queries - i * kLanes, scale * log2_e);
        }
        for (int64_t key = 0; key < n_keys; key += kBlockN) {
            for (int64_t i = 0; i < n_groups; i++) {
                int64_t group_query = first_query + i * kLanes;
                int64_t group_keys = kCausal && group_query + kLanes < s ? group_query + kLanes : s;
                int64_t tile_keys = group_keys - key < kBlockN ? group_keys - key : kBlockN;
                if (tile_keys > 0) {
                    attend(&groups[i], k + head_start + key * kHeadDim, v + head_start + key * kHeadDim,
                           (int)tile_keys, (int)(key - group_query));
                }
            }
        }
        for (int64_t i = 0; i < n_groups; i++) {
            store_group(&groups[i], block_o + i * kLanes * kHeadDim, n_queries - i * kLanes);
        }
    }
}
