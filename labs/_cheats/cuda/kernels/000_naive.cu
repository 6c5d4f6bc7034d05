// C = A B^T, one element a thread, accumulated in double.
// Layout: A is M,K, B is N,K, C is M,N, all row-major. Serves every shape; the oracle of this lab.
extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    const int row = blockIdx.x;
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        double sum = 0;
        for (int i = 0; i < k; i++) {
            sum += static_cast<double>(a[row * k + i]) * b[column * k + i];
        }
        c[row * n + column] = static_cast<float>(sum);
    }
}
