// The copy engine: tiles from and to global memory, and stores to other blocks. All of them take effect later.
#include "machine.h"

namespace emu {

static unsigned offset_of(unsigned address) {
    return (address & ((1u << kRankShift) - 1)) - kSharedBase;
}

static unsigned swizzled(unsigned address, int swizzle) {
    unsigned mask = swizzle == 128 ? 7 : swizzle == 64 ? 3 : swizzle == 32 ? 1 : 0;
    return address ^ (address >> 7 & mask) << 4;
}

static int64_t box_bytes(const TensorMap &map) {
    int64_t bytes = map.element_bytes;
    for (int i = 0; i < map.rank; i++) {
        bytes *= map.box[i];
    }
    return bytes;
}

// Calls `visit(shared address, pointer to global memory or null outside of the tensor, bytes)` for every 16 bytes, or
// fewer at the tensor's edge.
template <typename Visit>
static void for_each_piece(const TensorMap &map, unsigned address, const int *coordinates, Visit visit) {
    int64_t row_bytes = static_cast<int64_t>(map.box[0]) * map.element_bytes;
    int64_t n_rows = box_bytes(map) / row_bytes;
    for (int64_t row = 0; row < n_rows; row++) {
        int64_t rest = row, stride = map.shape[0], at = 0;
        bool inside = true;
        for (int i = 1; i < map.rank; i++) {
            int64_t index = coordinates[i] + rest % map.box[i];
            rest /= map.box[i];
            inside = inside && index >= 0 && index < map.shape[i];
            at += index * stride;
            stride *= map.shape[i];
        }
        for (int64_t byte = 0; byte < row_bytes; byte += map.element_bytes) {
            int64_t column = coordinates[0] + byte / map.element_bytes;
            bool here = inside && column >= 0 && column < map.shape[0];
            unsigned to = swizzled(address + static_cast<unsigned>(row * row_bytes + byte), map.swizzle);
            visit(to, here ? map.base + (at + column) * map.element_bytes : nullptr, map.element_bytes);
        }
    }
}

static void check_tile(const TensorMap &map, unsigned address, int rank, Location at) {
    if (map.rank != rank) {
        fail(at, text("the tensor map has %d dimensions", map.rank));
    }
    int64_t row_bytes = static_cast<int64_t>(map.box[0]) * map.element_bytes;
    if (map.swizzle && row_bytes > map.swizzle) {
        fail(at, "a row of the box is longer than the swizzle");
    }
    if (address % (map.swizzle ? 1024 : 128) != 0) {
        fail(at, text("a tile at byte %u of shared memory is not aligned for its swizzle", offset_of(address)));
    }
}

static void poison(Block &block, unsigned offset, unsigned n_bytes) {
    for (unsigned i = 0; i < n_bytes; i += 2) {
        memcpy(block.shared + offset + i, &kPoison16, 2);
    }
}

void copy_tile(void *destination, const TensorMap &map, const void *barrier, unsigned blocks, const int *coordinates,
               int rank, Location at) {
    unsigned address = shared_address(destination, at);
    unsigned barrier_address = shared_address(barrier, at);
    check_tile(map, address, rank, at);
    unsigned n_bytes = static_cast<unsigned>(box_bytes(map));
    unsigned first = offset_of(address);
    for (auto &block : machine.blocks) {
        bool receives = blocks ? (blocks >> block->rank & 1) != 0 : block.get() == &this_block();
        if (!receives) {
            continue;
        }
        if (block->n_live == 0) {
            fail(at, text("a copy to block %u of the cluster, which has ended", block->rank));
        }
        shared_pointer(*block, address, n_bytes, at);
        for (unsigned granule = first / 16; granule < (first + n_bytes) / 16; granule++) {
            if (block->copying[granule]) {
                fail(at, text("a copy to byte %u of shared memory, where another is under way", granule * 16));
            }
            if (block->readers[granule]) {
                fail(at, text("a copy to byte %u of shared memory, which a product or a store may still read",
                              granule * 16));
            }
            if (block->barriers_at[granule]) {
                fail(at, text("a copy over the barrier at byte %u of shared memory", granule * 16));
            }
            block->copying[granule] = 1;
        }
        poison(*block, first, n_bytes);
        Block *to = block.get();
        std::vector<int> where(coordinates, coordinates + rank);
        Event event;
        event.into = to;
        event.name = "copy";
        event.at = at;
        event.happen = [to, map, address, barrier_address, where, first, n_bytes, at] {
            for_each_piece(map, address, where.data(), [&](unsigned piece, const unsigned char *from, unsigned bytes) {
                unsigned char *target = to->shared + offset_of(piece);
                from ? static_cast<void>(memcpy(target, from, bytes)) : static_cast<void>(memset(target, 0, bytes));
            });
            for (unsigned granule = first / 16; granule < (first + n_bytes) / 16; granule++) {
                to->copying[granule] = 0;
            }
            mbarrier_deliver(*to, barrier_address, n_bytes, at);
        };
        machine.events.push_back(std::move(event));
    }
    maybe_yield();
}

// --- Copies of 16 bytes, each thread's own (cp.async) -------------------------------------------------------------

static void finish(SmallCopy &copy) {
    if (!copy.done) {
        copy.done = true;
        memcpy(copy.to, copy.bytes, 16);
        copy.block->copying[static_cast<size_t>(copy.to - copy.block->shared) / 16] = 0;
    }
}

void copy_16(unsigned address, const void *source, int n_bytes, Location at) {
    Block &block = this_block();
    auto copy = std::make_shared<SmallCopy>();
    copy->block = &block;
    copy->to = shared_pointer(block, address, 16, at);
    if (address % 16 != 0) {
        fail(at, "a copy of 16 bytes to an address that is not a multiple of 16");
    }
    check_not_copying(block, address, 16, at, "a copy");
    memcpy(copy->bytes, source, n_bytes);
    block.copying[offset_of(address) / 16] = 1;
    poison(block, offset_of(address), 16);
    self->copies.push_back(copy);
    Event event;
    event.name = "copy";
    event.at = at;
    event.happen = [copy] { finish(*copy); };
    machine.events.push_back(std::move(event));
}

void copy_16_commit() {
    for (auto &copy : self->copies) {
        copy->group = copy->group < 0 ? self->n_copy_groups : copy->group;
    }
    self->n_copy_groups++;
}

void copy_16_wait(int n_pending) {
    maybe_yield();
    auto &copies = self->copies;
    int newest = self->n_copy_groups - n_pending;
    while (!copies.empty() && copies.front()->group >= 0 && copies.front()->group < newest) {
        finish(*copies.front());
        copies.pop_front();
    }
}

// --- Stores of tiles ---------------------------------------------------------------------------------------------

static void finish(Store &store) {
    if (store.done) {
        return;
    }
    store.done = true;
    store.happen();
    for (unsigned granule = store.first / 16; granule < (store.first + store.n_bytes) / 16; granule++) {
        store.block->readers[granule]--;
    }
}

void store_tile(const TensorMap &map, const void *source, const int *coordinates, int rank, Location at) {
    unsigned address = shared_address(source, at);
    check_tile(map, address, rank, at);
    Block &block = this_block();
    auto store = std::make_shared<Store>();
    store->block = &block;
    store->first = offset_of(address);
    store->n_bytes = static_cast<unsigned>(box_bytes(map));
    shared_pointer(block, address, store->n_bytes, at);
    check_not_copying(block, address, store->n_bytes, at, "a store");
    for (unsigned granule = store->first / 16; granule < (store->first + store->n_bytes) / 16; granule++) {
        block.readers[granule]++;
    }
    std::vector<int> where(coordinates, coordinates + rank);
    store->happen = [&block, map, address, where] {
        for_each_piece(map, address, where.data(), [&](unsigned piece, unsigned char *to, unsigned bytes) {
            if (to) {
                memcpy(to, block.shared + offset_of(piece), bytes);
            }
        });
    };
    self->stores.push_back(store);
    Event event;
    event.into = &block; // shared memory must last until it has been read
    event.name = "store";
    event.at = at;
    event.store = store;
    event.happen = [store] { finish(*store); };
    machine.events.push_back(std::move(event));
    maybe_yield();
}

void store_commit() {
    for (auto &store : self->stores) {
        store->group = store->group < 0 ? self->n_store_groups : store->group;
    }
    self->n_store_groups++;
}

// Forces what is left of them, as if the engine had been slow.
void store_wait(int n_pending) {
    maybe_yield();
    auto &stores = self->stores;
    int newest = self->n_store_groups - n_pending;
    while (!stores.empty() && stores.front()->group >= 0 && stores.front()->group < newest) {
        finish(*stores.front());
        stores.pop_front();
    }
}

// --- Stores to another block -------------------------------------------------------------------------------------

void store_cluster(unsigned address, const void *value, unsigned n_bytes, Location at) {
    Block &block = block_of(address, at);
    memcpy(shared_pointer(block, address, n_bytes, at), value, n_bytes);
    maybe_yield();
}

void store_async(unsigned address, const void *value, unsigned n_bytes, unsigned barrier_address, Location at) {
    Block &block = block_of(address, at);
    if (&block != &block_of(barrier_address, at)) {
        fail(at, "the barrier is not in the block that receives");
    }
    unsigned char *target = shared_pointer(block, address, n_bytes, at);
    check_not_copying(block, address, n_bytes, at, "a store");
    poison(block, offset_of(address), n_bytes);
    std::vector<unsigned char> bytes(static_cast<const unsigned char *>(value),
                                     static_cast<const unsigned char *>(value) + n_bytes);
    Event event;
    event.into = &block;
    event.name = "store";
    event.at = at;
    event.happen = [&block, target, bytes, barrier_address, at] {
        memcpy(target, bytes.data(), bytes.size());
        mbarrier_deliver(block, barrier_address, static_cast<int64_t>(bytes.size()), at);
    };
    machine.events.push_back(std::move(event));
    maybe_yield();
}

} // namespace emu
