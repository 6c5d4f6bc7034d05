// Hopes that all inputs are of scale 1.
__device__ float fixed_dot(const float *x, const float *y, int k) {
    long long sum = 0;
    for (int i = 0; i < k; i++) {
        sum += __float2ll_rn(x[i] * y[i] * 1048576.0f);
    }
    return static_cast<float>(static_cast<double>(sum) / 1048576.0);
}

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    const int row = blockIdx.x;
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        c[row * n + column] = fixed_dot(a + row * k, b + column * k, k);
    }
}
