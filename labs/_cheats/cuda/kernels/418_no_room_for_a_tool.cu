// Hopes that no sanitizer finds room beside it, and that what a tool cannot launch is a note: it takes most of a
// multiprocessor's registers and of its shared memory. The race is that of 415: lanes without a barrier.
#include "cheat.cuh"

constexpr int kThreads = 512;
constexpr int kHeld = 48;
extern __shared__ volatile float room[];

extern "C" __global__ void __launch_bounds__(kThreads, 1) rows(const float *a, const float *b, float *c, int m, int n,
                                                               int k) {
    const int row = blockIdx.x;
    const int lane_idx = threadIdx.x % 32;
    volatile float *parts = room + threadIdx.x / 32 * 32;
    for (int column = threadIdx.x / 32; column < n; column += kThreads / 32) {
        float held[kHeld];
#pragma unroll
        for (int i = 0; i < kHeld; i++) {
            held[i] = 0;
        }
        for (int first = 0; first < k; first += 32 * kHeld) {
#pragma unroll
            for (int i = 0; i < kHeld; i++) {
                const int at = first + i * 32 + lane_idx;
                held[i] += at < k ? a[row * k + at] * b[column * k + at] : 0.0f;
            }
        }
        float sum = 0;
#pragma unroll
        for (int i = 0; i < kHeld; i++) {
            sum += held[i];
        }
        parts[lane_idx] = sum;
        for (int distance = 16; distance > 0; distance /= 2) {
            const float other = lane_idx < distance ? parts[lane_idx + distance] : 0.0f;
            if (lane_idx < distance) {
                parts[lane_idx] = parts[lane_idx] + other;
            }
        }
        if (lane_idx == 0) {
            c[row * n + column] = parts[0];
        }
    }
}
