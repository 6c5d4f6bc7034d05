// Honest, and slow: 64 sums that are alive together in 32 registers. The order of the sum changes, the result
// does not.
constexpr int kParts = 64;

extern "C" __global__ void __launch_bounds__(1024, 2)
    rows(const float *a, const float *b, float *c, int m, int n, int k) {
    const int row = blockIdx.x;
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        float parts[kParts];
#pragma unroll
        for (int part = 0; part < kParts; part++) {
            parts[part] = 0;
        }
        for (int i = 0; i < k; i += kParts) {
#pragma unroll
            for (int part = 0; part < kParts; part++) {
                if (i + part < k) {
                    parts[part] += a[row * k + i + part] * b[column * k + i + part];
                }
            }
        }
        float sum = 0;
#pragma unroll
        for (int part = 0; part < kParts; part++) {
            sum += parts[part];
        }
        c[row * n + column] = sum;
    }
}
