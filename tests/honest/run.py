#!/usr/bin/env python3
"""Honest kernels under load: every rung of every lab through the full gate, many times over, while other programs
keep every processor and the memory busy. A gate that rejects everything catches every cheat, too; this shows that
it does not. Fails where a rung is rejected, or was not judged.

    tests/honest/run.py WARPSMITH RESULTS [--times N] [--labs LAB ...] [--workload NAME ...] [--target cpu|cuda]

WARPSMITH is the program, RESULTS a folder for `honest-TARGET.json` and the evidence. Run it from the project's root;
without a GPU the labs for one cannot be judged and the script fails. Needs nothing but Python 3.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import time


def spin():
    """Keeps a processor busy."""
    number = 1
    while True:
        number = (number * 1103515245 + 12345) % 2147483648


def stream():
    """Keeps the memory busy: copies more than caches hold, over and over."""
    source, target = bytearray(64 << 20), bytearray(64 << 20)
    while True:
        target[:] = source
        source[0] = (source[0] + 1) % 256


def check(program, lab, target, workloads, evidence):
    """Puts every rung of a lab through the full gate; returns what the gate said and how long it took."""
    began = time.monotonic()
    # Short timing: this is about verdicts, and every timed output is judged however many there are.
    command = [program, "check", f"labs/{lab}", "--target", target, "--time", "0.1", "--json", "--evidence", evidence]
    command += [word for workload in workloads for word in ("--workload", workload)]
    ran = subprocess.run(command, capture_output=True, text=True)
    try:
        return json.loads(ran.stdout)["checks"], time.monotonic() - began
    except (ValueError, KeyError):
        sys.exit(f"{' '.join(command)} ended with {ran.returncode} and no result:\n{ran.stderr[-2000:]}")


def rungs(lab, target):
    """Counts the kernels that a lab has for a target."""
    folder = pathlib.Path("labs", lab) if target == "cpu" else pathlib.Path("labs", lab, target)
    return len(list(folder.glob("kernels/*.toml"))) + (folder / "front.toml").exists()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpsmith")
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--labs", nargs="+", default=["saxpy", "rmsnorm", "gemm", "attention"])
    parser.add_argument("--workload", action="append", default=[], help="of the lab; by default all (repeatable)")
    parser.add_argument("--target", choices=["cpu", "cuda"], default="cpu")
    arguments = parser.parse_args()
    arguments.results.mkdir(parents=True, exist_ok=True)

    work = [spin] * (os.cpu_count() or 1) + [stream]
    load = [multiprocessing.Process(target=each, daemon=True) for each in work]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for process in load:
        process.start()
    said = {}
    rejected = []
    for time_idx in range(arguments.times):
        for lab in arguments.labs:
            evidence = str(arguments.results / "evidence")
            checks, seconds = check(arguments.warpsmith, lab, arguments.target, arguments.workload, evidence)
            if len(checks) != rungs(lab, arguments.target):
                sys.exit(f"{lab}: {len(checks)} of {rungs(lab, arguments.target)} kernels were judged")
            for one in checks:
                kernel = said.setdefault(lab, {}).setdefault(one["kernel"], {})
                kernel[one["verdict"]] = kernel.get(one["verdict"], 0) + 1
                if one["verdict"] != "passed":
                    rejected.append(one)
                    print(f"REJECTED {lab} {one['kernel']}: {json.dumps(one)[:600]}", flush=True)
            print(f"{time_idx + 1} of {arguments.times}: {lab} in {seconds:.0f} s", flush=True)
            # Written after each, so that what was shown stays if this is stopped.
            result = {"target": arguments.target, "times": time_idx + 1, "load": [each.__name__ for each in work]}
            result |= {"verdicts": said, "rejected": rejected}
            path = arguments.results / f"honest-{arguments.target}.json"
            path.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n")
    total = sum(count for lab in said.values() for kernel in lab.values() for count in kernel.values())
    print(f"{total} full checks, {len(rejected)} rejected")
    sys.exit(bool(rejected))


if __name__ == "__main__":
    main()
