#!/bin/sh
# The tests that need a GPU: the clock, every kernel of every CUDA lab through the gate, every known cheat, a
# comparison with every library, a profile with counters; evolution, agents and imported problems. Fails where there is
# no GPU, where a kernel of a lab was not checked, where a library is missing and where counters are forbidden; skips
# nothing.
#
#   tests/gpu/run.sh WARPSMITH RESULTS [STEP...]
#
# WARPSMITH is the program, RESULTS a folder for what it says (JSON) and its evidence. Steps: doctor, clock, check,
# full, cheats, tricks, honest, compare, profile, evidence, evolve (tests/gpu/evolve.sh says what it needs), run; all
# but `honest` and `run`, which take long, when none is named. Run it from the project's root. LABS, in the environment,
# names the labs of `check`, `full`, `honest` and `profile` where not all are wanted, TIMES how often `honest` checks
# each.
#
# What says whether the proof holds on a GPU is `clock cheats tricks honest`, and `measure.sh ... campaign` beside it.
set -u
warpsmith=$1
results=$2
shift 2
steps=${*:-doctor clock check full cheats tricks compare profile evidence evolve}
mkdir -p "$results"
failed=""

# step NAME COMMAND...: runs it, keeps its JSON, says how it went.
step() {
    name=$1
    shift
    started=$(date +%s)
    if "$warpsmith" "$@" --target cuda --evidence "$results/evidence" --json \
        >"$results/$name.json" 2>"$results/$name.log"; then
        verdict=ok
    else
        verdict=FAILED
        failed="$failed $name"
        tail -n 12 "$results/$name.log"
    fi
    echo "$verdict $name ($(($(date +%s) - started)) s)"
}

# demand NAME WHAT EXPRESSION: fails unless the expression holds of the step's JSON, `d`.
demand() {
    if ! python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' \
        "$results/$1.json" "$3"; then
        failed="$failed $1"
        echo "FAILED $1: $2"
    fi
}

# check NAME LAB ARGUMENT...: checks every kernel of a lab.
check() {
    name=$1
    lab=$2
    shift 2
    step "$name" check "labs/$lab" "$@"
    # A front is a kernel, too.
    kernels=$(find "labs/$lab/cuda/kernels" "labs/$lab/cuda/front.toml" -name '*.toml' 2>/dev/null | wc -l)
    demand "$name" "not every kernel was checked" "len(d['checks']) == $kernels"
}

labs=${LABS:-saxpy rmsnorm gemm attention}
for it in $steps; do
    case $it in
    doctor) step doctor doctor --ceilings ;;
    clock)
        # Each lab's best kernel against itself, in every place of a comparison.
        step clock doctor --clock
        demand clock "the clock was not examined on every lab" "len(d['clock']) == 4"
        ;;
    check) for lab in $labs; do check "check-$lab" "$lab" --quick; done ;;
    full) for lab in $labs; do check "full-$lab" "$lab" --time 0.5; done ;;
    cheats) check cheats _cheats --time 0.1 --deadline 4 ;;
    tricks)
        # Those that compute the right thing and try to be charged less for it, against their honest twin. A kernel
        # that was found out has no time and no speed-up.
        step tricks compare labs/_cheats 510_no_trick 504_spins_on_the_clock 505_answers_behind_a_variable \
            506_answers_in_the_heap 507_answers_in_local_memory 509_works_ahead --time 1
        demand tricks "not every trick was compared" "len(d['speedups']) == 5"
        demand tricks "a trick gains" \
            "all(on['absent'] or on['speedup']['low'] > 0.9 for s in d['speedups'] for on in s['workloads'])"
        ;;
    honest)
        # shellcheck disable=SC2086 # the labs are words
        if tests/honest/run.py "$warpsmith" "$results/honest" --target cuda --times "${TIMES:-20}" --labs $labs; then
            echo "ok honest"
        else
            failed="$failed honest"
        fi
        ;;
    compare)
        # That every library works, and how far off it is; measure.sh has the tables of all workloads.
        for lab in gemm attention; do
            case $lab in
            gemm) workloads="--workload m1024n1024k1024 --workload m4096n4096k4096" ;;
            attention) workloads="--workload b4h8s512d64_causal_bf16 --workload b1h16s1024d128_f16" ;;
            esac
            # shellcheck disable=SC2086 # the workloads are words
            step "compare-$lab" compare "labs/$lab" --time 1 $workloads
            demand "compare-$lab" "a library is missing" "not d['missing_baselines']"
            demand "compare-$lab" "someone was not compared" \
                "not any(on['absent'] for s in d['speedups'] for on in s['workloads'])"
        done
        ;;
    profile)
        for lab in $labs; do
            step "profile-$lab" profile "labs/$lab"
            demand "profile-$lab" "there are no counters" \
                "all(w['counters']['from'] == 'ncu' for w in d['record']['workloads'])"
            step "profile-$lab-files" export latest --format profile --out "$results/profile-$lab"
        done
        ;;
    evidence)
        step evidence-saxpy evidence labs/saxpy --time 10 --out "$results/bundle"
        demand evidence-saxpy "the bundle is not whole" "all(k['passed'] for k in d['kernels']) and len(d['files']) > 10"
        ;;
    evolve) tests/gpu/evolve.sh "$warpsmith" "$results/evolve" || failed="$failed evolve" ;;
    run) for lab in $labs; do step "run-$lab" run "labs/$lab"; done ;;
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
