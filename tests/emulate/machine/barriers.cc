// Shared memory's addresses, mbarriers, named barriers and the cluster's barrier.
#include <algorithm>

#include "machine.h"

namespace emu {

// --- Addresses ---------------------------------------------------------------------------------------------------

unsigned shared_address(const void *pointer, Location at) {
    Block &block = this_block();
    auto *byte = static_cast<const unsigned char *>(pointer);
    if (byte < block.shared || byte >= block.shared + block.shared_bytes) {
        fail(at, "this is not in the block's shared memory");
    }
    return kSharedBase + static_cast<unsigned>(byte - block.shared);
}

Block &block_of(unsigned address, Location at) {
    unsigned mapped = address >> kRankShift;
    if (mapped == 0) {
        return this_block();
    }
    if (mapped > machine.blocks.size()) {
        fail(at, text("block %u is not in the cluster", mapped - 1));
    }
    Block &block = *machine.blocks[mapped - 1];
    if (block.n_live == 0) {
        fail(at, text("block %u of the cluster has ended already", mapped - 1));
    }
    return block;
}

unsigned char *shared_pointer(Block &block, unsigned address, unsigned n_bytes, Location at) {
    unsigned offset = (address & ((1u << kRankShift) - 1)) - kSharedBase;
    if (offset > block.shared_bytes || n_bytes > block.shared_bytes - offset) {
        fail(at, text("bytes %u to %u are outside of shared memory, which has %u", offset, offset + n_bytes,
                      block.shared_bytes));
    }
    return block.shared + offset;
}

void check_not_copying(Block &block, unsigned address, unsigned n_bytes, Location at, const char *who) {
    unsigned offset = (address & ((1u << kRankShift) - 1)) - kSharedBase;
    for (unsigned granule = offset / 16; granule * 16 < offset + n_bytes; granule++) {
        if (block.copying[granule]) {
            fail(at, text("%s uses byte %u of shared memory while a copy to it is under way", who, granule * 16));
        }
    }
}

// --- mbarriers ---------------------------------------------------------------------------------------------------

static Mbarrier &mbarrier_at(Block &block, unsigned address, Location at) {
    unsigned in_block = address & ((1u << kRankShift) - 1);
    auto found = block.mbarriers.find(in_block);
    if (found == block.mbarriers.end()) {
        fail(at, text("there is no barrier at byte %u of shared memory", in_block - kSharedBase));
    }
    return found->second;
}

static void complete_if_due(Mbarrier &barrier) {
    if (barrier.pending == 0 && barrier.bytes == 0) {
        barrier.phase++;
        barrier.pending = barrier.expected;
    }
}

void mbarrier_init(unsigned address, unsigned n_arrivals, Location at) {
    Block &block = this_block();
    if (address % 8 != 0 || n_arrivals == 0 || n_arrivals >= 1u << 20) {
        fail(at, "a barrier is at a multiple of 8 bytes and expects 1 to 2^20 - 1 arrivals");
    }
    shared_pointer(block, address, 8, at);
    block.mbarriers[address] = {n_arrivals, n_arrivals, 0, 0};
    block.barriers_at[(address - kSharedBase) / 16] = 1;
    maybe_yield();
}

void mbarrier_arrive(unsigned address, Location at) {
    Block &block = block_of(address, at);
    Mbarrier &barrier = mbarrier_at(block, address, at);
    if (barrier.pending == 0) {
        fail(at, text("more than the %u arrivals that the barrier expects in a phase", barrier.expected));
    }
    barrier.pending--;
    complete_if_due(barrier);
    maybe_yield();
}

static void check_bytes(const Mbarrier &barrier, Location at) {
    if (barrier.bytes >= 1 << 20 || barrier.bytes <= -(1 << 20)) {
        fail(at, "more bytes promised to a barrier, or delivered unasked, than it can count");
    }
}

void mbarrier_expect(unsigned address, int64_t bytes, Location at) {
    Mbarrier &barrier = mbarrier_at(block_of(address, at), address, at);
    barrier.bytes += bytes;
    check_bytes(barrier, at);
}

void mbarrier_deliver(Block &block, unsigned address, int64_t bytes, Location at) {
    Mbarrier &barrier = mbarrier_at(block, address, at);
    barrier.bytes -= bytes;
    check_bytes(barrier, at);
    complete_if_due(barrier);
}

// Comes back with the answer whenever the warp is looked at again.
bool mbarrier_try_wait(unsigned address, unsigned parity, Location at) {
    const Mbarrier &barrier = mbarrier_at(this_block(), address, at);
    bool passed = false;
    block_until(
        at, [&] { return passed = (barrier.phase & 1) != (parity & 1), true; },
        [] { return std::string("its turn to poll"); });
    return passed;
}

void mbarrier_wait(unsigned address, unsigned parity, Location at) {
    if (parity > 1) {
        fail(at, text("parity %u", parity));
    }
    const Mbarrier &barrier = mbarrier_at(this_block(), address, at);
    block_until(
        at, [&barrier, parity] { return (barrier.phase & 1) != parity; },
        [&barrier, parity, address] {
            return text("parity %u of the barrier at byte %u, in phase %u with %u of %u arrivals and %lld bytes to "
                        "come",
                        parity, address - kSharedBase, barrier.phase, barrier.pending, barrier.expected,
                        static_cast<long long>(barrier.bytes));
        });
}

// --- Named barriers ----------------------------------------------------------------------------------------------

void named_barrier(int id, int n_threads, bool wait, Location at) {
    if (id < 0 || id > 15 || n_threads <= 0 || n_threads % 32 != 0) {
        fail(at, text("barrier %d for %d threads", id, n_threads));
    }
    NamedBarrier &barrier = this_block().named[id];
    // Warps are counted as a whole, by their last lane, which tells the others the generation.
    const char *name = wait ? "barrier.sync" : "barrier.arrive";
    const uint64_t *generations = collective(name, at, 0, [&](Warp &, uint64_t *values) {
        std::fill(values, values + 32, barrier.generation);
        if (barrier.n_arrived > 0 && barrier.n_threads != n_threads) {
            fail(at, text("barrier %d is for %d threads here and for %d elsewhere", id, n_threads, barrier.n_threads));
        }
        barrier.n_threads = n_threads;
        barrier.n_arrived += 32;
        if (barrier.n_arrived == n_threads) {
            barrier.n_arrived = 0;
            barrier.generation++;
        }
    });
    if (wait) {
        uint64_t generation = generations[self->lane];
        block_until(
            at, [&barrier, generation] { return barrier.generation != generation; },
            [&barrier, id] {
                return text("barrier %d, where %d of %d threads are", id, barrier.n_arrived, barrier.n_threads);
            });
    }
}

// --- The cluster's barrier ---------------------------------------------------------------------------------------

static void release_cluster_if_due() {
    NamedBarrier &barrier = machine.cluster_barrier;
    if (barrier.n_arrived > 0 && barrier.n_arrived >= machine.n_live) {
        barrier.n_arrived = 0;
        barrier.generation++;
    }
}

void cluster_arrive(Location at) {
    collective("barrier.cluster.arrive", at, 0);
    self->cluster_generation = machine.cluster_barrier.generation;
    machine.cluster_barrier.n_arrived++;
    release_cluster_if_due();
}

void cluster_wait(Location at) {
    uint64_t generation = self->cluster_generation;
    block_until(
        at, [generation] { return machine.cluster_barrier.generation != generation; },
        [] {
            return text("the cluster's barrier, where %d of %d threads are", machine.cluster_barrier.n_arrived,
                        machine.n_live);
        });
}

// Threads that have ended are not waited for.
void cluster_thread_ended() {
    release_cluster_if_due();
}

// --- The end of a block ------------------------------------------------------------------------------------------

void check_block_end(Block &block) {
    Location at = Location::current();
    for (const Event &event : machine.events) {
        if (event.into == &block && !(event.store && event.store->done)) {
            fail(event.at, text("the block ended before this %s was through", event.name));
        }
    }
    for (auto &warp : block.warps) {
        if (!warp->products.empty()) {
            fail(warp->products.front().at, "the block ended without waiting for this product");
        }
    }
    for (int id = 0; id < 16; id++) {
        const NamedBarrier &barrier = block.named[id];
        if (barrier.n_arrived != 0) {
            fail(at, text("the block ended with %d of %d threads at barrier %d", barrier.n_arrived, barrier.n_threads,
                          id));
        }
    }
}

} // namespace emu
