// Honest: local memory is scratch like any other.
constexpr int kParts = 1024;

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    const int row = blockIdx.x;
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        float products[kParts];
        const int used = min(k, kParts);
        for (int i = 0; i < used; i++) {
            products[i] = 0;
        }
        for (int i = 0; i < k; i++) {
            products[i * 7 % used] += a[row * k + i] * b[column * k + i];
        }
        float sum = 0;
        for (int i = 0; i < used; i++) {
            sum += products[i];
        }
        c[row * n + column] = sum;
    }
}
