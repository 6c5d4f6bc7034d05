#!/usr/bin/env python3
"""Holds Warpsmith's parameter search against Kernel Tuner and pyATF on the same machine.

    bench/search.py --spaces FOLDER --caches FOLDER

Needs Python 3.11, a C compiler and a release build of Warpsmith; installs the other tuners into a virtual
environment under .warpsmith/bench. Writes docs/results/search-*.json, from which `cargo xtask tables`
renders the tables of docs/search.md. README.md says what is measured and how.
"""

import argparse
import gzip
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".warpsmith" / "bench"
REQUIREMENTS = ["kernel_tuner==1.5.0", "pyatf==0.0.13"]
# pyATF needs minutes for some spaces; beyond this it is only said that it needs more.
GIVE_UP_S = 120
STRATEGIES = ["simulated_annealing", "genetic_algorithm", "adaptive_tabu_greywolf", "random_sample"]
BUDGETS = [25, 50, 100, 200]

KERNEL = "20_register_tile"
WORKLOAD = "m512n512k512"
SHAPE = [512, 512, 512]
WIDER = {
    "BLOCK_M": [24, 48, 72, 96, 144, 192, 288, 384],
    "BLOCK_N": [96, 192, 288, 384, 576],
    "CC": ["gcc"],
}
# What the author chose, which Warpsmith tries first and Kernel Tuner is not told: the least of everything,
# so that there is something to find.
POOR_CHOICE = {"VEC_BYTES": 16, "COLUMN_VECTORS": 2, "ROW_TILE": 4, "BLOCK_M": 24, "BLOCK_N": 96, "CC": "gcc"}
# A best within this of the last best is as good for the question of how soon a search was there.
SETTLED = 1.02


def main():
    arguments = parse()
    python = provision()
    for part in arguments.only or ["spaces", "simulate", "kernel"]:
        print(f"{part}:", file=sys.stderr)
        rows = PARTS[part](arguments, python)
        document = {"machine": machine(), "tuners": REQUIREMENTS, **rows}
        path = arguments.out / f"search-{part}.json"
        path.write_text(json.dumps(document, indent=2) + "\n")
        print(f"  wrote {path}", file=sys.stderr)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spaces", type=Path, help="folder of spaces, {name, params, constraints} as JSON")
    parser.add_argument("--caches", type=Path, help="folder of recorded spaces, Kernel Tuner's caches as .json.gz")
    parser.add_argument("--warpsmith", type=Path, default=ROOT / "target" / "release" / "warpsmith")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    parser.add_argument("--only", nargs="+", choices=sorted(PARTS), help="parts to run; by default all")
    parser.add_argument("--repeats", type=int, default=20, help="searches of each recorded space by each strategy")
    parser.add_argument("--rounds", type=int, default=3, help="times that spaces are built and the kernel is tuned")
    parser.add_argument("--budget", type=int, default=100, help="evaluations of the real kernel")
    parser.add_argument("--until", nargs="+", default=["stalled:25", "expected:0.25"], help="conditions that end a search of it by ours, one after the other")
    arguments = parser.parse_args()
    parts = arguments.only or sorted(PARTS)
    for part, folder in [("spaces", arguments.spaces), ("simulate", arguments.caches)]:
        if part in parts and (folder is None or not folder.is_dir()):
            flag = "--spaces" if part == "spaces" else "--caches"
            parser.error(f"{flag} must name a folder; `--only` leaves parts out")
    if not arguments.warpsmith.is_file():
        parser.error(f"{arguments.warpsmith} is not there: run `cargo build --release`, or give --warpsmith")
    if min(arguments.repeats, arguments.rounds, arguments.budget) < 1:
        parser.error("--repeats, --rounds and --budget must be at least 1")
    return arguments


