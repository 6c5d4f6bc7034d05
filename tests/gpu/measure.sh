#!/bin/sh
# Measures on a GPU: every rung of every CUDA lab beside the libraries that are there, interleaved; a campaign of
# 200 candidates; the same winner five times. `cargo xtask adopt RESULTS` makes tables of what it writes.
#
#   tests/gpu/measure.sh WARPSMITH RESULTS [STEP...]
#
# Steps: saxpy, rmsnorm, gemm; attention and attention-large (the rungs), attention-small, attention-large-d64,
# attention-large-d128 (the front beside its peers), attention-profile (counters of rungs before and after); campaign,
# repeat; all when none is named. Run it from the project's root. LIMIT, in the environment, says how many seconds a
# step may take at most.
set -u
warpsmith=$1
results=$2
shift 2
all="saxpy rmsnorm gemm attention attention-large attention-small attention-large-d64"
all="$all attention-large-d128 attention-profile campaign repeat"
steps=${*:-$all}
mkdir -p "$results"
failed=""
peers="sdpa_flash sdpa_cudnn sdpa_efficient fa3 triton_swept"

# A step that hangs must not take along what others measured.
limit=${LIMIT:-540}
# What a search on a GPU must reach.
least_trials_per_s=12

# step NAME COMMAND...: runs it, keeps its JSON and the seconds that it took.
step() {
    name=$1
    shift
    started=$(date +%s)
    if ! timeout -k 5 "$limit" "$warpsmith" "$@" --target cuda --evidence "$results/evidence" --json \
        >"$results/$name.json" 2>"$results/$name.log"; then
        failed="$failed $name"
        tail -n 12 "$results/$name.log"
    fi
    echo "$name $(($(date +%s) - started)) s"
}

# masks TYPE SHAPE...: the workloads of shapes, without and with a causal mask. The large ones are sixteen thousand tokens,
# cut into sequences of different lengths; PyTorch's flash and efficient backends and the swept Triton kernel were far
# behind on those that they were measured on.
masks() {
    type=$1
    shift
    for shape in "$@"; do
        echo "--workload ${shape}_$type --workload ${shape}_causal_$type"
    done
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
        step attention-cuda compare labs/attention 60_small 80_fixed_reference 70_pingpong 50_wgmma 40_mma_pipelined \
            30_wmma 20_warp 10_tiled 00_naive $peers --time 0.5 --workload b1h8s512d64_bf16 --workload b1h8s512d64_causal_bf16 \
            --workload b4h8s512d64_bf16 --workload b4h8s512d64_causal_bf16
        ;;
    attention-small)
        # The front through the whole gate first.
        # shellcheck disable=SC2046,SC2086 # peers and workloads are words
        step attention-small-cuda compare labs/attention front $peers --full --time 0.5 \
            $(masks bf16 b1h8s512d64 b4h8s512d64 b1h8s2048d64 b1h16s1024d128) $(masks f16 b1h8s512d64 b4h8s512d64)
        ;;
    attention-large)
        # shellcheck disable=SC2086
        step attention-large-cuda compare labs/attention 80_fixed_reference 85_fixed_reference_wide 70_pingpong 50_wgmma \
            40_mma_pipelined $peers --time 0.5 \
            --workload b4h32s4096d64_bf16 --workload b4h32s4096d64_causal_bf16 \
            --workload b2h16s8192d128_bf16 --workload b2h16s8192d128_causal_bf16
        ;;
    attention-large-d64)
        # shellcheck disable=SC2046 # the workloads are words
        step attention-large-d64-cuda compare labs/attention front fa3 sdpa_cudnn --time 0.3 \
            $(masks bf16 b32h32s512d64 b16h32s1024d64 b8h32s2048d64 b4h32s4096d64 b2h32s8192d64 b1h32s16384d64)
        ;;
    attention-large-d128)
        # shellcheck disable=SC2046
        step attention-large-d128-cuda compare labs/attention front fa3 sdpa_cudnn --time 0.3 \
            $(masks bf16 b32h16s512d128 b16h16s1024d128 b8h16s2048d128 b4h16s4096d128 b2h16s8192d128 b1h16s16384d128)
        ;;
    attention-profile)
        # Who was the fastest on a shape before, and who is now.
        two_tiles="--set TILES=2 --set SPLIT=1"
        two_blocks="--set TILES=1 --set SPLIT=1 --set BN=128 --set SLOTS=2 --set BLOCKS=2 --set TURNS=0 --set AHEAD=1"
        number=0
        for rung in \
            "60_small --workload b1h8s512d64_bf16" "92_short_sequence --set PIECES=4 --workload b1h8s512d64_bf16" \
            "50_wgmma --workload b4h8s512d64_bf16" \
            "90_zero_reference $two_blocks --workload b4h8s512d64_bf16" \
            "50_wgmma --workload b1h8s2048d64_bf16" "90_zero_reference --workload b1h8s2048d64_bf16" \
            "50_wgmma --workload b4h32s4096d64_bf16" "80_fixed_reference --workload b4h32s4096d64_bf16" \
            "90_zero_reference --set TILES=4 --set SPLIT=1 --set QUERY_SLOTS=2 --workload b4h32s4096d64_bf16" \
            "50_wgmma --workload b1h16s1024d128_causal_bf16" \
            "95_zero_reference_wide --set AHEAD=1 --workload b1h16s1024d128_causal_bf16" \
            "95_zero_reference_wide $two_tiles --set SLOTS=4 --set AHEAD=1 --workload b1h16s1024d128_bf16" \
            "50_wgmma --workload b2h16s8192d128_bf16" "85_fixed_reference_wide --workload b2h16s8192d128_bf16" \
            "95_zero_reference_wide $two_tiles --set BN=128 --set QUERY_SLOTS=2 --workload b2h16s8192d128_bf16"; do
            number=$((number + 1))
            # shellcheck disable=SC2086 # a rung is words
            step "profile-$number" profile labs/attention --kernel $rung
        done
        ;;
    campaign)
        step campaign tune labs/attention --kernel 50_wgmma --workload b1h8s512d64_bf16 --strategy random \
            --seed-from none --budget 200 --time 300 --seed 7 --no-sanitizer
        # shellcheck disable=SC2016 # Python's
        if ! python3 -c 'import json, sys
pace = json.load(open(sys.argv[1]))["pace"]
rate = pace["trials"] / pace["seconds"]
print(f"{rate:.1f} trials a second")
sys.exit(rate < float(sys.argv[2]) or pace["trials"] < 200)' "$results/campaign.json" "$least_trials_per_s"; then
            failed="$failed campaign-rate"
            echo "FAILED campaign-rate: fewer than 200 trials, or than $least_trials_per_s a second"
        fi
        ;;
    repeat)
        for run in 1 2 3 4 5; do
            step "repeat-$run" compare labs/gemm 30_wgmma 30_wgmma: --workload m4096n4096k4096 --time 1
            if ! python3 -c 'import json, sys
sys.exit(json.load(open(sys.argv[1]))["speedups"][0]["verdict"] != "tie")' "$results/repeat-$run.json"; then
                failed="$failed repeat-$run"
                echo "FAILED repeat-$run: a kernel and itself are no tie"
            fi
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
