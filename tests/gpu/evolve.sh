#!/bin/sh
# Evolution, coding agents and imported problems on a GPU, with recorded replies in the place of a model.
#
#   tests/gpu/evolve.sh WARPSMITH RESULTS [TARGET] [PART...]
#
# WARPSMITH is the program, RESULTS a folder for what it says (JSON) and its evidence, TARGET `cuda` (the default)
# or `cpu`, which rehearses the same without a GPU. Parts: evolve, agent, kernelbench, flashinfer; all when none is
# named. Needs python3 with PyTorch for CUDA (NumPy for the CPU), and the package `mcp`, in WARPSMITH_MCP where it
# is not installed: `pip install --target FOLDER -r tests/mcp/requirements.txt`. What is missing fails. Run it from
# the project's root.
set -u
warpsmith=$(realpath "$1")
mkdir -p "$2"
results=$(realpath "$2")
target=${3:-cuda}
[ $# -ge 3 ] && shift 3 || shift $#
parts=${*:-evolve agent kernelbench flashinfer}
given=tests/gpu/evolve/$target
case $target in
cuda) ending=cu lab=saxpy/cuda workload=n16m ;;
cpu) ending=c lab=saxpy workload=n4m ;;
*)
    echo "unknown target $target"
    exit 2
    ;;
esac
labs=$results/labs
evidence=$results/evidence
failed=""

# fail NAME WHAT: says what does not hold; the rest goes on.
fail() {
    failed="$failed $1"
    echo "FAILED $1: $2"
}

# step NAME SECONDS STATUS COMMAND...: runs it with a limit, keeps its JSON, says how it went. The limits are for what
# hangs: several times what a step takes, where every timed session starts a process.
step() {
    name=$1 limit=$2 expected=$3
    shift 3
    started=$(date +%s)
    timeout -k 5 "$limit" "$warpsmith" "$@" --target "$target" --evidence "$evidence" \
        --work-dir "$results/work" --json >"$results/$name.json" 2>"$results/$name.log"
    status=$?
    if [ "$status" -ne "$expected" ]; then
        tail -n 12 "$results/$name.log"
        fail "$name" "status $status instead of $expected"
        return 1
    fi
    echo "ok $name ($(($(date +%s) - started)) s)"
}

# demand NAME WHAT EXPRESSION: fails unless the expression holds of the step's JSON, `d`.
demand() {
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' \
        "$results/$1.json" "$3" || fail "$1" "$2"
}

# same NAME OTHER KEY: fails unless two steps say the same of a key.
same() {
    python3 -c 'import json, sys; one, other = (json.load(open(path))[sys.argv[3]] for path in sys.argv[1:3])
sys.exit(one != other)' "$results/$1.json" "$results/$2.json" "$3" || fail "$1" "its $3 is not that of $2"
}

# A lab with a rung that is slow on purpose.
rm -rf "$labs"
mkdir -p "$labs"
cp -r labs/include labs/saxpy "$labs/"
cp "$given/05_strided.$ending" "$given/05_strided.toml" "$labs/$lab/kernels/"

# Looking at a problem is the work of processors; it need not wait for the device.
import() {
    for name in softmax layernorm_gelu; do
        step "import-$name" 90 0 import kernelbench "$given/$name.py" --into "$labs"
    done
    step import-rmsnorm_h512 90 0 import flashinfer "$given/trace" --into "$labs"
}
importing=""
case " $parts " in
*" kernelbench "* | *" flashinfer "*)
    import >"$results/import.txt" 2>&1 &
    importing=$!
    ;;
esac

evolve() {
    # The winner's sanitizers are other tests' business, and take as long as all of the rest.
    step evolve 300 0 evolve "$labs/saxpy" --kernel 05_strided --models "$given/models.toml" --mode full --trials 8 \
        --seed 1 --tune 2 --deadline 3 --workload "$workload" --no-sanitizer || return
    demand evolve "the winner is another" "d['winner']['kernel'] == 'e007_neighbours'"
    funnel="('calls', 8), ('unanswered', 0), ('parsed', 6), ('twins', 0), ('compiled', 5), ('correct', 2)"
    funnel="$funnel, ('faster', 2), ('accepted', 2), ('tuning_trials', 1)"
    demand evolve "the funnel is another" "all(d['evolution']['tally'][k] == v for k, v in [$funnel])"
    demand evolve "other replies were refused" \
        "d['evolution']['tally']['rejected'] == {'contract changed': 1, 'duplicate': 1}"
    if [ "$target" = cuda ]; then
        demand evolve "not exactly the two parents were profiled with counters" \
            "(d['evolution']['tally']['profiled'], d['evolution']['tally']['profiled_without_counters']) == (2, 0)"
    fi
    python3 tests/gpu/evolve/prompts.py "$results/evidence/evidence.db" "$target" >"$results/prompts.txt" 2>&1 || {
        tail -n 5 "$results/prompts.txt"
        fail prompts "the prompts lack something"
    }
    run=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["run"])' "$results/evolve.json")
    step replay-1 120 0 replay "$run" || return
    verdicts="['compile_failed', 'passed', 'incorrect', 'crashed', 'timed_out', 'passed', 'passed']"
    demand replay-1 "the verdicts are others" "[it['verdict_now'] for it in d['again']] == $verdicts"
    step replay-2 120 0 replay "$run" || return
    step replay-fake 20 0 replay "$run" --fake-device || return
    for again in replay-2 replay-fake; do
        same "$again" replay-1 decisions
        same "$again" replay-1 best
    done
    if [ "$target" = cuda ]; then without_permission; fi
}

