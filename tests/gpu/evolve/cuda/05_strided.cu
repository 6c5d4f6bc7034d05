// z = a x + y, one element a thread, neighbouring threads far apart: slow on purpose, for models to mend.
// Layout: x, y, z are contiguous vectors of N floats. Serves every shape.
constexpr int kThreads = 256;

extern "C" __global__ void __launch_bounds__(kThreads) saxpy(const float *x, const float *y, float *z, int n, float a) {
    const unsigned i = threadIdx.x * gridDim.x + blockIdx.x;
    if (i < static_cast<unsigned>(n)) {
        z[i] = a * x[i] + y[i];
    }
}
