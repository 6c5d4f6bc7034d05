// Kernels that each do one thing wrong, for one of the sanitizers: a tool that finds nothing in its own is blind.
// Arguments: x, z, n (floats of each), steps.

// For memcheck: an element past the end of an input.
extern "C" __global__ void reads_beside(const float *x, float *z, int n, int steps) {
    (void)steps;
    z[threadIdx.x] = *static_cast<const volatile float *>(x + n);
}

// For racecheck: warps exchange through shared memory without a barrier.
extern "C" __global__ void races(const float *x, float *z, int n, int steps) {
    (void)n;
    (void)steps;
    __shared__ volatile float parts[1024];
    parts[threadIdx.x] = x[threadIdx.x];
    z[threadIdx.x] = parts[blockDim.x - 1 - threadIdx.x];
}

// For initcheck: an output that nobody wrote.
extern "C" __global__ void reads_unwritten(const float *x, float *z, int n, int steps) {
    (void)n;
    (void)steps;
    z[threadIdx.x] = *static_cast<volatile float *>(z + threadIdx.x) + x[threadIdx.x];
}
