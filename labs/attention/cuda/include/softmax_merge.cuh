// Merges partial results of a softmax-weighted sum that warpgroups have over different keys of the same rows. sm_90.
//
// Every warpgroup has the rows' values in the same threads, so a thread only ever meets the same thread of the others.
// The values are cut into as many parts as there are warpgroups: each of them receives one part from all others, merges
// it, and goes on with that part alone. The work is shared, and no layout is converted.
#ifndef WS_SOFTMAX_MERGE_CUH
#define WS_SOFTMAX_MERGE_CUH

#include "ptx/barrier.cuh"
#include "ptx/math.cuh"

namespace ws {

constexpr int kWarpgroup = 128; // threads

// What a thread has: as many values of each of its rows, one row after the other, and for each row the power of two
// that its exponentials are relative to and their sum.
template <int kCount, int kRows>
struct Partial {
    float value[kCount];
    float2 reference_and_sum[kRows];
};

// A part of one row on its way to the warpgroup that merges it.
template <int kCount>
struct Packet {
    float4 value[kCount / 4][kWarpgroup];
    float2 reference_and_sum[kWarpgroup];
};

template <int kCount, int kSenders>
struct Inbox {
    Packet<kCount> packets[kSenders];
};
template <int kCount>
struct Inbox<kCount, 0> {
    Packet<kCount> *unused;
};

__device__ __forceinline__ int packet_of(int sender, int receiver) {
    return sender < receiver ? sender : sender - 1;
}

// Parts are numbered along the thread's values; none reaches over two rows.
template <int kCount, int kWhole, int kRows>
__device__ __forceinline__ Partial<kCount, 1> take_part(const Partial<kWhole, kRows> &whole, int part) {
    Partial<kCount, 1> result;
#pragma unroll
    for (int i = 0; i < kCount; i++) {
        result.value[i] = whole.value[part * kCount + i];
    }
    result.reference_and_sum[0] = whole.reference_and_sum[part * kCount / (kWhole / kRows)];
    return result;
}

template <int kCount>
__device__ __forceinline__ float4 four_values(const Partial<kCount, 1> &part, int i) {
    return make_float4(part.value[i], part.value[i + 1], part.value[i + 2], part.value[i + 3]);
}

// Brings what has come and this thread's own to a common reference and adds it up.
template <int kCount, int kSenders>
__device__ __forceinline__ void receive(Partial<kCount, 1> &mine, const Inbox<kCount, kSenders> &inbox, int thread) {
    float largest = mine.reference_and_sum[0].x;
#pragma unroll
    for (int sender = 0; sender < kSenders; sender++) {
        largest = fmaxf(largest, inbox.packets[sender].reference_and_sum[thread].x);
    }
    float factor = exp2_approx(mine.reference_and_sum[0].x - largest);
    float sum = mine.reference_and_sum[0].y * factor;
#pragma unroll
    for (int i = 0; i < kCount; i++) {
        mine.value[i] *= factor;
    }
#pragma unroll
    for (int sender = 0; sender < kSenders; sender++) {
        const Packet<kCount> &packet = inbox.packets[sender];
        factor = exp2_approx(packet.reference_and_sum[thread].x - largest);
        sum += factor * packet.reference_and_sum[thread].y;
#pragma unroll
        for (int i = 0; i < kCount; i += 4) {
            float4 value = packet.value[i / 4][thread];
            mine.value[i] += factor * value.x;
            mine.value[i + 1] += factor * value.y;
            mine.value[i + 2] += factor * value.z;
            mine.value[i + 3] += factor * value.w;
        }
    }
    mine.reference_and_sum[0] = make_float2(largest, sum);
}

// Among kSplit warpgroups of a block; `inboxes` has one for each of them, and every thread of theirs arrives once at
// `written`. (A block's own barrier in its place is as good, but racecheck takes it for none in these kernels.)
template <int kSplit, int kWhole, int kRows, int kCount, int kSenders>
__device__ __forceinline__ auto merge_in_block(const Partial<kWhole, kRows> &whole, Inbox<kCount, kSenders> *inboxes,
                                               int rank, int thread, Mbarrier *written) {
    static_assert(kCount * kSplit == kWhole && kSenders == kSplit - 1, "a part from each of the others");
    if constexpr (kSplit == 1) {
        return whole;
    } else {
        Partial<kCount, 1> mine;
#pragma unroll
        for (int other = 0; other < kSplit; other++) {
            Partial<kCount, 1> part = take_part<kCount>(whole, other);
            if (other == rank) {
                mine = part;
                continue;
            }
            Packet<kCount> &packet = inboxes[other].packets[packet_of(rank, other)];
#pragma unroll
            for (int i = 0; i < kCount; i += 4) {
                packet.value[i / 4][thread] = four_values(part, i);
            }
            packet.reference_and_sum[thread] = part.reference_and_sum[0];
        }
        mbarrier_arrive(written);
        mbarrier_wait(written, 0);
        receive(mine, inboxes[rank], thread);
        return mine;
    }
}

// Among a warpgroup of each of kSplit blocks of a cluster, from `first_block` on, with `inbox` and `full` at the same
// place in all of them. `full` was promised the inbox's bytes, and all blocks have started; none waits for the others
// to read, because a block's own inbox is the last thing that others write to.
template <int kSplit, int kWhole, int kRows, int kCount, int kSenders>
__device__ __forceinline__ auto merge_in_cluster(const Partial<kWhole, kRows> &whole, Inbox<kCount, kSenders> *inbox,
                                                 int rank, int thread, unsigned first_block, Mbarrier *full) {
    static_assert(kCount * kSplit == kWhole && kSenders == kSplit - 1, "a part from each of the others");
    if constexpr (kSplit == 1) {
        return whole;
    } else {
        Partial<kCount, 1> mine;
#pragma unroll
        for (int other = 0; other < kSplit; other++) {
            Partial<kCount, 1> part = take_part<kCount>(whole, other);
            if (other == rank) {
                mine = part;
                continue;
            }
            Packet<kCount> &packet = inbox->packets[packet_of(rank, other)];
            unsigned their_full = mapa(full, first_block + other);
#pragma unroll
            for (int i = 0; i < kCount; i += 4) {
                st_async_v4(mapa(&packet.value[i / 4][thread], first_block + other), four_values(part, i), their_full);
            }
            st_async_v2(mapa(&packet.reference_and_sum[thread], first_block + other), part.reference_and_sum[0],
                        their_full);
        }
        mbarrier_wait(full, 0);
        receive(mine, *inbox, thread);
        return mine;
    }
}

} // namespace ws

#endif
