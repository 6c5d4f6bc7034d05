// Fibers, and who runs next.
#include <sys/mman.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "machine.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emu {

Machine machine;
Fiber *self = nullptr;

static void *scheduler_stack_pointer;
static std::string failure;
constexpr size_t kStackBytes = 64 << 10;

// --- Switching ---------------------------------------------------------------------------------------------------

#if defined(__x86_64__)

// Keeps what a function must leave as it was, and goes on with the other stack.
extern "C" void emulate_switch(void **from, void *to);
asm(".text\n"
    ".globl emulate_switch\n"
    "emulate_switch:\n"
    "    pushq %rbp\n"
    "    pushq %rbx\n"
    "    pushq %r12\n"
    "    pushq %r13\n"
    "    pushq %r14\n"
    "    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n"
    "    popq %r14\n"
    "    popq %r13\n"
    "    popq %r12\n"
    "    popq %rbx\n"
    "    popq %rbp\n"
    "    ret\n");

static void prepare(Fiber &fiber, void (*entry)()) {
    // Six registers, the entry, and a return address that nobody uses, so that the stack is aligned as after a call.
    void **top = reinterpret_cast<void **>(fiber.stack + kStackBytes) - 10;
    std::fill(top, top + 10, nullptr);
    top[6] = reinterpret_cast<void *>(entry);
    fiber.stack_pointer = top;
}

static void enter(Fiber &fiber) {
    emulate_switch(&scheduler_stack_pointer, fiber.stack_pointer);
}

static void leave(Fiber &fiber) {
    emulate_switch(&fiber.stack_pointer, scheduler_stack_pointer);
}

#else

static ucontext_t scheduler_context;

static void prepare(Fiber &fiber, void (*entry)()) {
    auto *context = reinterpret_cast<ucontext_t *>(fiber.stack);
    getcontext(context);
    context->uc_stack.ss_sp = fiber.stack + sizeof(ucontext_t) + 64;
    context->uc_stack.ss_size = kStackBytes - sizeof(ucontext_t) - 64;
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
    fiber.stack_pointer = context;
}

static void enter(Fiber &fiber) {
    swapcontext(&scheduler_context, static_cast<ucontext_t *>(fiber.stack_pointer));
}

static void leave(Fiber &fiber) {
    swapcontext(static_cast<ucontext_t *>(fiber.stack_pointer), &scheduler_context);
}

#endif

static void fiber_main() {
    machine.kernel();
    Fiber &fiber = *self;
    fiber.done = true;
    fiber.warp->block->n_live--;
    machine.n_live--;
    cluster_thread_ended();
    if (fiber.warp->block->n_live == 0) {
        check_block_end(*fiber.warp->block);
    }
    leave(fiber);
    abort(); // nobody enters it again
}

// --- Called by fibers --------------------------------------------------------------------------------------------

