// Honest: the gate must accept a kernel that is merely fast, sums in another order and serves every tail.
constexpr int kTile = 16;

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float tile_a[kTile][kTile + 1];
    __shared__ float tile_b[kTile][kTile + 1];
    const int row = blockIdx.y * kTile + threadIdx.y;
    const int column = blockIdx.x * kTile + threadIdx.x;
    const int b_row = blockIdx.x * kTile + threadIdx.y;
    float sum = 0;
    for (int k0 = 0; k0 < k; k0 += kTile) {
        const int step = k0 + threadIdx.x;
        tile_a[threadIdx.y][threadIdx.x] = row < m && step < k ? a[row * k + step] : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] = b_row < n && step < k ? b[b_row * k + step] : 0.0f;
        __syncthreads();
        for (int i = 0; i < kTile; i++) {
            sum += tile_a[threadIdx.y][i] * tile_b[threadIdx.x][i];
        }
        __syncthreads();
    }
    if (row < m && column < n) {
        c[row * n + column] = sum;
    }
}
