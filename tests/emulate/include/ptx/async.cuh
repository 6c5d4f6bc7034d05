// Stands in for labs/include/ptx/async.cuh.
#ifndef WS_PTX_ASYNC_CUH
#define WS_PTX_ASYNC_CUH

#include "ptx/barrier.cuh"

namespace ws {

inline void cp_async_16_zero_fill(unsigned shared_destination, const void *source, int source_bytes,
                                  emu::Location at = emu::Location::current()) {
    emu::copy_16(shared_destination, source, source_bytes, at);
}

inline void cp_async_16(unsigned shared_destination, const void *source, emu::Location at = emu::Location::current()) {
    emu::copy_16(shared_destination, source, 16, at);
}

inline void cp_async_commit() {
    emu::copy_16_commit();
}

template <int kPending>
inline void cp_async_wait() {
    emu::copy_16_wait(kPending);
}

// Caches are not emulated.
inline void prefetch_l2(const void *) {}

} // namespace ws

#include "plain/async.cuh"

#endif