std::string text(const char *format, ...) {
    char buffer[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(buffer, sizeof buffer, format, arguments);
    va_end(arguments);
    return buffer;
}

static std::string place_of(Location at) {
    const char *name = strrchr(at.file_name(), '/');
    return text("%s:%u", name ? name + 1 : at.file_name(), at.line());
}

static std::string who(const Fiber &fiber) {
    const Dim3 &block = fiber.warp->block->index;
    return text("block (%u, %u, %u) warp %d lane %d", block.x, block.y, block.z, fiber.warp->index, fiber.lane);
}

[[noreturn]] void fail(Location at, const std::string &what) {
    std::string by = self ? who(*self) : std::string("the machine");
    auto step = static_cast<unsigned long long>(machine.step);
    failure = place_of(at) + ": " + what + " [" + by + text(", step %llu]", step);
    if (self) {
        leave(*self);
    }
    throw failure;
}

void yield() {
    leave(*self);
}

void maybe_yield() {
    if (machine.random.chance(machine.policy.yield_rate)) {
        yield();
    }
}

void wait_for(const Waiting &waiting) {
    // Looked at by the scheduler when the warp is next, as a loop that polls would.
    self->waiting = waiting;
    yield();
}

const uint64_t *collective(const char *operation, Location at, uint64_t passed,
                           const std::function<void(Warp &, uint64_t *)> &action) {
    Warp &warp = *self->warp;
    uint64_t generation = warp.generation;
    uint64_t *values = warp.passed[generation % 2];
    if (warp.n_arrived > 0 && strcmp(warp.operation, operation) != 0) {
        fail(at, text("this lane is in %s while others of its warp are in %s", operation, warp.operation));
    }
    warp.operation = operation;
    warp.lane_arrived[self->lane] = true;
    values[self->lane] = passed;
    warp.n_arrived++;
    if (warp.n_arrived == static_cast<int>(warp.fibers.size())) {
        if (action) {
            action(warp, values);
        }
        warp.n_arrived = 0;
        memset(warp.lane_arrived, 0, sizeof warp.lane_arrived);
        warp.generation++;
    }
    // The last one waits as well: all go on together.
    block_until(
        at, [&warp, generation] { return warp.generation != generation; },
        [operation, &warp] { return text("the other lanes in %s (%d have come)", operation, warp.n_arrived); });
    return values;
}

const uint64_t *collective(const char *operation, Location at, uint64_t passed) {
    return collective(operation, at, passed, nullptr);
}

// --- The loop ----------------------------------------------------------------------------------------------------

static void run_fiber(Fiber &fiber) {
    fiber.waiting.ready = nullptr;
    self = &fiber;
    enter(fiber);
    self = nullptr;
    if (!failure.empty()) {
        throw failure;
    }
}

// Runs those lanes of a warp that can run, each until it waits. Returns whether there was one.
//
// Lanes that wait for the same thing find out together, when all lanes of the warp wait: a warp executes an instruction
// that polls for all lanes that have come to it. With independent lanes each finds out by itself, as the programming
// model would allow.
static bool run_warp(Warp &warp, bool all_lanes) {
    size_t n_lanes = warp.fibers.size();
    size_t first = machine.random.below(static_cast<uint32_t>(n_lanes));
    auto run_those = [&](auto chosen) {
        bool any = false;
        for (size_t i = 0; i < n_lanes; i++) {
            Fiber &fiber = warp.fibers[(first + i) % n_lanes];
            if (!fiber.done && chosen(fiber)) {
                any = true;
                run_fiber(fiber);
            }
        }
        return any;
    };
    if (machine.launch.independent_lanes) {
        return run_those([all_lanes](Fiber &fiber) {
            bool asked = all_lanes || machine.random.chance(0.7);
            return !fiber.waiting.ready || (asked && fiber.waiting.ready(fiber.waiting.object));
        });
    }
    if (run_those([](Fiber &fiber) { return !fiber.waiting.ready; })) {
        return true;
    }
    uint32_t found = 0;
    for (Fiber &fiber : warp.fibers) {
        bool ready = !fiber.done && fiber.waiting.ready(fiber.waiting.object);
        found |= static_cast<uint32_t>(ready) << fiber.lane;
    }
    return found != 0 && run_those([found](Fiber &fiber) { return (found >> fiber.lane & 1) != 0; });
}

static void happen(size_t at) {
    std::swap(machine.events[at], machine.events.back());
    Event event = std::move(machine.events.back());
    machine.events.pop_back();
    event.happen();
}

static std::string deadlock() {
    std::vector<std::string> reasons; // in the order of the warps
    std::map<std::string, std::string> waiters;
    for (Warp *warp : machine.warps) {
        std::map<std::string, std::vector<int>> lanes;
        for (Fiber &fiber : warp->fibers) {
            if (!fiber.done) {
                std::string reason =
                    place_of(fiber.waiting.at) + ", for " + fiber.waiting.describe(fiber.waiting.object);
                lanes[reason].push_back(fiber.lane);
            }
        }
        for (auto &[reason, found] : lanes) {
            std::string &who = waiters[reason];
            if (who.empty()) {
                reasons.push_back(reason);
            }
            who += text(" %u.%d", warp->block->rank, warp->index);
            if (found.size() < warp->fibers.size()) {
                who += text(found.size() > 1 ? " (lanes %d, ...)" : " (lane %d)", found[0]);
            }
        }
    }
    const Dim3 &first = machine.blocks[0]->index;
    std::string report = text("no thread can run and nothing is under way; in the cluster of block (%u, %u, %u) "
                              "these wait, as block.warp:",
                              first.x, first.y, first.z);
    for (const std::string &reason : reasons) {
        report += "\n      " + waiters[reason].substr(1) + " at " + reason;
    }
    return report;
}

// Leaves a warp, or a warpgroup, out for a while.
static void starve() {
    Random &random = machine.random;
    Warp *victim = machine.warps[random.below(static_cast<uint32_t>(machine.warps.size()))];
    uint64_t until = machine.step + 20 + random.below(1000);
    bool whole = random.chance(0.5);
    for (auto &warp : victim->block->warps) {
        if (warp.get() == victim || (whole && warp->index / 4 == victim->index / 4)) {
            warp->starved_until = until;
        }
    }
}

static void run_beside() {
    const Policy &policy = machine.policy;
    Random &random = machine.random;
    if (!machine.events.empty() && random.chance(policy.event_rate)) {
        happen(random.below(static_cast<uint32_t>(machine.events.size())));
    }
    if (random.chance(policy.product_rate)) {
        execute_product(*machine.warps[random.below(static_cast<uint32_t>(machine.warps.size()))]);
    }
    if (random.chance(policy.starve_rate)) {
        starve();
    }
}

static bool run_some_warp(bool even_starved, bool all_lanes = false) {
    uint32_t n_warps = static_cast<uint32_t>(machine.warps.size());
    uint32_t first = machine.random.below(n_warps);
    for (uint32_t i = 0; i < n_warps; i++) {
        Warp &warp = *machine.warps[(first + i) % n_warps];
        if ((even_starved || warp.starved_until <= machine.step) && run_warp(warp, all_lanes)) {
            return true;
        }
    }
    return false;
}

static void run_cluster() {
    // Far above what any case takes: a loop that polls and never ends.
    constexpr uint64_t kMostSteps = 50'000'000;
    machine.step = 0;
    while (machine.n_live > 0) {
        if (++machine.step > kMostSteps) {
            throw std::string("the threads run on and on");
        }
        run_beside();
        if (run_some_warp(false)) {
            continue;
        }
        bool starved_first = machine.random.chance(0.3);
        if (starved_first && run_some_warp(true)) {
            continue;
        }
        if (!machine.events.empty()) {
            happen(machine.random.below(static_cast<uint32_t>(machine.events.size())));
        } else if (!run_some_warp(true, true)) {
            throw deadlock();
        }
    }
    // Stores may still be under way.
    while (!machine.events.empty()) {
        happen(machine.events.size() - 1);
    }
}

static Policy choose_policy(Random &random) {
    // Rates from one extreme to the other: a copy that is there at once, one that comes when all wait for it.
    constexpr double kRates[] = {0.0, 0.003, 0.03, 0.3, 1.0};
    constexpr double kYields[] = {0.02, 0.2, 0.7};
    constexpr double kStarves[] = {0.0, 0.002, 0.02};
    Policy policy;
    policy.event_rate = kRates[random.below(5)];
    policy.product_rate = kRates[random.below(5)];
    policy.products_at_once = random.chance(0.25);
    policy.yield_rate = kYields[random.below(3)];
    policy.starve_rate = kStarves[random.below(3)];
    policy.elected_lane = static_cast<int>(random.below(32));
    return policy;
}

// --- Setting up --------------------------------------------------------------------------------------------------

static char *stack_of(size_t index) {
    static std::vector<char *> stacks;
    while (stacks.size() <= index) {
        void *memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            fprintf(stderr, "no memory for stacks\n");
            exit(3);
        }
        stacks.push_back(static_cast<char *>(memory));
    }
    return stacks[index];
}

