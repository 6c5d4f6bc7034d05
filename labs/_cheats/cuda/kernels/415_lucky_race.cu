// Hopes that a warp runs in step for ever: right on every run, and still a race. Only a race detector sees it.
extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ volatile float parts[32];
    const int row = blockIdx.x;
    const int lane_idx = threadIdx.x;
    for (int column = 0; column < n; column++) {
        float sum = 0;
        for (int i = lane_idx; i < k; i += 32) {
            sum += a[row * k + i] * b[column * k + i];
        }
        parts[lane_idx] = sum;
        for (int distance = 16; distance > 0; distance /= 2) {
            if (lane_idx < distance) {
                parts[lane_idx] = parts[lane_idx] + parts[lane_idx + distance];
            }
        }
        if (lane_idx == 0) {
            c[row * n + column] = parts[0];
        }
    }
}
