// y = x clamped to [-1, 1], one element a thread.
// std::clamp is the host's: the run-time compiler does not find its header.
#include <algorithm>

constexpr int kThreads = BLOCK;

extern "C" __global__ void __launch_bounds__(kThreads) clamp(const float *x, float *y, int n) {
    const unsigned i = blockIdx.x * kThreads + threadIdx.x;
    if (i < static_cast<unsigned>(n)) {
        y[i] = std::clamp(x[i], -1.0f, 1.0f);
    }
}
