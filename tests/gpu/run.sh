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
# but `honest` and `run`, which take long, when none is named. Run it from the project's root. In the environment:
# LABS names the labs of `clock`, `check`, `full`, `honest`, `profile` and `run` where not all are wanted; CHEATS is a
# pattern of file names, so that `cheats` can be done in parts ('[0-3]*', then '[45]*', then '[6-9]*'); TIMES says how
# often `honest` checks each lab, WORKLOADS on which workloads; LIMIT how many seconds a step may take at most.
#
# What says whether the proof holds on a GPU is `clock cheats tricks honest`, and `measure.sh ... campaign` beside it.
set -u
warpsmith=$1
results=$2
shift 2
steps=${*:-doctor clock check full cheats tricks compare profile evidence evolve}
mkdir -p "$results"
failed=""

# A step that hangs must not take along what others found.
limit=${LIMIT:-540}

# step NAME COMMAND...: runs it, keeps its JSON, says how it went. Status 1 means that a candidate failed, which
# `found_out` takes for success.
found_out=""
step() {
    name=$1
    shift
    started=$(date +%s)
    timeout -k 5 "$limit" "$warpsmith" "$@" --target cuda --evidence "$results/evidence" --json \
        >"$results/$name.json" 2>"$results/$name.log"
    status=$?
    if [ "$status" -eq 0 ] || { [ "$status" -eq 1 ] && [ -n "$found_out" ]; }; then
        verdict=ok
    else
        verdict="FAILED (status $status)"
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

# check NAME FOLDER ARGUMENT...: checks every kernel of a lab.
check() {
    name=$1
    folder=$2
    shift 2
    step "$name" check "$folder" "$@"
    # A front is a kernel, too.
    kernels=$(find "$folder/cuda/kernels" "$folder/cuda/front.toml" -name '*.toml' 2>/dev/null | wc -l)
    demand "$name" "not every kernel was checked" "len(d['checks']) == $kernels"
}

# some_cheats PATTERN: makes a lab of the cheats whose names match, and of the oracle; prints its folder.
some_cheats() {
    made="$results/cheats/_cheats"
    rm -rf "$made"
    mkdir -p "$made/cuda/kernels"
    cp labs/_cheats/lab.toml labs/_cheats/reference.c "$made/"
    cp -r labs/_cheats/cuda/include labs/_cheats/cuda/lab.toml "$made/cuda/"
    cp labs/_cheats/cuda/kernels/000_naive.* "$made/cuda/kernels/"
    # shellcheck disable=SC2086 # a pattern
    (cd labs/_cheats/cuda/kernels && cp $1 "$made/cuda/kernels/")
    echo "$made"
}

# tricks NAME TWIN TRICK...: compares those that compute the right thing and try to be charged less for it with their
# honest twin. A kernel that was found out has no time and no speed-up. The middle decides: the ends of an interval of
# seven rounds are the extremes of them, and some round of a twin against itself is off by a tenth.
tricks() {
    name=$1
    shift
    found_out=yes
    step "$name" compare labs/_cheats "$@" --time 1
    found_out=""
    demand "$name" "not every trick was compared" "len(d['speedups']) == $(($# - 1))"
    demand "$name" "nobody has a time" \
        "any(not on['absent'] for s in d['speedups'] for on in s['workloads'])"
    demand "$name" "a trick gains" \
        "all(on['absent'] or on['speedup']['mid'] > 0.95 for s in d['speedups'] for on in s['workloads'])"
}

labs=${LABS:-saxpy rmsnorm gemm attention}
for it in $steps; do
    case $it in
    doctor) step doctor doctor --ceilings ;;
    clock)
        # Each lab's best kernel against itself, in every place of a comparison.
        for lab in $labs; do
            step "clock-$lab" doctor --clock "labs/$lab"
            demand "clock-$lab" "the clock was not examined" \
                "len(d['clock']) == 1 and d['clock'][0]['comparisons'] >= 40"
            # A clock that is unclear about everything favours nobody, too.
            demand "clock-$lab" "hardly a comparison was clear" "5 * d['clock'][0]['tie'] >= d['clock'][0]['verdicts']"
        done
        ;;
    check) for lab in $labs; do check "check-$lab" "labs/$lab" --quick; done ;;
    full) for lab in $labs; do check "full-$lab" "labs/$lab" --time 0.5; done ;;
    cheats)
        if [ -z "${CHEATS:-}" ]; then
            check cheats labs/_cheats --time 0.1 --deadline 4
        else
            # The name in the results tells the parts apart.
            part=$(echo "$CHEATS" | tr -cd '[:alnum:]-')
            check "cheats-$part" "$(some_cheats "$CHEATS")" --time 0.1 --deadline 4
        fi
        ;;
    tricks)
        tricks tricks 510_no_trick 500_caches_by_pointer 501_caches_by_content 504_spins_on_the_clock \
            505_answers_behind_a_variable 506_answers_in_the_heap 507_answers_in_local_memory 509_works_ahead
        tricks tricks-wide 512_no_trick_wide 511_puts_launches_off
        ;;
    honest)
        on=""
        for workload in ${WORKLOADS:-}; do on="$on --workload $workload"; done
        # shellcheck disable=SC2086 # labs and workloads are words
        if timeout -k 5 "$limit" tests/honest/run.py "$warpsmith" "$results/honest" --target cuda \
            --times "${TIMES:-20}" --labs $labs $on; then
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
    # Its steps have limits of their own.
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
