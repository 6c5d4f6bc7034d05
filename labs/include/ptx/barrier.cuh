// Barriers and fences: mbarriers in shared memory, named barriers, proxy fences, clusters. sm_90.
//
// An mbarrier is a 64-bit word in shared memory that completes a phase when its expected arrivals, and the
// bytes promised to it, have come. A waiter names the parity of the phase it waits for: 0 for the first,
// then 1, 0, ... A wait for the phase before the first (parity 1 on a fresh barrier) returns at once, which
// is how a producer finds an empty ring.
#ifndef WS_PTX_BARRIER_CUH
#define WS_PTX_BARRIER_CUH

namespace ws {

typedef unsigned long long Mbarrier;

// The address of something in shared memory, as instructions on the shared window want it.
__device__ __forceinline__ unsigned shared_address(const void *pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// True in one lane of a converged warp. Better than a comparison with the lane: the compiler then knows that what
// follows runs once, and needs no loop around instructions whose operands must be the same in the whole warp.
__device__ __forceinline__ bool elect_one() {
    unsigned elected;
    asm volatile("{\n\t"
                 ".reg .pred p;\n\t"
                 "elect.sync _|p, 0xFFFFFFFF;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t"
                 "}"
                 : "=r"(elected));
    return elected != 0;
}

// --- mbarrier ------------------------------------------------------------------------------------------------

__device__ __forceinline__ void mbarrier_init(Mbarrier *barrier, unsigned n_arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(n_arrivals) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive(Mbarrier *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives, and promises `bytes` that the copy engine will deliver before the phase may complete.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(Mbarrier *barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Arrives on the barrier at the same place in the shared memory of block `rank` of the cluster. Enough to say that
// tensor cores or copy engine have finished reading; ordinary stores to that block need fence_acq_rel_cluster before.
__device__ __forceinline__ void mbarrier_arrive_cluster(Mbarrier *barrier, unsigned rank) {
    asm volatile("{\n\t"
                 ".reg .b32 remote;\n\t"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n\t"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote];\n\t"
                 "}" ::"r"(shared_address(barrier)),
                 "r"(rank)
                 : "memory");
}

// Waits a short while; returns whether the phase of this parity has completed.
__device__ __forceinline__ bool mbarrier_try_wait(Mbarrier *barrier, unsigned parity) {
    unsigned done;
    asm volatile("{\n\t"
                 ".reg .pred p;\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t"
                 "}"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
    return done != 0;
}

__device__ __forceinline__ void mbarrier_wait(Mbarrier *barrier, unsigned parity) {
    while (!mbarrier_try_wait(barrier, parity)) {
    }
}

// --- Named barriers ------------------------------------------------------------------------------------------

// Waits until n_threads have come to barrier `id` (1 to 15; 0 belongs to __syncthreads).
__device__ __forceinline__ void named_barrier_sync(int id, int n_threads) {
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

// Is counted among the n_threads of barrier `id` and goes on.
__device__ __forceinline__ void named_barrier_arrive(int id, int n_threads) {
    asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

// The same as named_barrier_sync, and returns whether any of the threads said yes.
__device__ __forceinline__ bool named_barrier_or(int id, int n_threads, bool yes) {
    int any;
    asm volatile("{\n\t"
                 ".reg .pred p, q;\n\t"
                 "setp.ne.b32 p, %3, 0;\n\t"
                 "barrier.cta.red.or.pred.aligned q, %1, %2, p;\n\t"
                 "selp.b32 %0, 1, 0, q;\n\t"
                 "}"
                 : "=r"(any)
                 : "r"(id), "r"(n_threads), "r"(static_cast<int>(yes))
                 : "memory");
    return any != 0;
}

// --- Fences --------------------------------------------------------------------------------------------------

// Makes the initialisation of mbarriers visible to the other blocks of the cluster and to the copy engine.
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Orders ordinary accesses to shared memory before those of the copy engine and the tensor cores.
__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Orders ordinary accesses for threads of the whole cluster. Costly: it also waits for stores to global memory.
__device__ __forceinline__ void fence_acq_rel_cluster() {
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
}

// --- Clusters ------------------------------------------------------------------------------------------------

__device__ __forceinline__ unsigned cluster_ctarank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// The shared-window address that `pointer` has in block `rank` of the cluster.
__device__ __forceinline__ unsigned mapa(const void *pointer, unsigned rank) {
    unsigned address;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(pointer)), "r"(rank));
    return address;
}

__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

// The same without ordering anything: enough after fence_mbarrier_init.
__device__ __forceinline__ void cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

// --- Stores to another block ---------------------------------------------------------------------------------
//
// Addresses are of the block that receives (mapa), which must have started and not yet ended.

// Other blocks see them after a cluster barrier.
__device__ __forceinline__ void st_cluster_v4(unsigned address, float4 value) {
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(value.x), "f"(value.y),
                 "f"(value.z), "f"(value.w)
                 : "memory");
}

__device__ __forceinline__ void st_cluster_v2(unsigned address, float2 value) {
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(value.x), "f"(value.y) : "memory");
}

// These travel on their own and count among the bytes promised to a barrier of the block that receives them. Its
// threads see the data after they have waited for that barrier.
__device__ __forceinline__ void st_async_v4(unsigned address, float4 value, unsigned barrier_address) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                     address),
                 "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(barrier_address)
                 : "memory");
}

__device__ __forceinline__ void st_async_v2(unsigned address, float2 value, unsigned barrier_address) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(address),
                 "f"(value.x), "f"(value.y), "r"(barrier_address)
                 : "memory");
}

} // namespace ws

#endif
