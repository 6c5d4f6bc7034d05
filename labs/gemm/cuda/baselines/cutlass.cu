// A matrix product from CUTLASS's templates for Hopper: the copy engine feeds warpgroups that multiply (TMA, wgmma).
//
// D = A B, sums in single precision. A is M,K and D is M,N, both row-major; B is K,N row-major as in the lab, or N,K
// row-major (QKᵀ) with B_IS_TRANSPOSED. One configuration a library: `cutlass.py` compiles this file once for each,
// side by side, and times them.

#include <cstdint>

#include <cuda_runtime.h>

#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>

#if !defined(TILE_M) || !defined(TILE_N) || !defined(CLUSTER_M) || !defined(CLUSTER_N) || !defined(IS_COOPERATIVE)
#error "say the configuration: -DTILE_M -DTILE_N -DCLUSTER_M -DCLUSTER_N -DIS_COOPERATIVE; see CONFIGURATIONS in cutlass.py"
#endif
#ifndef B_IS_TRANSPOSED
#define B_IS_TRANSPOSED 0
#endif
#ifndef IS_BF16
#define IS_BF16 0
#endif

namespace {

using Element = cute::conditional_t<IS_BF16, cutlass::bfloat16_t, cutlass::half_t>;
using Sum = float;

using LayoutA = cutlass::layout::RowMajor;
using LayoutB = cute::conditional_t<B_IS_TRANSPOSED, cutlass::layout::ColumnMajor, cutlass::layout::RowMajor>;
using LayoutD = cutlass::layout::RowMajor;

// The copy engine moves rows that are multiples of 16 bytes.
constexpr int kAlignment = 16 / sizeof(Element);

using Tile = cute::Shape<cute::Int<TILE_M>, cute::Int<TILE_N>, cute::_64>;
using Cluster = cute::Shape<cute::Int<CLUSTER_M>, cute::Int<CLUSTER_N>, cute::_1>;

// Cooperative: two warpgroups share a tile. Ping-pong: each has its own, and one stores while the other multiplies.
using MainSchedule = cute::conditional_t<IS_COOPERATIVE,
                                         cutlass::gemm::KernelTmaWarpSpecializedCooperative,
                                         cutlass::gemm::KernelTmaWarpSpecializedPingpong>;
using StoreSchedule = cute::conditional_t<IS_COOPERATIVE,
                                          cutlass::epilogue::TmaWarpSpecializedCooperative,
                                          cutlass::epilogue::TmaWarpSpecialized>;

// Nothing is read from D, hence `void`.
using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster, cutlass::epilogue::collective::EpilogueTileAuto,
    Sum, Sum, void, LayoutD, kAlignment, Element, LayoutD, kAlignment, StoreSchedule>::CollectiveOp;

using StoreBytes = cutlass::gemm::collective::StageCountAutoCarveout<sizeof(typename Epilogue::SharedStorage)>;

using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, LayoutA, kAlignment, Element, LayoutB, kAlignment, Sum,
    Tile, Cluster, StoreBytes, MainSchedule>::CollectiveOp;

using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

typename Gemm::Arguments arguments_for(const void *a, const void *b, void *d, int m, int n, int k, int sms) {
    auto stride_a = cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, cute::make_shape(m, k, 1));
    auto stride_b = cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, cute::make_shape(n, k, 1));
    auto stride_d = cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, cute::make_shape(m, n, 1));
    typename Gemm::Arguments arguments{};
    arguments.mode = cutlass::gemm::GemmUniversalMode::kGemm;
    arguments.problem_shape = {m, n, k, 1};
    arguments.mainloop.ptr_A = static_cast<const Element *>(a);
    arguments.mainloop.dA = stride_a;
    arguments.mainloop.ptr_B = static_cast<const Element *>(b);
    arguments.mainloop.dB = stride_b;
    arguments.epilogue.thread.alpha = Sum(1);
    arguments.epilogue.thread.beta = Sum(0);
    arguments.epilogue.ptr_D = static_cast<Element *>(d);
    arguments.epilogue.dD = stride_d;
    arguments.hw_info.device_id = 0;
    arguments.hw_info.sm_count = sms;
    return arguments;
}

}  // namespace

// Returns the bytes that `cutlass_gemm` needs beside the tensors.
extern "C" std::size_t cutlass_workspace_bytes(int m, int n, int k, int sms) {
    return Gemm::get_workspace_size(arguments_for(nullptr, nullptr, nullptr, m, n, k, sms));
}

// Puts one product into the stream. Returns 0, or CUTLASS's status, or 1000 and CUDA's error code.
extern "C" int cutlass_gemm(const void *a, const void *b, void *d, int m, int n, int k, int sms, void *workspace,
                            void *stream) {
    auto arguments = arguments_for(a, b, d, m, n, k, sms);
    cutlass::Status status = Gemm::can_implement(arguments);
    if (status != cutlass::Status::kSuccess) {
        return static_cast<int>(status);
    }
    Gemm gemm;
    auto cuda_stream = static_cast<cudaStream_t>(stream);
    status = gemm.initialize(arguments, workspace, cuda_stream);
    if (status == cutlass::Status::kSuccess) {
        status = gemm.run(cuda_stream);
    }
    if (status != cutlass::Status::kSuccess) {
        cudaError_t error = cudaGetLastError();
        return error == cudaSuccess ? static_cast<int>(status) : 1000 + static_cast<int>(error);
    }
    return 0;
}
