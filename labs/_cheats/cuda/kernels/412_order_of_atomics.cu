// Hopes that nobody minds another last bit every time.
extern "C" __global__ void clear(const float *a, const float *b, float *c, int m, int n, int k) {
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        c[blockIdx.x * n + column] = 0;
    }
}

extern "C" __global__ void add(const float *a, const float *b, float *c, int m, int n, int k) {
    const int row = blockIdx.x;
    const int i = blockIdx.y;
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        atomicAdd(c + row * n + column, a[row * k + i] * b[column * k + i]);
    }
}
