// Hopes to be lucky: each block loads a row, adds half of the sum and stores the row back.
extern "C" __global__ void clear(const float *a, const float *b, float *c, int m, int n, int k) {
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        c[blockIdx.x * n + column] = 0;
    }
}

extern "C" __global__ void add_half(const float *a, const float *b, float *c, int m, int n, int k) {
    const int row = blockIdx.x % m;
    const int begin = blockIdx.x < m ? 0 : k / 2;
    const int end = blockIdx.x < m ? k / 2 : k;
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        volatile float *to = c + row * n + column;
        float sum = *to;
        for (int i = begin; i < end; i++) {
            sum += a[row * k + i] * b[column * k + i];
        }
        *to = sum;
    }
}
