// Stands in for labs/include/ptx/tma.cuh.
#ifndef WS_PTX_TMA_CUH
#define WS_PTX_TMA_CUH

#include "ptx/barrier.cuh"

namespace ws {

typedef emu::TensorMap TensorMap;

inline void tma_prefetch_map(const TensorMap &) {}

inline void tma_load_2d(void *destination, const TensorMap &map, Mbarrier *barrier, int inner, int outer,
                        emu::Location at = emu::Location::current()) {
    int coordinates[] = {inner, outer};
    emu::copy_tile(destination, map, barrier, 0, coordinates, 2, at);
}

inline void tma_load_3d(void *destination, const TensorMap &map, Mbarrier *barrier, int inner, int middle, int outer,
                        emu::Location at = emu::Location::current()) {
    int coordinates[] = {inner, middle, outer};
    emu::copy_tile(destination, map, barrier, 0, coordinates, 3, at);
}

inline void tma_load_multicast_2d(void *destination, const TensorMap &map, Mbarrier *barrier, unsigned short blocks,
                                  int inner, int outer, emu::Location at = emu::Location::current()) {
    int coordinates[] = {inner, outer};
    emu::copy_tile(destination, map, barrier, blocks, coordinates, 2, at);
}

inline void tma_load_multicast_3d(void *destination, const TensorMap &map, Mbarrier *barrier, unsigned short blocks,
                                  int inner, int middle, int outer, emu::Location at = emu::Location::current()) {
    int coordinates[] = {inner, middle, outer};
    emu::copy_tile(destination, map, barrier, blocks, coordinates, 3, at);
}

inline void tma_store_2d(const TensorMap &map, const void *source, int inner, int outer,
                         emu::Location at = emu::Location::current()) {
    int coordinates[] = {inner, outer};
    emu::store_tile(map, source, coordinates, 2, at);
}

inline void tma_store_3d(const TensorMap &map, const void *source, int inner, int middle, int outer,
                         emu::Location at = emu::Location::current()) {
    int coordinates[] = {inner, middle, outer};
    emu::store_tile(map, source, coordinates, 3, at);
}

inline void tma_store_commit() {
    emu::store_commit();
}

template <int kPending>
inline void tma_store_wait_read() {
    emu::store_wait(kPending);
}

template <int kPending>
inline void tma_store_wait() {
    emu::store_wait(kPending);
}

} // namespace ws

#include "plain/tma.cuh"

#endif