def provision():
    """Returns the Python of an environment that has the other tuners."""
    python = WORK / "venv" / "bin" / "python"
    marker = WORK / "venv" / "requirements.json"
    if not marker.is_file() or json.loads(marker.read_text()) != REQUIREMENTS:
        print("installing " + ", ".join(REQUIREMENTS), file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", WORK / "venv"], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
        marker.write_text(json.dumps(REQUIREMENTS))
    return python


def machine():
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return {"cpu": model, "processors": os.cpu_count(), "load": os.getloadavg()[0]}


def ask(python, job, give_up_s=3600):
    """Runs a job of tuners.py; none when it takes too long."""
    command = [python, ROOT / "bench" / "tuners.py"]
    try:
        done = subprocess.run(
            command, input=json.dumps(job) + "\n", capture_output=True, text=True, timeout=give_up_s, cwd=WORK
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode != 0:
        raise SystemExit(f"{job['do']} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def warpsmith(arguments, *words):
    """Runs Warpsmith; returns its document and the processor seconds of the whole process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([arguments.warpsmith, *words, "--json"], capture_output=True, text=True, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"warpsmith {' '.join(map(str, words))} failed:\n{done.stderr}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(done.stdout), cpu_s


def best(rows, field):
    return min(rows, key=lambda row: row[field])


def spaces(arguments, python):
    """Builds every space with all three, in turns, and keeps the best round of each. Ours has no clock of
    processor time to itself, so the wall clock of the construction and the processor time of the whole
    process stand for it."""
    rows = []
    for path in sorted(arguments.spaces.glob("*.json")):
        own, tuner, atf = [], [], []
        for _ in range(arguments.rounds):
            for _ in range(10):
                document, cpu_s = warpsmith(arguments, "space", path)
                own.append({**document, "cpu_s": cpu_s})
            tuner.append(ask(python, {"do": "build_kernel_tuner", "file": str(path)}))
            if not atf or atf[-1] is not None:
                atf.append(ask(python, {"do": "build_pyatf", "file": str(path)}, GIVE_UP_S))
        whole_process, own, tuner = best(own, "cpu_s"), best(own, "seconds"), best(tuner, "cpu_s")
        atf = best([row for row in atf if row], "cpu_s") if all(atf) else None
        row = {
            "space": own["name"],
            "cartesian": own["cartesian"],
            "valid": own["valid"],
            "warpsmith_build_s": own["seconds"],
            "warpsmith_process_cpu_s": whole_process["cpu_s"],
            "warpsmith_peak_rss_bytes": own["peak_rss_bytes"],
            "kernel_tuner_cpu_s": tuner["cpu_s"],
            "kernel_tuner_valid": tuner["valid"],
            "kernel_tuner_peak_rss_bytes": tuner["peak_rss_bytes"],
            "pyatf_cpu_s": atf and atf["cpu_s"],
            "pyatf_valid": atf and atf["valid"],
            "pyatf_gave_up_s": None if atf else GIVE_UP_S,
        }
        rows.append(row)
        print(f"  {row['space']}: {row['warpsmith_build_s']:.5f} {row['kernel_tuner_cpu_s']:.3f} {row['pyatf_cpu_s']}", file=sys.stderr)
    return {"rows": rows}


def simulate(arguments, python):
    """Searches every recorded space with strategies of both."""
    rows = []
    for path in sorted(arguments.caches.glob("*.json.gz")):
        plain = WORK / path.name.removesuffix(".gz")
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        if "cache" not in json.loads(plain.read_text()):
            # Kernel Tuner does not simulate on T4 results.
            continue
        budgets = [str(budget) for budget in BUDGETS]
        count = ["--repeats", str(arguments.repeats)]
        document, cpu_s = warpsmith(arguments, "simulate", "--cache", path, "--budget", *budgets, *count)
        name = path.name.removesuffix(".json.gz")
        for strategy in ["auto", "random_exact"]:
            own = {str(row["budget"]): row["mean"] for row in document["rows"] if row["strategy"] == strategy}
            seconds = cpu_s / arguments.repeats if strategy == "auto" else None
            rows.append({"cache": name, "tuner": "warpsmith", "strategy": strategy, "means": own, "cpu_s_per_search": seconds})
        for strategy in STRATEGIES:
            job = {"do": "simulate", "file": str(plain), "strategy": strategy, "budgets": BUDGETS, "repeats": arguments.repeats}
            answer = ask(python, job)
            del answer["peak_rss_bytes"]
            rows.append({"cache": name, "tuner": "kernel_tuner", "strategy": strategy, **answer})
            print(f"  {name} {strategy}: {answer['means']}", file=sys.stderr)
    return {"repeats": arguments.repeats, "budgets": BUDGETS, "rows": rows}


def kernel(arguments, python):
    """Tunes one real C kernel with both: same space, same compiler and flags, same budget."""
    lab = lab_copy()
    contract = tomllib.loads((lab / "kernels" / f"{KERNEL}.toml").read_text())
    tunables = {name: values for name, values in contract["tunables"].items() if name != "CC"}
    listed = subprocess.run(
        [arguments.warpsmith, "space", lab, "--kernel", KERNEL, "--list", "--work-dir", WORK / "work"],
        capture_output=True, text=True, check=True, cwd=WORK,
    )
    listed = [json.loads(line) for line in listed.stdout.splitlines()]
    # What only the device knows; Kernel Tuner has no word for it.
    vector_bytes = max(row["VEC_BYTES"] for row in listed)
    constraints = [text.replace("VECTOR_BYTES", str(vector_bytes)) for text in contract["constraints"]]
    rounds = []
    for round_idx in range(arguments.rounds):
        # The whole budget last.
        conditions = [*arguments.until, None]
        own = [tune_own(arguments, lab, round_idx + 1, until) for until in conditions]
        theirs = ask(python, {
            "do": "tune", "seed": round_idx + 1, "shape": SHAPE, "constraints": constraints,
            "tune_params": tunables, "entry": "gemm_timed", "source": timed_source(lab), "compiler": "gcc",
            "compiler_options": [*contract["flags"], "-fopenmp", f"-I{lab.parent / 'include'}", f"-I{lab / 'kernels'}"],
            "strategy": "simulated_annealing", "budget": arguments.budget,
        })
        started = theirs.pop("started_unix_s")
        theirs["settled_s"] = settled_s(theirs.pop("seen"), started)
        for search in own:
            search["speedup"] = compare(arguments, lab, search["winner"], theirs["winner"])
        rounds.append({"warpsmith": own, "kernel_tuner": theirs})
        print(f"  Kernel Tuner {theirs['wall_s']:.1f} s, settled after {theirs['settled_s']:.1f}", file=sys.stderr)
        for search in own:
            print(
                f"  {search['until']}: {search['wall_s']:.1f} s, {search['evaluations']} evaluations, "
                f"settled after {search['settled_s']:.1f}; winner {search['speedup']}", file=sys.stderr,
            )
    return {
        "kernel": f"gemm/{KERNEL}", "workload": WORKLOAD, "budget": arguments.budget,
        "configurations": len(listed), "strategy": "simulated_annealing", "rounds": rounds,
    }


def lab_copy():
    """Copies the lab, with one compiler, since Kernel Tuner has no way to tune the compiler, with more sizes
    of blocks, so that there is something to search for, and with a poor choice of the author's."""
    labs = WORK / "labs"
    shutil.rmtree(labs, ignore_errors=True)
    shutil.copytree(ROOT / "labs" / "include", labs / "include")
    shutil.copytree(ROOT / "labs" / "gemm", labs / "gemm", ignore=shutil.ignore_patterns("cuda", "baselines"))
    path = labs / "gemm" / "kernels" / f"{KERNEL}.toml"
    lines = []
    for line in path.read_text().splitlines():
        name = line.split("=")[0].strip()
        if name in WIDER:
            line = f"{name} = {json.dumps(WIDER[name])}"
        elif name == "default":
            line = "default = { " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in POOR_CHOICE.items()) + " }"
        lines.append(line)
    path.write_text("\n".join(lines) + "\n")
    return labs / "gemm"


def timed_source(lab):
    """The kernel as Kernel Tuner wants it: a function that launches on all processors and times itself."""
    m, n, k = SHAPE
    path = WORK / "gemm_timed.c"
    # Kernel Tuner wraps what does not mention extern "C" into that, which is C++.
    path.write_text(f"""// Not extern "C": this is C.
#include <omp.h>
#include "{lab / 'kernels' / (KERNEL + '.c')}"
float gemm_timed(const float *a, const float *b, float *c) {{
    long blocks = (({m} + BLOCK_M - 1) / BLOCK_M) * (({n} + BLOCK_N - 1) / BLOCK_N);
    double begun = omp_get_wtime();
    #pragma omp parallel for schedule(dynamic)
    for (long block = 0; block < blocks; block++) {{
        gemm(a, b, c, {m}, {n}, {k}, block, block + 1);
    }}
    return (float)((omp_get_wtime() - begun) * 1e3);
}}
""")
    return str(path)


def tune_own(arguments, lab, seed, until):
    """Tunes from nothing: no evidence, no artifacts, no microbenchmark."""
    evidence, work = WORK / "evidence", WORK / "work"
    shutil.rmtree(evidence, ignore_errors=True)
    shutil.rmtree(work, ignore_errors=True)
    places = ["--evidence", evidence, "--work-dir", work]
    budget = ["--budget", str(arguments.budget), "--time", "3600", "--seed", str(seed)]
    if until:
        budget += ["--until", until]
    begun, begun_unix_s = time.monotonic(), time.time()
    summary, _ = warpsmith(
        arguments, "tune", lab, "--kernel", KERNEL, "--workload", WORKLOAD, "--seed-from", "none", *budget, *places
    )
    wall_s = time.monotonic() - begun
    warpsmith(arguments, "export", summary["run"], "--format", "json", "--out", WORK / "export", *places)
    trials = json.loads((WORK / "export" / "evidence.json").read_text())["trials"]
    ranked = [row for row in trials if row["trial"]["job"]["fidelity"] == "rank"]
    seen = [(row["at_unix_s"], median_s(row["trial"]["outcome"])) for row in ranked]
    return {
        "until": until, "wall_s": wall_s, "evaluations": len(ranked), "settled_s": settled_s(seen, begun_unix_s),
        "searched_s": max(row["at_unix_s"] for row in ranked) - begun_unix_s, "winner": summary["winner"]["params"],
    }


def median_s(outcome):
    """The median time of a complete evaluation; none of one that failed or was given up."""
    measured = outcome.get("measurements", [])
    if outcome["verdict"] != "passed" or not measured or measured[0]["stop"] == "hopeless":
        return None
    return statistics.median(measured[0]["samples_s"])


def settled_s(seen, begun_unix_s):
    """When a search had first measured something within 2 % of the best that it ever measured."""
    timed = [(at, time_s) for at, time_s in seen if time_s is not None]
    least = min(time_s for _, time_s in timed)
    return min(at for at, time_s in timed if time_s <= SETTLED * least) - begun_unix_s


def compare(arguments, lab, own, theirs):
    """Measures both winners in interleaved rounds; returns the speed-up of ours over theirs."""
    if {**own, "CC": "gcc"} == {**theirs, "CC": "gcc"}:
        return {"low": 1.0, "mid": 1.0, "high": 1.0, "same": True}
    name = lambda params: KERNEL + ":" + ",".join(f"{key}={value}" for key, value in params.items())
    places = ["--evidence", WORK / "evidence", "--work-dir", WORK / "work"]
    document, _ = warpsmith(
        arguments, "compare", lab, name(own), name({**theirs, "CC": "gcc"}), "--workload", WORKLOAD, "--time", "5", *places
    )
    return {**document["speedups"][0]["overall"], "same": False}


PARTS = {"spaces": spaces, "simulate": simulate, "kernel": kernel}

if __name__ == "__main__":
    main()
