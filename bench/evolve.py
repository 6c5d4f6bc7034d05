#!/usr/bin/env python3
"""Measures what the loop of an evolution costs beside the model and the evaluation.

    bench/evolve.py [--warpsmith target/release/warpsmith] [--trials 20 100 400]

The model is a recording, so that it costs nothing. Every reply is new and parses; most lack the entry and are
refused before they are compiled, one in ten does not compile. So prompts are rendered, replies are judged, and
calls and trials are made durable, as always. What remains of the time of a call after the provider and the
evaluation is the loop's: planning, judging, and SQLite with its syncs to the disk. `replay --fake-device` then
does the same from the store, without device and without writing. Standard output is JSON.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODELS = '[[model]]\nname = "tape"\nprovider = "recorded"\nfile = "tape"\n'


def reply(number):
    entry = "void probe(void) { nothing(); }" if number % 10 == 0 else "void other(void) {}"
    body = "\n".join(f"static const int a{number}_{line} = {line};" for line in range(60))
    return f"=== reply\nname: number {number}\ncode:\n```c\n{body}\n{entry}\n```\nthought: number {number}\n"


def measure(warpsmith, trials):
    with tempfile.TemporaryDirectory() as folder:
        def run(*arguments):
            command = [warpsmith, *arguments, "--json"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)} failed with {done.returncode}\n{done.stderr}")
            return json.loads(done.stdout)

        run("new", "probe")
        Path(folder, "models.toml").write_text(MODELS)
        Path(folder, "tape").write_text("".join(reply(number) for number in range(trials)))
        evolved = run("evolve", "labs/probe", "--kernel", "00_naive", "--models", "models.toml",
                      "--trials", str(trials), "--tune", "0", "--seed", "1", "--workload", "n256d1024")
        tally = evolved["evolution"]["tally"]
        began = time.perf_counter()
        run("replay", evolved["run"], "--fake-device")
        replayed = time.perf_counter() - began
        size = Path(folder, "evidence/evidence.db").stat().st_size
        return {
            "trials": tally["calls"],
            "refused": sum(tally["rejected"].values()),
            "loop_ms_per_call": 1e3 * tally["overhead_s_per_trial"],
            "evaluation_s": tally["evaluation_s"],
            "replay_ms_per_call": 1e3 * replayed / tally["calls"],
            "database_kb_per_call": size / 1e3 / tally["calls"],
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warpsmith", default="target/release/warpsmith")
    parser.add_argument("--trials", type=int, nargs="+", default=[20, 100, 400])
    arguments = parser.parse_args()
    warpsmith = os.path.realpath(arguments.warpsmith)
    if not os.path.exists(warpsmith):
        sys.exit(f"there is no {warpsmith}\nhint: cargo build --release, or name another with --warpsmith")
    rows = [measure(warpsmith, trials) for trials in arguments.trials]
    print(json.dumps({"load": os.getloadavg()[0], "cpus": os.cpu_count(), "rows": rows}, indent=1))


main()