# Where the counters are forbidden: a profile of an earlier run serves, and without one the compiler's report does.
without_permission() {
    path=$PATH
    PATH=$(realpath tests/gpu/evolve/forbidden):$PATH
    profiled='(d["evolution"]["tally"]["profiled"], d["evolution"]["tally"]["profiled_without_counters"])'
    set -- evolve "$labs/saxpy" --kernel 05_strided --models "$given/models.toml" --trials 1 --seed 2 \
        --workload "$workload" --no-sanitizer
    step evolve-reused 90 0 "$@"
    demand evolve-reused "the earlier run's counters were not taken over" "$profiled == (1, 0)"
    evidence=$results/evidence-forbidden
    step evolve-forbidden 90 0 "$@"
    demand evolve-forbidden "there are counters" "$profiled == (1, 1)"
    grep -q 'counters  none (this user may not read' "$results/evolve-forbidden.log" ||
        fail evolve-forbidden "nobody was told that there are no counters"
    step replay-forbidden 20 0 replay latest --fake-device
    evidence=$results/evidence
    PATH=$path
}

agent() {
    started=$(date +%s)
    if PYTHONPATH=${WARPSMITH_MCP:-} timeout -k 5 300 python3 tests/gpu/evolve/agent.py "$warpsmith" "$target" \
        "$results" >"$results/agent.txt" 2>&1; then
        echo "ok agent ($(($(date +%s) - started)) s)"
    else
        tail -n 12 "$results/agent.txt"
        fail agent "see agent.txt"
    fi
}

# solve LAB FLAGS: writes the kernel of an imported lab, checks it, compares it with the problem itself.
solve() {
    cp "$given/$1.$ending" "$labs/$1/kernels/00_start.$ending"
    # shellcheck disable=SC2086 # flags are words
    step "check-$1" 240 0 check "$labs/$1" --time 0.2 $2 || return
    demand "check-$1" "the kernel does not pass" "[it['verdict'] for it in d['checks']] == ['passed']"
    step "compare-$1" 180 0 compare "$labs/$1" 00_start module --time 0.3 || return
    demand "compare-$1" "the problem itself was not compared" \
        "not d['missing_baselines'] and not any(on['absent'] for s in d['speedups'] for on in s['workloads'])"
}

# One problem without weights, and one whose weights are inputs.
kernelbench() {
    solve softmax "" || return
    solve layernorm_gelu --no-sanitizer || return
    step fastp 10 0 fastp "$labs/softmax" "$labs/layernorm_gelu" || return
    demand fastp "a problem is not solved" \
        "d['fast_p'][0] == {'p': 0.0, 'share': 1.0} and {it['baseline'] for it in d['problems']} == {'module'}"
}

flashinfer() {
    solve rmsnorm_h512 --no-sanitizer || return
    checked=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["run"])' \
        "$results/check-rmsnorm_h512.json")
    step export-flashinfer 10 0 export "$checked" --format flashinfer --out "$results/traces" || return
    python3 tests/gpu/evolve/traces.py "$results/traces/flashinfer" >"$results/traces.txt" 2>&1 || {
        tail -n 5 "$results/traces.txt"
        fail traces "the traces are not what the format wants"
    }
}

# imported: waits for the imports, the first time.
imported() {
    [ -n "$importing" ] || return 0
    wait "$importing"
    importing=""
    cat "$results/import.txt"
    if grep -q FAILED "$results/import.txt"; then failed="$failed import"; fi
}

for part in $parts; do
    case $part in
    evolve | agent) $part ;;
    kernelbench | flashinfer)
        imported
        $part
        ;;
    *)
        echo "unknown part $part"
        exit 2
        ;;
    esac
done

if [ -n "$failed" ]; then
    echo "failed:$failed"
    exit 1
fi
echo "all passed"
