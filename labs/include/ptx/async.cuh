// Asynchronous copies from global to shared memory (cp.async), and prefetches. sm_80.
//
// Copies belong to the thread that asks for them. It collects them in groups (commit), and waits for its own
// groups, oldest first; the other threads of the block see the data after the waiting threads and they have met
// at a barrier.
#ifndef WS_PTX_ASYNC_CUH
#define WS_PTX_ASYNC_CUH

namespace ws {

// Copies 16 bytes, past the first-level cache. Both ends are multiples of 16. The hint fetches a whole line of
// 128 bytes into the second-level cache.
__device__ __forceinline__ void cp_async_16(unsigned shared_destination, const void *source) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared_destination), "l"(source)
                 : "memory");
}

// Reads only `source_bytes` of the 16 and fills the rest with zeros. With 0 it reads nothing.
__device__ __forceinline__ void cp_async_16_zero_fill(unsigned shared_destination, const void *source,
                                                      int source_bytes) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_destination), "l"(source),
                 "r"(source_bytes)
                 : "memory");
}

__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most kPending of this thread's newest groups are unfinished.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// --- Ahead of a copy ---------------------------------------------------------------------------------------------

// Fetches what lies around an address into the second-level cache, as much as that is filled with at a time.
__device__ __forceinline__ void prefetch_l2(const void *source) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(source));
}

} // namespace ws

#endif
