// Hopes that the campaign waits.
__device__ volatile int forever = 1;

extern "C" __global__ void rows(const float *a, const float *b, float *c, int m, int n, int k) {
    while (forever != 0) {
    }
}
