#!/bin/sh
# The tests that need a GPU: every kernel of every CUDA lab through the gate, every known cheat, and a
# comparison with the libraries that are there. Fails where there is no GPU; skips nothing.
#
#   tests/gpu/run.sh WARPSMITH RESULTS [STEP...]
#
# WARPSMITH is the program, RESULTS a folder for what it says (JSON) and its evidence. Steps: doctor, check,
# full, cheats, compare, profile, run; all but `run` when none is named. Run it from the project's root.
set -u
warpsmith=$1
results=$2
shift 2
steps=${*:-doctor check full cheats compare profile}
mkdir -p "$results"
failed=""

# step NAME COMMAND...: runs it, keeps its JSON, says how it went.
step() {
    name=$1
    shift
    started=$(date +%s)
    if "$warpsmith" "$@" --target cuda --evidence "$results/evidence" --work-dir "$results/work" --json \
        >"$results/$name.json" 2>"$results/$name.log"; then
        verdict=ok
    else
        verdict=FAILED
        failed="$failed $name"
        tail -n 12 "$results/$name.log"
    fi
    echo "$verdict $name ($(($(date +%s) - started)) s)"
}

for it in $steps; do
    case $it in
    doctor) step doctor doctor --ceilings ;;
    check) for lab in saxpy rmsnorm gemm attention; do step "check-$lab" check "labs/$lab" --quick; done ;;
    full) for lab in saxpy rmsnorm gemm attention; do step "full-$lab" check "labs/$lab" --time 0.5; done ;;
    cheats) step cheats check labs/_cheats --time 0.1 --deadline 4 ;;
    compare)
        for lab in gemm attention; do step "compare-$lab" compare "labs/$lab" --time 2; done
        ;;
    profile)
        for lab in saxpy rmsnorm gemm attention; do
            step "profile-$lab" profile "labs/$lab"
            step "profile-$lab-files" export latest --format profile --out "$results/profile-$lab"
        done
        ;;
    run) for lab in saxpy rmsnorm gemm attention; do step "run-$lab" run "labs/$lab"; done ;;
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
echo "all passed"