constexpr unsigned kGuardBytes = 4096;

static void make_block(unsigned rank, Dim3 index) {
    const Launch &launch = machine.launch;
    auto block = std::make_unique<Block>();
    block->rank = rank;
    block->index = index;
    block->shared_bytes = launch.shared_bytes;
    unsigned n_bytes = (launch.shared_bytes + kGuardBytes + 1023) / 1024 * 1024;
    block->shared = static_cast<unsigned char *>(aligned_alloc(1024, n_bytes));
    for (unsigned i = 0; i + 1 < launch.shared_bytes + kGuardBytes; i += 2) {
        memcpy(block->shared + i, &kPoison16, 2);
    }
    size_t granules = launch.shared_bytes / 16 + 1;
    block->copying.resize(granules);
    block->readers.resize(granules);
    block->barriers_at.resize(granules);
    block->issued.resize(launch.n_threads / 128 + 1);
    block->n_live = static_cast<int>(launch.n_threads);
    for (unsigned first = 0; first < launch.n_threads; first += 32) {
        auto warp = std::make_unique<Warp>();
        warp->block = block.get();
        warp->index = static_cast<int>(first / 32);
        warp->fibers.resize(std::min(32u, launch.n_threads - first));
        for (size_t lane = 0; lane < warp->fibers.size(); lane++) {
            Fiber &fiber = warp->fibers[lane];
            fiber.stack = stack_of(rank * launch.n_threads + first + lane);
            fiber.thread_index = {first + static_cast<unsigned>(lane), 0, 0};
            fiber.lane = static_cast<int>(lane);
            fiber.warp = warp.get();
            prepare(fiber, fiber_main);
        }
        machine.warps.push_back(warp.get());
        block->warps.push_back(std::move(warp));
    }
    machine.n_live += static_cast<int>(launch.n_threads);
    machine.blocks.push_back(std::move(block));
}

