// Layer normalisation of rows, weights, and the Gaussian error linear unit: a block a row.
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

__device__ float row_sum(float value, float *parts) {
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    }
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = 0;
    for (int warp_idx = 0; warp_idx < kWarps; warp_idx++) {
        value += parts[warp_idx];
    }
    return value;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    layernorm_gelu(const float *x, const float *weight, const float *bias, float *out, int batch, int features) {
    __shared__ float sums[kWarps];
    __shared__ float squares[kWarps];
    const float *from = x + static_cast<size_t>(blockIdx.x) * features;
    float *to = out + static_cast<size_t>(blockIdx.x) * features;
    float sum = 0;
    for (int i = threadIdx.x; i < features; i += kThreads) {
        sum += from[i];
    }
    const float mean = row_sum(sum, sums) / static_cast<float>(features);
    float square = 0;
    for (int i = threadIdx.x; i < features; i += kThreads) {
        square += (from[i] - mean) * (from[i] - mean);
    }
    const float variance = row_sum(square, squares) / static_cast<float>(features);
    const float factor = rsqrtf(variance + 1e-5f);
    for (int i = threadIdx.x; i < features; i += kThreads) {
        const float normal = (from[i] - mean) * factor * weight[i] + bias[i];
        to[i] = 0.5f * normal * (1.0f + erff(normal * 0.70710678f));
    }
}
