// O = softmax(scale Q Kᵀ) V, one query row a block.
// Layout: q, k, v, o are B,H,S,D row-major, 16-bit elements widened. With a causal mask query i sees the keys 0..i.
#include <math.h>
#include <stdint.h>

void attention_reference(const double *q, const double *k, const double *v, double *o,
                         int64_t b, int64_t h, int64_t s, int64_t d, int64_t causal, int64_t bf16, float scale,
                         int64_t block_begin, int64_t block_end) {
    (void)b;
    (void)h;
    (void)bf16;
    for (int64_t row = block_begin; row < block_end; row++) {
        int64_t head_start = row / s * s;
        int64_t n_keys = causal ? row % s + 1 : s;

        double largest = -INFINITY;
        for (int64_t key = 0; key < n_keys; key++) {
            double score = 0;
            for (int64_t i = 0; i < d; i++) {
                score += q[row * d + i] * k[(head_start + key) * d + i];
            }
            largest = fmax(largest, score * (double)scale);
        }

        double sum = 0;
        for (int64_t i = 0; i < d; i++) {
            o[row * d + i] = 0;
        }
        for (int64_t key = 0; key < n_keys; key++) {
            double score = 0;
            for (int64_t i = 0; i < d; i++) {
                score += q[row * d + i] * k[(head_start + key) * d + i];
            }
            double weight = exp(score * (double)scale - largest);
            sum += weight;
            for (int64_t i = 0; i < d; i++) {
                o[row * d + i] += weight * v[(head_start + key) * d + i];
            }
        }
        for (int64_t i = 0; i < d; i++) {
            o[row * d + i] /= sum;
        }
    }
}
