// y = x / sqrt(mean(x²) + eps) · w, one row a warp.
// Layout: x and y are N,D row-major, w has D elements. Serves every shape.
// Changed since 00_naive: the lanes of a warp read neighbouring elements, so that an access is one piece of memory
// instead of 32; the sum is in single precision, one part a lane, joined by shuffles; one division a row. x is
// read twice, the second time from a cache if the row is still there.

constexpr int kWarps = WARPS;
constexpr int kUnroll = UNROLL;
constexpr int kWarpSize = 32;
static_assert(kWarps >= 1 && kWarps <= 32, "a block has at most 1024 threads");

// Every lane gets the sum of all lanes, added in the same order.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    }
    return value;
}

extern "C" __global__ void __launch_bounds__(kWarps *kWarpSize)
    rmsnorm(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y, int n, int d, float eps) {
    const int lane_idx = threadIdx.x % kWarpSize;
    const int row = blockIdx.x * kWarps + threadIdx.x / kWarpSize;
    if (row >= n) {
        return;
    }
    const float *from = x + static_cast<size_t>(row) * d;
    float *to = y + static_cast<size_t>(row) * d;

    float sum = 0;
#pragma unroll kUnroll
    for (int i = lane_idx; i < d; i += kWarpSize) {
        sum += from[i] * from[i];
    }
    const float factor = 1.0f / sqrtf(warp_sum(sum) / static_cast<float>(d) + eps);
#pragma unroll kUnroll
    for (int i = lane_idx; i < d; i += kWarpSize) {
        to[i] = from[i] * factor * w[i];
    }
}
