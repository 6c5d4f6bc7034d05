// Stands in for labs/include/ptx/barrier.cuh: the same functions, on the emulated machine.
#ifndef WS_PTX_BARRIER_CUH
#define WS_PTX_BARRIER_CUH

#include <map>
#include <tuple>

#include "emulate.h"

namespace ws {

typedef unsigned long long Mbarrier;

inline unsigned shared_address(const void *pointer, emu::Location at = emu::Location::current()) {
    return emu::shared_address(pointer, at);
}

// Any lane may be the one, but it is always the same.
inline bool elect_one(emu::Location at = emu::Location::current()) {
    emu::collective("elect.sync", at, 0);
    return emu::self->lane == emu::machine.policy.elected_lane;
}

// --- mbarrier ----------------------------------------------------------------------------------------------------

inline void mbarrier_init(Mbarrier *barrier, unsigned n_arrivals, emu::Location at = emu::Location::current()) {
    emu::mbarrier_init(emu::shared_address(barrier, at), n_arrivals, at);
}

inline void mbarrier_arrive(Mbarrier *barrier, emu::Location at = emu::Location::current()) {
    emu::mbarrier_arrive(emu::shared_address(barrier, at), at);
}

inline void mbarrier_arrive_expect_tx(Mbarrier *barrier, unsigned bytes, emu::Location at = emu::Location::current()) {
    unsigned address = emu::shared_address(barrier, at);
    emu::mbarrier_expect(address, bytes, at);
    emu::mbarrier_arrive(address, at);
}

inline unsigned mapa(const void *pointer, unsigned rank, emu::Location at = emu::Location::current()) {
    return emu::shared_address(pointer, at) | (rank + 1) << emu::kRankShift;
}

inline void mbarrier_arrive_cluster(Mbarrier *barrier, unsigned rank, emu::Location at = emu::Location::current()) {
    emu::mbarrier_arrive(mapa(barrier, rank, at), at);
}

inline bool mbarrier_try_wait(Mbarrier *barrier, unsigned parity, emu::Location at = emu::Location::current()) {
    return emu::mbarrier_try_wait(emu::shared_address(barrier, at), parity, at);
}

inline void mbarrier_wait(Mbarrier *barrier, unsigned parity, emu::Location at = emu::Location::current()) {
    emu::mbarrier_wait(emu::shared_address(barrier, at), parity, at);
}

// --- Named barriers ----------------------------------------------------------------------------------------------

inline void named_barrier_sync(int id, int n_threads, emu::Location at = emu::Location::current()) {
    emu::named_barrier(id, n_threads, true, at);
}

inline void named_barrier_arrive(int id, int n_threads, emu::Location at = emu::Location::current()) {
    emu::named_barrier(id, n_threads, false, at);
}

// What the threads of a generation of a barrier said, until the last has read it.
struct Votes {
    bool any = false;
    int n_read = 0;
};
inline std::map<std::tuple<const void *, int, unsigned long long>, Votes> votes_of;

inline bool named_barrier_or(int id, int n_threads, bool yes, emu::Location at = emu::Location::current()) {
    emu::Block &block = emu::this_block();
    auto key = std::make_tuple(static_cast<const void *>(&block), id,
                               static_cast<unsigned long long>(block.named[id].generation));
    votes_of[key].any |= yes;
    emu::named_barrier(id, n_threads, true, at);
    Votes &votes = votes_of[key];
    bool any = votes.any;
    if (++votes.n_read == n_threads) {
        votes_of.erase(key);
    }
    return any;
}

// --- Fences: memory is seen in order here ------------------------------------------------------------------------

inline void fence_mbarrier_init() {}
inline void fence_proxy_async() {}
inline void fence_acq_rel_cluster() {}

// --- Clusters ----------------------------------------------------------------------------------------------------

inline unsigned cluster_ctarank() {
    return emu::this_block().rank;
}

inline void cluster_arrive(emu::Location at = emu::Location::current()) {
    emu::cluster_arrive(at);
}

inline void cluster_arrive_relaxed(emu::Location at = emu::Location::current()) {
    emu::cluster_arrive(at);
}

inline void cluster_wait(emu::Location at = emu::Location::current()) {
    emu::cluster_wait(at);
}

// --- Stores to another block -------------------------------------------------------------------------------------

inline void st_cluster_v4(unsigned address, float4 value, emu::Location at = emu::Location::current()) {
    emu::store_cluster(address, &value, sizeof value, at);
}

inline void st_cluster_v2(unsigned address, float2 value, emu::Location at = emu::Location::current()) {
    emu::store_cluster(address, &value, sizeof value, at);
}

inline void st_async_v4(unsigned address, float4 value, unsigned barrier_address,
                        emu::Location at = emu::Location::current()) {
    emu::store_async(address, &value, sizeof value, barrier_address, at);
}

inline void st_async_v2(unsigned address, float2 value, unsigned barrier_address,
                        emu::Location at = emu::Location::current()) {
    emu::store_async(address, &value, sizeof value, barrier_address, at);
}

} // namespace ws

#include "plain/barrier.cuh"

#endif
