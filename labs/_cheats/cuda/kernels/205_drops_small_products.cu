// Hopes that small products never matter.
extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    const int row = blockIdx.x;
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        float sum = 0;
        for (int i = 0; i < k; i++) {
            const float product = a[row * k + i] * b[column * k + i];
            sum += fabsf(product) < 1e-6f ? 0.0f : product;
        }
        c[row * n + column] = sum;
    }
}
