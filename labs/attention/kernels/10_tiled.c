// O = softmax(scale Q Kᵀ) V over tiles of queries and keys, with an online softmax.
// Layout: q, k, v, o are B,H,S,D row-major. With a causal mask query i sees the keys 0..i. Serves every S.
// Changed since 00_naive: a block is kBlockM queries, which meet the keys in tiles of kBlockN. A tile of K and
// V is read from memory once for all queries of the block, and a row of scores is never stored whole: each
// tile raises the row's maximum and corrects what was summed relative to the old one. Single precision.
#include <math.h>
#include <stdint.h>

enum { kHeadDim = D, kCausal = CAUSAL, kBlockM = BLOCK_M, kBlockN = BLOCK_N };

// One query's running state.
typedef struct {
    float o[kHeadDim]; // not yet divided by sum
    float largest;
    float sum;
} Query;

static float dot(const float *a, const float *b) {
    float sum = 0;
    for (int i = 0; i < kHeadDim; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static void attend(Query *query, const float *q, const float *k, const float *v, int64_t n_keys, float scale) {
    float weights[kBlockN];

    // Scores.
    float largest = query->largest;
    for (int64_t key = 0; key < n_keys; key++) {
        weights[key] = scale * dot(q, k + key * kHeadDim);
        largest = weights[key] > largest ? weights[key] : largest;
    }

    // Softmax.
    float correction = expf(query->largest - largest);
    query->largest = largest;
    query->sum *= correction;
    for (int64_t key = 0; key < n_keys; key++) {
        weights[key] = expf(weights[key] - largest);
        query->sum += weights[key];
    }

    // Output.
    for (int i = 0; i < kHeadDim; i++) {
        query->o[i] *= correction;
    }
    for (int64_t key = 0; key < n_keys; key++) {
        for (int i = 0; i < kHeadDim; i++) {
            query->o[i] += weights[key] * v[key * kHeadDim + i];
        }
    }
}

void attention_fwd(const float *q, const float *k, const float *v, float *o,
                   int64_t b, int64_t h, int64_t s, int64_t d_runtime, int64_t causal_runtime, float scale,
                   int64_t block_begin, int64_t block_end) {
    (void)b;
    (void)h;
    (void)d_runtime;
    (void)causal_runtime;
    int64_t blocks_per_head = (s + kBlockM - 1) / kBlockM;
    Query queries[kBlockM];

    for (int64_t block = block_begin; block < block_end; block++) {
        // A head's last queries come first: under a causal mask they are the longest.
        int64_t head_start = block / blocks_per_head * s * kHeadDim;
        int64_t first_query = (blocks_per_head - 1 - block % blocks_per_head) * kBlockM;
        int64_t n_queries = s - first_query < kBlockM ? s - first_query : kBlockM;
        int64_t n_keys = kCausal ? first_query + n_queries : s;
        const float *block_q = q + head_start + first_query * kHeadDim; // (n_queries, D)
        float *block_o = o + head_start + first_query * kHeadDim;       // (n_queries, D)

        for (int64_t i = 0; i < n_queries; i++) {
            queries[i] = (Query){.largest = -INFINITY};
        }
        for (int64_t key = 0; key < n_keys; key += kBlockN) {
            for (int64_t i = 0; i < n_queries; i++) {
                int64_t visible = (kCausal ? first_query + i + 1 : s) - key;
                if (visible > 0) {
                    attend(&queries[i], block_q + i * kHeadDim, k + head_start + key * kHeadDim,
                           v + head_start + key * kHeadDim, visible < kBlockN ? visible : kBlockN, scale);
                }
            }
        }
        for (int64_t i = 0; i < n_queries; i++) {
            for (int dim = 0; dim < kHeadDim; dim++) {
                block_o[i * kHeadDim + dim] = queries[i].o[dim] / queries[i].sum;
            }
        }
    }
}
