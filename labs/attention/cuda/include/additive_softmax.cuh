// A softmax-weighted sum whose weights are relative to 0, or to any other reference that all parts agree on. sm_90.
//
// Parts of a sum over different keys then merge by plain addition. Whether 0 was good enough shows in the rows' sums,
// which travel on their own, ahead of the values: every part receives the sums of all parts and adds them in the same
// order, so all come to the same totals and the same decision.
#ifndef WS_ADDITIVE_SOFTMAX_CUH
#define WS_ADDITIVE_SOFTMAX_CUH

#include "ptx/barrier.cuh"
#include "ptx/math.cuh"

namespace ws {

constexpr int kWarpgroup = 128; // threads
constexpr int kRowPairs = kWarpgroup / 4;   // of a warpgroup: the 4 lanes of a quad share two rows

// --- Limits ------------------------------------------------------------------------------------------------------

// A thread's sum, or infinity if a weight in it may have been too large: no weight is larger than the sum it is in.
// 16-bit weights reach to 65504 in half precision; in bfloat16 they leave room for large values: sums of products are in
// single precision.
template <bool kBf16>
__device__ __forceinline__ float checked_sum(float sum) {
    return sum <= (kBf16 ? 0x1p30f : 65000.0f) ? sum : infinity();
}

// Whether a row that sees n_keys keys needs another reference. In half precision weights below 2^-14 are subnormal and
// off by up to 2^-25 each. With a mean weight of 2^-12 that is at most 2^-13 of the output's root mean square, a tenth
// of what the rounding of normal weights and of the output comes to. NaN is outside, too.
//
// The weight of a lone key is rounded, unless it is 1, and so is its output by as much. Among many rows that is
// nothing, but it is half of what is allowed where there are few: so very short sequences are always outside.
template <bool kBf16>
__device__ __forceinline__ bool outside_limits(float total, int n_keys, int s) {
    float smallest = kBf16 ? 0x1p-60f : n_keys * 0x1p-12f;
    return s < 8 || !(total >= smallest && total < infinity());
}

// --- Two rows of every quad, told to all parts -------------------------------------------------------------------

template <int kParts>
struct RowInbox {
    float2 of_part[kParts][kRowPairs];
};

// Sends the quad's two rows to every part, itself included: each lane to another one. Part p is warpgroup p / kCluster
// of block p % kCluster; `inboxes` and `full` have one for each warpgroup of a block, at the same place in all blocks.
template <int kCluster, int kParts>
__device__ __forceinline__ void tell_parts(float2 rows, RowInbox<kParts> *inboxes, Mbarrier *full, int part,
                                           int thread) {
#pragma unroll
    for (int first = 0; first < kParts; first += 4) {
        int to = first + thread % 4;
        if (to < kParts) {
            int warpgroup = to / kCluster;
            unsigned block = to % kCluster;
            st_async_v2(mapa(&inboxes[warpgroup].of_part[part][thread / 4], block), rows,
                        mapa(&full[warpgroup], block));
        }
    }
}

// --- Values, from thread to thread -------------------------------------------------------------------------------

template <int kCount>
struct ValuePacket {
    float4 value[kCount / 4][kWarpgroup];
};

template <int kCount, int kSenders>
struct ValueInbox {
    ValuePacket<kCount> from[kSenders];
};
template <int kCount>
struct ValueInbox<kCount, 0> {
    ValuePacket<kCount> *from; // never used
};

// Part i of the values becomes what part (i + by) % kParts was.
template <int kParts, int kCount>
__device__ __forceinline__ void rotate_parts(float (&values)[kCount], int by) {
#pragma unroll
    for (int bit = 1; bit < kParts; bit *= 2) {
        bool moved = (by & bit) != 0;
        float before[kCount];
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            before[i] = values[i];
        }
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            values[i] = moved ? before[(i + bit * (kCount / kParts)) % kCount] : before[i];
        }
    }
}

__device__ __forceinline__ float4 four_values(const float *values) {
    return make_float4(values[0], values[1], values[2], values[3]);
}

template <int kCount>
__device__ __forceinline__ void write_packet(ValuePacket<kCount> &packet, const float *values, int thread) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
        packet.value[i / 4][thread] = four_values(values + i);
    }
}

// To the same place in another block, where the bytes count at `full`.
template <int kCount>
__device__ __forceinline__ void send_packet(ValuePacket<kCount> &packet, const float *values, int thread, int block,
                                            Mbarrier *full) {
    unsigned their_full = mapa(full, block);
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
        st_async_v4(mapa(&packet.value[i / 4][thread], block), four_values(values + i), their_full);
    }
}

template <int kCount>
__device__ __forceinline__ void add_packet(float *values, const ValuePacket<kCount> &packet, int thread) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
        float4 value = packet.value[i / 4][thread];
        values[i] += value.x;
        values[i + 1] += value.y;
        values[i + 2] += value.z;
        values[i + 3] += value.w;
    }
}

} // namespace ws

#endif
