// A multiprocessor of the sm_90 kind on the host: the blocks of one cluster, their threads as fibers, and what runs
// beside the threads (copies, matrix products), in an order that a seed chooses.
//
// Everything happens on one host thread. A fiber runs until it waits for something, or until a call gives up the turn;
// then the scheduler takes another warp, and now and then finishes something that is under way. A rule of the
// hardware that is broken ends the case with a message (fail).
#ifndef EMULATE_MACHINE_H
#define EMULATE_MACHINE_H

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <source_location>
#include <string>
#include <tuple>
#include <vector>

namespace emu {

typedef std::source_location Location;

struct Dim3 {
    unsigned x = 1, y = 1, z = 1;
};

// --- Poison ------------------------------------------------------------------------------------------------------

// Not a number in f16, bf16 and float.
constexpr uint16_t kPoison16 = 0x7FFF;
// Of accumulators that a product is using. A signalling NaN: any arithmetic on it changes its bits, which is seen.
constexpr uint32_t kBusyBits = 0x7FA0DEAD;

// --- Random numbers ----------------------------------------------------------------------------------------------

// SplitMix64 (Steele, Lea, Flood 2014).
struct Random {
    uint64_t state = 0;

    uint64_t next() {
        uint64_t z = (state += 0x9E3779B97F4A7C15ull);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    }
    uint32_t below(uint32_t n) { return static_cast<uint32_t>(next() >> 32) % n; }
    bool chance(double p) { return static_cast<double>(next() >> 11) * 0x1p-53 < p; }
};

// --- Threads -----------------------------------------------------------------------------------------------------

struct Block;
struct Warp;

// What a fiber waits for. Both functions look at variables on the waiting fiber's stack.
struct Waiting {
    void *object = nullptr;
    bool (*ready)(void *) = nullptr;
    std::string (*describe)(void *) = nullptr;
    Location at;
};

// A tile on its way from shared to global memory.
struct Store {
    Block *block = nullptr;
    unsigned first = 0, n_bytes = 0; // in shared memory
    int group = -1;                  // -1: not committed
    bool done = false;
    std::function<void()> happen;
};

// 16 bytes on their way to shared memory.
struct SmallCopy {
    Block *block = nullptr;
    unsigned char *to = nullptr;
    unsigned char bytes[16] = {};
    int group = -1;
    bool done = false;
};

struct Fiber {
    void *stack_pointer = nullptr;
    char *stack = nullptr;
    Dim3 thread_index;
    int lane = 0;
    Warp *warp = nullptr;
    bool done = false;
    Waiting waiting; // without `ready`: it can run
    std::deque<std::shared_ptr<Store>> stores; // not waited for
    int n_store_groups = 0;
    std::deque<std::shared_ptr<SmallCopy>> copies; // likewise
    int n_copy_groups = 0;
    uint64_t cluster_generation = 0; // of the barrier that it has arrived at
};

// --- Matrix products ---------------------------------------------------------------------------------------------

typedef uint64_t Descriptor;

struct Product {
    int n;
    bool bf16, n_major, a_in_registers, accumulate;
    Descriptor a, b;
    float *d[32];
    const unsigned *a_registers[32];
    unsigned a_words[32][4]; // as they were at the start
    bool executed = false;
    int group = -1; // -1: not committed
    Location at;
};

// What the warps of a warpgroup must agree in: n, N-major, a in registers, accumulate, and both descriptors.
typedef std::tuple<int, bool, bool, bool, Descriptor, Descriptor> Issued;

// The registers of an accumulator while products use them: the values are here, and the registers are poisoned.
struct Accumulator {
    float *d[32];
    int n_registers;
    int n_products;
    float values[32][128];
};

// --- Warps and blocks --------------------------------------------------------------------------------------------

struct Warp {
    Block *block = nullptr;
    int index = 0; // in the block
    std::vector<Fiber> fibers;
    uint64_t starved_until = 0;

    // Operations of all lanes together. A lane may be one ahead of another, so what they pass lies in two places.
    uint64_t generation = 0;
    int n_arrived = 0;
    const char *operation = nullptr;
    uint64_t passed[2][32];
    bool lane_arrived[32] = {};

    std::deque<Product> products; // issued and not waited for, in order
    std::map<float *, Accumulator> accumulators;
    int n_groups = 0; // committed
    bool fenced = false;
    size_t n_issued = 0;
};

struct Mbarrier {
    unsigned expected = 0; // arrivals of a phase
    unsigned pending = 0;  // of this one
    int64_t bytes = 0;     // promised and not delivered
    unsigned phase = 0;
};

struct NamedBarrier {
    int n_threads = 0; // what the first of a generation said
    int n_arrived = 0;
    uint64_t generation = 0;
};

struct Block {
    unsigned rank = 0; // in the cluster
    Dim3 index;
    std::vector<std::unique_ptr<Warp>> warps;
    int n_live = 0;

