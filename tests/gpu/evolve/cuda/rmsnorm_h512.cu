// y = x / sqrt(mean(x²) + eps) · weight: a block a row, joined by shuffles, then over shared memory.
constexpr int kThreads = 256;

extern "C" __global__ void __launch_bounds__(kThreads)
    rmsnorm_h512(const float *x, const float *weight, float *y, int batch, int hidden, float eps) {
    __shared__ float parts[kThreads / 32];
    const float *from = x + static_cast<size_t>(blockIdx.x) * hidden;
    float *to = y + static_cast<size_t>(blockIdx.x) * hidden;
    float sum = 0;
    for (int i = threadIdx.x; i < hidden; i += kThreads) {
        sum += from[i] * from[i];
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    sum = 0;
    for (int warp_idx = 0; warp_idx < kThreads / 32; warp_idx++) {
        sum += parts[warp_idx];
    }
    const float factor = rsqrtf(sum / static_cast<float>(hidden) + eps);
    for (int i = threadIdx.x; i < hidden; i += kThreads) {
        to[i] = from[i] * factor * weight[i];
    }
}
