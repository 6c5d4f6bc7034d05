// z = a x + y, one element a thread.
// Layout: x, y, z are contiguous vectors of N floats. Serves every shape; the oracle of this lab.
constexpr int kThreads = 256;

extern "C" __global__ void __launch_bounds__(kThreads) saxpy(const float *x, const float *y, float *z, int n, float a) {
    // The index goes beyond n in the last block, possibly beyond what an int holds.
    const unsigned i = blockIdx.x * kThreads + threadIdx.x;
    if (i < static_cast<unsigned>(n)) {
        z[i] = a * x[i] + y[i];
    }
}
