#!/bin/sh
# Measures on a GPU: every rung of every CUDA lab beside the libraries that are there, interleaved; a campaign of
# 200 candidates; the same winner five times. `cargo xtask adopt RESULTS` makes tables of what it writes.
#
#   tests/gpu/measure.sh WARPSMITH RESULTS [STEP...]
#
# Steps: saxpy, rmsnorm, gemm, attention, attention-large, campaign, repeat; all when none is named. Run it from
# the project's root.
set -u
warpsmith=$1
results=$2
shift 2
steps=${*:-saxpy rmsnorm gemm attention attention-large campaign repeat}
mkdir -p "$results"
failed=""
peers="sdpa_flash sdpa_cudnn sdpa_efficient fa3 triton_swept"

# step NAME COMMAND...: runs it, keeps its JSON and the seconds that it took.
step() {
    name=$1
    shift
    started=$(date +%s)
    if ! "$warpsmith" "$@" --target cuda --evidence "$results/evidence" --json \
        >"$results/$name.json" 2>"$results/$name.log"; then
        failed="$failed $name"
        tail -n 12 "$results/$name.log"
    fi
    echo "$name $(($(date +%s) - started)) s"
}

for it in $steps; do
    case $it in
    saxpy) step saxpy-cuda compare labs/saxpy 10_vector 00_naive --time 0.5 ;;
    rmsnorm) step rmsnorm-cuda compare labs/rmsnorm 20_vector 10_warp 00_naive --time 0.5 ;;
    gemm)
        step gemm-cuda compare labs/gemm 30_wgmma 20_mma_pipelined 10_tiled cublaslt cublas cutlass --time 1
        ;;
    attention)
        # shellcheck disable=SC2086 # the peers are words
        step attention-cuda compare labs/attention 60_small \
            60_small:TILES=2,SPLIT=2,CLUSTER=1,SLOTS=2 65_mixed 50_wgmma 40_mma_pipelined 30_wmma 20_warp 10_tiled \
            00_naive $peers --time 0.5 --workload b1h8s512d64_bf16 --workload b1h8s512d64_causal_bf16 \
            --workload b4h8s512d64_bf16 --workload b4h8s512d64_causal_bf16
        ;;
    attention-large)
        # shellcheck disable=SC2086
        step attention-large-cuda compare labs/attention 70_pingpong 50_wgmma 40_mma_pipelined $peers --time 0.5 \
            --workload b4h32s4096d64_bf16 --workload b4h32s4096d64_causal_bf16 \
            --workload b2h16s8192d128_bf16 --workload b2h16s8192d128_causal_bf16
        ;;
    campaign)
        step campaign tune labs/attention --kernel 50_wgmma --workload b1h8s512d64_bf16 --strategy random \
            --seed-from none --budget 200 --time 300 --seed 7 --no-sanitizer
        grep 'trials, best' "$results/campaign.log"
        ;;
    repeat)
        for run in 1 2 3 4 5; do
            step "repeat-$run" compare labs/gemm 30_wgmma 30_wgmma: --workload m4096n4096k4096 --time 1
        done
        ;;
    *)
        echo "unknown step $it"
        exit 2
        ;;
    esac
done

if [ -n "$failed" ]; then
    echo "failed:$failed"
    exit 1
fi
