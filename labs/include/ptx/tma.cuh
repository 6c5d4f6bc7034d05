// The copy engine (TMA): tiles of a tensor between global and shared memory. sm_90.
//
// Coordinates are in elements, innermost first, while shapes and boxes in a contract are written outermost
// first. What a box reaches outside the tensor is read as zero, and counts among the bytes delivered; on a
// store it is left out. With the 128-byte swizzle a row of a box is 128 bytes, the destination starts at a
// multiple of 1024 bytes, and the 16-byte piece p of row r lies where piece p ^ (r % 8) would.
#ifndef WS_PTX_TMA_CUH
#define WS_PTX_TMA_CUH

#include "ptx/barrier.cuh"

namespace ws {

// What cuTensorMapEncodeTiled fills in.
struct alignas(64) TensorMap {
    char bytes[128];
};

__device__ __forceinline__ unsigned long long map_address(const TensorMap &map) {
    return reinterpret_cast<unsigned long long>(&map);
}

__device__ __forceinline__ void tma_prefetch_map(const TensorMap &map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map_address(map)) : "memory");
}

// --- Loads: one thread asks, the barrier is told of the bytes ------------------------------------------------

__device__ __forceinline__ void tma_load_2d(void *destination, const TensorMap &map, Mbarrier *barrier, int inner,
                                            int outer) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(destination)),
                 "l"(map_address(map)), "r"(shared_address(barrier)), "r"(inner), "r"(outer)
                 : "memory");
}

__device__ __forceinline__ void tma_load_3d(void *destination, const TensorMap &map, Mbarrier *barrier, int inner,
                                            int middle, int outer) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(destination)),
                 "l"(map_address(map)), "r"(shared_address(barrier)), "r"(inner), "r"(middle), "r"(outer)
                 : "memory");
}

// Delivers to every block of the cluster whose bit is set, at the same place, each with its own barrier.
__device__ __forceinline__ void tma_load_multicast_2d(void *destination, const TensorMap &map, Mbarrier *barrier,
                                                      unsigned short blocks, int inner, int outer) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%4, %5}], [%2], %3;" ::"r"(shared_address(destination)),
                 "l"(map_address(map)), "r"(shared_address(barrier)), "h"(blocks), "r"(inner), "r"(outer)
                 : "memory");
}

__device__ __forceinline__ void tma_load_multicast_3d(void *destination, const TensorMap &map, Mbarrier *barrier,
                                                      unsigned short blocks, int inner, int middle, int outer) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(shared_address(destination)),
                 "l"(map_address(map)), "r"(shared_address(barrier)), "h"(blocks), "r"(inner), "r"(middle), "r"(outer)
                 : "memory");
}

// --- Stores: after fence_proxy_async and a barrier among the writers -----------------------------------------

__device__ __forceinline__ void tma_store_2d(const TensorMap &map, const void *source, int inner, int outer) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map_address(map)),
                 "r"(shared_address(source)), "r"(inner), "r"(outer)
                 : "memory");
}

__device__ __forceinline__ void tma_store_3d(const TensorMap &map, const void *source, int inner, int middle,
                                             int outer) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
                     map_address(map)),
                 "r"(shared_address(source)), "r"(inner), "r"(middle), "r"(outer)
                 : "memory");
}

__device__ __forceinline__ void tma_store_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until at most kPending groups of this thread still read shared memory.
template <int kPending>
__device__ __forceinline__ void tma_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Waits until at most kPending groups of this thread are unfinished.
template <int kPending>
__device__ __forceinline__ void tma_store_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

} // namespace ws

#endif
