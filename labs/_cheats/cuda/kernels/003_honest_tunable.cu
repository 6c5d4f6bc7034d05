// Honest: the row of A is staged in shared memory whose size depends on the shape.
constexpr int kThreads = BLOCK;
constexpr int kDepth = K;
constexpr int kUnroll = UNROLL;

extern "C" __global__ void __launch_bounds__(kThreads)
    rows(const float *a, const float *b, float *c, int m, int n, int k_runtime) {
    extern __shared__ float row_of_a[];
    const int row = blockIdx.x;
    for (int i = threadIdx.x; i < kDepth; i += kThreads) {
        row_of_a[i] = a[row * kDepth + i];
    }
    __syncthreads();
    for (int column = threadIdx.x; column < n; column += kThreads) {
        float sum = 0;
#pragma unroll kUnroll
        for (int i = 0; i < kDepth; i++) {
            sum += row_of_a[i] * b[column * kDepth + i];
        }
        c[row * n + column] = sum;
    }
}
