// When a block's warpgroups reach which step: for tests/gpu/stamps.py, which defines STAMPS as the number of blocks.
// Nothing else defines it, and then there is nothing here.
#ifndef WS_STAMPS_CUH
#define WS_STAMPS_CUH

namespace ws {

enum Stamp {
    kEntered,
    kAsked,       // for all loads that are asked for at once
    kReady,       // the block has met, registers are dealt out
    kQueriesCame, // of two slabs the second
    kKeysCame,    // the first, likewise
    kScored,      // the first chunk
    kOutputDone,
    kMet,         // the tile's other warpgroups
    kStored,
    kLeft,
    kWeighed,     // the first chunk, the second, and so on
    kStamps = 48,
};

#ifdef STAMPS
__device__ unsigned stamps[STAMPS][8][kStamps];             // cycles
__device__ unsigned long long stamp_times[STAMPS][8][2]; // ns, of kEntered and kLeft

__device__ __forceinline__ void stamp(int step) {
    int warpgroup = threadIdx.x / 128;
    if (threadIdx.x % 128 == 0 && blockIdx.x < STAMPS && step < kStamps) {
        unsigned cycles;
        asm volatile("mov.u32 %0, %%clock;" : "=r"(cycles)::"memory");
        stamps[blockIdx.x][warpgroup][step] = cycles;
        if (step == kEntered || step == kLeft) {
            unsigned long long ns;
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
            stamp_times[blockIdx.x][warpgroup][step == kLeft] = ns;
        }
    }
}
#define WS_STAMP(step) ws::stamp(step)
#else
#define WS_STAMP(step)
#endif

} // namespace ws

#endif