static void clear() {
    for (auto &block : machine.blocks) {
        free(block->shared);
    }
    machine.blocks.clear();
    machine.warps.clear();
    machine.events.clear();
    machine.n_live = 0;
    machine.cluster_barrier = {};
    self = nullptr;
    failure.clear();
}

static void check_guards() {
    for (auto &block : machine.blocks) {
        for (unsigned i = 0; i + 1 < kGuardBytes; i += 2) {
            if (memcmp(block->shared + block->shared_bytes + i, &kPoison16, 2) != 0) {
                throw text("something was written %u bytes behind the end of shared memory", i);
            }
        }
    }
}

std::string run_launch(const Launch &launch, const std::function<void()> &kernel, uint64_t seed) {
    machine.launch = launch;
    machine.kernel = kernel;
    machine.random.state = seed * 0x9E3779B97F4A7C15ull + 1;
    machine.policy = choose_policy(machine.random);

    // Clusters come in any order; that they run at the same time is not emulated.
    std::vector<Dim3> firsts;
    for (unsigned z = 0; z < launch.grid.z; z += launch.cluster.z) {
        for (unsigned y = 0; y < launch.grid.y; y += launch.cluster.y) {
            for (unsigned x = 0; x < launch.grid.x; x += launch.cluster.x) {
                firsts.push_back({x, y, z});
            }
        }
    }
    for (size_t i = firsts.size(); i > 1; i--) {
        std::swap(firsts[i - 1], firsts[machine.random.below(static_cast<uint32_t>(i))]);
    }
    for (Dim3 first : firsts) {
        try {
            unsigned rank = 0;
            for (unsigned z = 0; z < launch.cluster.z; z++) {
                for (unsigned y = 0; y < launch.cluster.y; y++) {
                    for (unsigned x = 0; x < launch.cluster.x; x++) {
                        make_block(rank++, {first.x + x, first.y + y, first.z + z});
                    }
                }
            }
            run_cluster();
            check_guards();
        } catch (const std::string &message) {
            std::string copy = message;
            clear();
            return copy;
        }
        clear();
    }
    return "";
}

} // namespace emu
