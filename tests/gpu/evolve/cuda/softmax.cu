// Softmax along the rows: a block a row. The maximum and the sum are joined by shuffles, then over shared memory.
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

template <bool kIsSum>
__device__ float joined(float value, float *parts) {
    for (int distance = 16; distance > 0; distance /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, value, distance);
        value = kIsSum ? value + other : fmaxf(value, other);
    }
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = parts[0];
    for (int warp_idx = 1; warp_idx < kWarps; warp_idx++) {
        value = kIsSum ? value + parts[warp_idx] : fmaxf(value, parts[warp_idx]);
    }
    return value;
}

extern "C" __global__ void __launch_bounds__(kThreads) softmax(const float *x, float *out, int batch, int features) {
    __shared__ float maxima[kWarps];
    __shared__ float sums[kWarps];
    const float *from = x + static_cast<size_t>(blockIdx.x) * features;
    float *to = out + static_cast<size_t>(blockIdx.x) * features;
    float most = __int_as_float(0xff800000);
    for (int i = threadIdx.x; i < features; i += kThreads) {
        most = fmaxf(most, from[i]);
    }
    most = joined<false>(most, maxima);
    float sum = 0;
    for (int i = threadIdx.x; i < features; i += kThreads) {
        sum += expf(from[i] - most);
    }
    sum = joined<true>(sum, sums);
    for (int i = threadIdx.x; i < features; i += kThreads) {
        to[i] = expf(from[i] - most) / sum;
    }
}