    // Shared memory, and what is known of each 16 bytes of it.
    unsigned char *shared = nullptr;
    unsigned shared_bytes = 0;
    std::vector<uint16_t> copying;  // copies on their way to it
    std::vector<uint16_t> readers;  // products and stores that may still read it
    std::vector<uint8_t> barriers_at;
    std::map<unsigned, Mbarrier> mbarriers; // by address
    NamedBarrier named[16];
    // What each warpgroup's products are, to compare its warps: they must all issue the same.
    std::vector<std::vector<Issued>> issued;
};

// The address of the first byte of dynamic shared memory; below it the hardware keeps something for itself.
constexpr unsigned kSharedBase = 1024;
constexpr unsigned kRankShift = 24; // addresses of another block of the cluster, as mapa makes them

// --- The machine -------------------------------------------------------------------------------------------------

// Something that happens later: a copy arrives, a store reads its source.
struct Event {
    std::function<void()> happen;
    Block *into = nullptr;        // the block that must not end before
    std::shared_ptr<Store> store; // if it is one
    const char *name = "";
    Location at;
};

// How a seed treats the threads and what runs beside them.
struct Policy {
    double event_rate;    // that something under way is finished in a step
    double product_rate;  // that a product is executed in a step; else they wait until they must
    double yield_rate;    // that a call gives up the turn
    double starve_rate;   // that a warp, or all of a warpgroup, is left out for long
    bool products_at_once;
    int elected_lane;
};

struct Launch {
    Dim3 grid, cluster;
    unsigned n_threads = 0;
    unsigned shared_bytes = 0;
    bool independent_lanes = false; // of a warp, where it polls
};

struct Machine {
    Launch launch;
    std::function<void()> kernel;
    Random random;
    Policy policy;
    std::vector<std::unique_ptr<Block>> blocks; // of the cluster
    std::vector<Warp *> warps;                  // all of them
    std::vector<Event> events;
    uint64_t step = 0;
    int n_live = 0; // threads
    NamedBarrier cluster_barrier;
};

extern Machine machine;
extern Fiber *self; // the one that runs

// Runs all blocks of a launch under a seed. Returns what went wrong, or nothing.
std::string run_launch(const Launch &launch, const std::function<void()> &kernel, uint64_t seed);

// Ends the case. Does not return.
[[noreturn]] void fail(Location at, const std::string &what);

// Gives up the turn.
void yield();
// The same, or not.
void maybe_yield();

void wait_for(const Waiting &waiting);

// Runs others until `ready()`. `describe()` says what for.
template <typename Ready, typename Describe>
void block_until(Location at, Ready ready, Describe describe) {
    struct Both {
        Ready ready;
        Describe describe;
    } both = {ready, describe};
    Waiting waiting;
    waiting.object = &both;
    waiting.ready = [](void *object) -> bool { return static_cast<Both *>(object)->ready(); };
    waiting.describe = [](void *object) -> std::string { return static_cast<Both *>(object)->describe(); };
    waiting.at = at;
    wait_for(waiting);
}

// Waits for all lanes of the warp in the same operation; the last one runs `action`. Returns what the lanes passed.
const uint64_t *collective(const char *operation, Location at, uint64_t passed,
                           const std::function<void(Warp &, uint64_t *)> &action);
const uint64_t *collective(const char *operation, Location at, uint64_t passed);

std::string text(const char *format, ...) __attribute__((format(printf, 1, 2)));

// --- Shared memory -----------------------------------------------------------------------------------------------

inline Block &this_block() {
    return *self->warp->block;
}

unsigned shared_address(const void *pointer, Location at);
// Where an address that mapa may have made points to.
Block &block_of(unsigned address, Location at);
unsigned char *shared_pointer(Block &block, unsigned address, unsigned n_bytes, Location at);
// An access that must not meet a copy under way.
void check_not_copying(Block &block, unsigned address, unsigned n_bytes, Location at, const char *who);

inline unsigned swizzle_128(unsigned address) {
    return address ^ (address >> 7 & 7) << 4;
}

// --- Barriers ----------------------------------------------------------------------------------------------------

void mbarrier_init(unsigned address, unsigned n_arrivals, Location at);
void mbarrier_arrive(unsigned address, Location at);
void mbarrier_expect(unsigned address, int64_t bytes, Location at);
void mbarrier_deliver(Block &block, unsigned address, int64_t bytes, Location at);
bool mbarrier_try_wait(unsigned address, unsigned parity, Location at);
void mbarrier_wait(unsigned address, unsigned parity, Location at);
void named_barrier(int id, int n_threads, bool wait, Location at);
void cluster_arrive(Location at);
void cluster_wait(Location at);
void cluster_thread_ended();
// What must not be left when a block ends.
void check_block_end(Block &block);

// --- Copies ------------------------------------------------------------------------------------------------------

// In the place of what cuTensorMapEncodeTiled fills in. Sizes are innermost first.
struct alignas(64) TensorMap {
    unsigned char *base;
    int rank;
    int element_bytes;
    int swizzle;
    int box[5];
    int64_t shape[5];
    char unused[128 - 8 - 12 - 20 - 40];
};
static_assert(sizeof(TensorMap) == 128, "as on the device");

// `blocks`: a bit for each block of the cluster that receives it; 0 for this one.
void copy_tile(void *destination, const TensorMap &map, const void *barrier, unsigned blocks, const int *coordinates,
               int rank, Location at);
void store_tile(const TensorMap &map, const void *source, const int *coordinates, int rank, Location at);
void store_commit();
void store_wait(int n_pending);
void copy_16(unsigned address, const void *source, int n_bytes, Location at);
void copy_16_commit();
void copy_16_wait(int n_pending);
// Stores to another block that count at a barrier there.
void store_async(unsigned address, const void *value, unsigned n_bytes, unsigned barrier_address, Location at);
void store_cluster(unsigned address, const void *value, unsigned n_bytes, Location at);

// --- Products ----------------------------------------------------------------------------------------------------

void product_fence(Location at);
void product_commit(Location at);
void product_wait(int n_pending, Location at);
void start_product(int n, bool bf16, bool n_major, float *d, const unsigned *a_registers, Descriptor a, Descriptor b,
                   bool accumulate, Location at);
// Executes the oldest that is not. Returns whether there was one.
bool execute_product(Warp &warp);

// --- 16-bit floats -----------------------------------------------------------------------------------------------

uint16_t half_from_float(float x);
float float_from_half(uint16_t bits);
uint16_t bf16_from_float(float x);
float float_from_bf16(uint16_t bits);

} // namespace emu

#endif
