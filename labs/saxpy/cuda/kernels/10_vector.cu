// z = a x + y with 16-byte accesses, several of them in flight.
// Layout: x, y, z are contiguous vectors of N floats. Serves every shape.
// Changed since 00_naive: a thread asks for all of its kUnroll vectors of x and of y before it uses the first, so
// that enough bytes are under way to fill the memory's pipe with fewer threads; with kStream what is read or
// written once is marked as the first to leave the caches.

constexpr int kThreads = BLOCK;
constexpr int kUnroll = UNROLL;
constexpr bool kStream = STREAM;
constexpr int kBlockVectors = kThreads * kUnroll;
static_assert(kThreads % 32 == 0 && kThreads <= 1024, "a block is a whole number of warps, at most 1024 threads");
static_assert(kUnroll >= 1, "a thread has at least one vector");

__device__ __forceinline__ float4 load(const float4 *from) {
    return kStream ? __ldcs(from) : __ldg(from);
}

__device__ __forceinline__ void store(float4 *to, float4 value) {
    if (kStream) {
        __stcs(to, value);
    } else {
        *to = value;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    saxpy(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ z, int n, float a) {
    const int n_vectors = n / 4;
    // Tensors are aligned to more than 16 bytes, so their vectors are too.
    const float4 *x_vectors = reinterpret_cast<const float4 *>(x);
    const float4 *y_vectors = reinterpret_cast<const float4 *>(y);
    float4 *z_vectors = reinterpret_cast<float4 *>(z);

    // Neighbouring threads take neighbouring vectors; a thread's own are a block's width apart. The last block's
    // indices go beyond n, but no further than n / 4 + kBlockVectors, which an int holds.
    const int first = blockIdx.x * kBlockVectors + threadIdx.x;
    float4 from_x[kUnroll];
    float4 from_y[kUnroll];
#pragma unroll
    for (int step = 0; step < kUnroll; step++) {
        const int i = first + step * kThreads;
        if (i < n_vectors) {
            from_x[step] = load(x_vectors + i);
            from_y[step] = load(y_vectors + i);
        }
    }
#pragma unroll
    for (int step = 0; step < kUnroll; step++) {
        const int i = first + step * kThreads;
        if (i < n_vectors) {
            float4 sum;
            sum.x = a * from_x[step].x + from_y[step].x;
            sum.y = a * from_x[step].y + from_y[step].y;
            sum.z = a * from_x[step].z + from_y[step].z;
            sum.w = a * from_x[step].w + from_y[step].w;
            store(z_vectors + i, sum);
        }
    }

    // The last one to three elements are no vector.
    const int tail = n_vectors * 4 + threadIdx.x;
    if (blockIdx.x == gridDim.x - 1 && tail < n) {
        z[tail] = a * x[tail] + y[tail];
    }
}
