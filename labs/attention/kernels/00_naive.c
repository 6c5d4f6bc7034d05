// O = softmax(scale Q Kᵀ) V, one query row a block, accumulated in double.
// Layout: q, k, v, o are B,H,S,D row-major. With a causal mask query i sees the keys 0..i.
// Serves every shape. It is the oracle for the rest of the ladder, so it is accurate before it is quick:
// each key is visited once, scores wait in one row of doubles, and the sums over D run in kParts
// independent parts so that the compiler may vectorise them without reordering anything.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { kHeadDim = D, kCausal = CAUSAL, kParts = 16 };
_Static_assert(kHeadDim % kParts == 0, "a head is a whole number of parts");

static double dot(const float *a, const float *b) {
    double parts[kParts] = {0};
    for (int i = 0; i < kHeadDim; i += kParts) {
        for (int part = 0; part < kParts; part++) {
            parts[part] += (double)a[i + part] * (double)b[i + part];
        }
    }
    double sum = 0;
    for (int part = 0; part < kParts; part++) {
        sum += parts[part];
    }
    return sum;
}

void attention_fwd(const float *q, const float *k, const float *v, float *o,
                   int64_t b, int64_t h, int64_t s, int64_t d_runtime, int64_t causal_runtime, float scale,
                   int64_t block_begin, int64_t block_end) {
    (void)b;
    (void)h;
    (void)d_runtime;
    (void)causal_runtime;
    double *scores = malloc((size_t)s * sizeof(double)); // (s)
    for (int64_t row = block_begin; row < block_end; row++) {
        const float *head_k = k + row / s * s * kHeadDim; // (s, D)
        const float *head_v = v + row / s * s * kHeadDim; // (s, D)
        int64_t n_keys = kCausal ? row % s + 1 : s;

        double largest = -INFINITY;
        for (int64_t key = 0; key < n_keys; key++) {
            scores[key] = (double)scale * dot(q + row * kHeadDim, head_k + key * kHeadDim);
            largest = scores[key] > largest ? scores[key] : largest;
        }

        double sum = 0;
        double out[kHeadDim] = {0};
        for (int64_t key = 0; key < n_keys; key++) {
            double weight = exp(scores[key] - largest);
            sum += weight;
            for (int i = 0; i < kHeadDim; i++) {
                out[i] += weight * (double)head_v[key * kHeadDim + i];
            }
        }
        for (int i = 0; i < kHeadDim; i++) {
            o[row * kHeadDim + i] = (float)(out[i] / sum);
        }
    }
    free(scores);
}
