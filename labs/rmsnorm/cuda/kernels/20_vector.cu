// y = x / sqrt(mean(x²) + eps) · w, one pass over memory.
// Layout: x and y are N,D row-major, w has D elements. Serves every shape; D is known to the compiler.
//
// kRowThreads threads share a row, and kRows rows lie side by side in a block. A block walks over kSteps such
// groups of rows. A thread's part of a row stays in its registers between the sum and the scaling.
// Changed since 10_warp: x is read from memory once, 16 bytes at a time, all of a thread's part before the first
// use; w is read from the first-level cache, which x is told to pass by; with kAhead the next row is asked for
// before this one is reduced, so that memory has something to do meanwhile.
//
// Where D is no multiple of 4 the rows are not aligned to 16 bytes, and accesses are 8 or 4 bytes wide. Rows too long
// for the registers are read a second time.

// --- Configuration -------------------------------------------------------------------------------------------

constexpr int kRowLength = D;
constexpr int kRowThreads = ROW_THREADS;
constexpr int kRows = ROWS;
constexpr int kSteps = STEPS;
constexpr int kWarpSize = 32;
constexpr int kRowWarps = kRowThreads / kWarpSize;
constexpr int kThreads = kRowThreads * kRows;
static_assert(kRowThreads % kWarpSize == 0, "whole warps share a row");
static_assert(kThreads <= 1024, "a block has at most 1024 threads");

constexpr int kLanes = kRowLength % 4 == 0 ? 4 : kRowLength % 2 == 0 ? 2 : 1;
constexpr int kRowVectors = kRowLength / kLanes;
constexpr int kVectors = (kRowVectors + kRowThreads - 1) / kRowThreads; // of a thread
constexpr int kMostRegisters = 64;                                      // for one row's part
constexpr bool kHeld = kVectors * kLanes <= kMostRegisters;
constexpr int kParts = kHeld ? kVectors : 1;
constexpr bool kAhead = AHEAD && kHeld && kSteps > 1;

// --- Vectors -------------------------------------------------------------------------------------------------

template <int kWidth>
struct VectorOf;
template <>
struct VectorOf<4> {
    typedef float4 Type;
};
template <>
struct VectorOf<2> {
    typedef float2 Type;
};
template <>
struct VectorOf<1> {
    typedef float Type;
};
typedef VectorOf<kLanes>::Type Vector;

__device__ __forceinline__ float squares(float4 v) {
    return v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w);
}
__device__ __forceinline__ float squares(float2 v) {
    return v.x * v.x + v.y * v.y;
}
__device__ __forceinline__ float squares(float v) {
    return v * v;
}

__device__ __forceinline__ float4 scaled(float4 v, float factor, float4 w) {
    return make_float4(v.x * factor * w.x, v.y * factor * w.y, v.z * factor * w.z, v.w * factor * w.w);
}
__device__ __forceinline__ float2 scaled(float2 v, float factor, float2 w) {
    return make_float2(v.x * factor * w.x, v.y * factor * w.y);
}
__device__ __forceinline__ float scaled(float v, float factor, float w) {
    return v * factor * w;
}

// --- Reduction -----------------------------------------------------------------------------------------------

// A slot for each warp, twice: one barrier a step is enough if the next step writes elsewhere.
struct SharedMemory {
    float parts[2][kRows][kRowWarps];
};

// Every thread of a row gets the row's sum, added in an order that depends on nothing.
__device__ __forceinline__ float row_sum(float value, SharedMemory &shared, int step, int row, int thread_idx) {
#pragma unroll
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    }
    if constexpr (kRowWarps == 1) {
        return value;
    }
    float *parts = shared.parts[step % 2][row];
    if (thread_idx % kWarpSize == 0) {
        parts[thread_idx / kWarpSize] = value;
    }
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int warp_idx = 0; warp_idx < kRowWarps; warp_idx++) {
        sum += parts[warp_idx];
    }
    return sum;
}

// --- Rows ----------------------------------------------------------------------------------------------------

// Says whether a thread has its i-th vector; for most shapes the compiler knows.
__device__ __forceinline__ bool has(int i, int thread_idx) {
    return kRowVectors % kRowThreads == 0 || i < kVectors - 1 || i * kRowThreads + thread_idx < kRowVectors;
}

__device__ __forceinline__ void load_row(Vector (&values)[kParts], const Vector *from, int thread_idx, bool exists) {
#pragma unroll
    for (int i = 0; i < kParts; i++) {
        values[i] = Vector{};
        if (exists && has(i, thread_idx)) {
            values[i] = __ldcs(from + i * kRowThreads + thread_idx);
        }
    }
}

__device__ __forceinline__ float factor_of(float sum, float eps) {
    return 1.0f / sqrtf(sum / static_cast<float>(kRowLength) + eps);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    rmsnorm(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y, int n, int d_runtime,
            float eps) {
    __shared__ SharedMemory shared;
    const int thread_idx = threadIdx.x % kRowThreads;
    const int row_of_block = threadIdx.x / kRowThreads;
    const Vector *weights = reinterpret_cast<const Vector *>(w); // (kRowVectors)
    // Rows in 64 bits: the last block may count beyond n.
    const long long first_row = static_cast<long long>(blockIdx.x) * (kRows * kSteps) + row_of_block;

    Vector values[kParts];
    if constexpr (kAhead) {
        load_row(values, reinterpret_cast<const Vector *>(x) + first_row * kRowVectors, thread_idx, first_row < n);
    }
    // All threads of a block take every step, rows or not, because row_sum holds a barrier.
    for (int step = 0; step < kSteps; step++) {
        const long long row = first_row + step * kRows;
        const bool exists = row < n;
        const Vector *from = reinterpret_cast<const Vector *>(x) + row * kRowVectors; // (kRowVectors)
        Vector *to = reinterpret_cast<Vector *>(y) + row * kRowVectors;               // (kRowVectors)

        if constexpr (kHeld) {
            if constexpr (!kAhead) {
                load_row(values, from, thread_idx, exists);
            }
            float sum = 0;
#pragma unroll
            for (int i = 0; i < kParts; i++) {
                sum += squares(values[i]);
            }
            Vector next[kParts];
            if constexpr (kAhead) {
                load_row(next, from + kRows * kRowVectors, thread_idx, step + 1 < kSteps && row + kRows < n);
            }
            const float factor = factor_of(row_sum(sum, shared, step, row_of_block, thread_idx), eps);
#pragma unroll
            for (int i = 0; i < kParts; i++) {
                if (exists && has(i, thread_idx)) {
                    const int at = i * kRowThreads + thread_idx;
                    __stcs(to + at, scaled(values[i], factor, __ldg(weights + at)));
                }
            }
            if constexpr (kAhead) {
#pragma unroll
                for (int i = 0; i < kParts; i++) {
                    values[i] = next[i];
                }
            }
        } else {
            float sum = 0;
            if (exists) {
#pragma unroll 8
                for (int at = thread_idx; at < kRowVectors; at += kRowThreads) {
                    sum += squares(from[at]);
                }
            }
            const float factor = factor_of(row_sum(sum, shared, step, row_of_block, thread_idx), eps);
            if (exists) {
#pragma unroll 4
                for (int at = thread_idx; at < kRowVectors; at += kRowThreads) {
                    __stcs(to + at, scaled(__ldcs(from + at), factor, __ldg(weights + at)));
                }
            }
        }
    }
}
