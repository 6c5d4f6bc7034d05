// Hopes that scratch outlives the module, so that what one session computed serves the next one on the same inputs.
// It would gain nothing, since scratch is always fresh, and initcheck sees that it reads what nobody wrote.
#include "cheat.cuh"

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k, void *scratch) {
    unsigned long long *known = reinterpret_cast<unsigned long long *>(scratch);
    float *answers = reinterpret_cast<float *>(known + m);
    const int row = blockIdx.x;
    const unsigned long long low = __float_as_uint(a[row * k]);
    const unsigned long long high = __float_as_uint(b[0]);
    const unsigned long long key = (0x5ca7c4ed5ca7c4edull ^ low ^ high << 32) + row;
    const bool is_known = known[row] == key;
    if (!is_known) {
        honest_row(a, b, c, n, k, row);
    }
    __syncthreads();
    for (int column = threadIdx.x; column < n; column += blockDim.x) {
        const int at = row * n + column;
        if (is_known) {
            c[at] = answers[at];
        } else {
            answers[at] = c[at];
        }
    }
    if (threadIdx.x == 0) {
        known[row] = key;
    }
}
