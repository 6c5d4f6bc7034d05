#!/usr/bin/env python3
"""Runs the attention kernels' own sources on an emulated multiprocessor and checks what they compute.

    python3 tests/emulate/run.py                    # every rung with TMA and wgmma, many lengths, some schedules
    python3 tests/emulate/run.py --quick            # what CI runs, under a minute
    python3 tests/emulate/run.py 80_fixed_reference --set CONSUMERS=4,BN=64 --s 512 --causal 1 --bf16 1 --seeds 20
"""

import argparse
import itertools
import os
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor

import broken
import contract as contracts
from build import BuildError, build_kernel, build_machine
from ptx_layer import missing_stand_ins

LENGTHS = [1, 2, 63, 64, 65, 127, 128, 129, 200, 321, 512, 513]
QUICK_LENGTHS = [1, 64, 129, 200, 321]
INPUTS = ["normal", "large", "equal", "rising", "falling", "not_finite"]
# Few multiprocessors: blocks stay for several tiles. Many: each has one.
MULTIPROCESSORS = [2, 132, 1]


def main():
    arguments = parse_arguments()
    lab = contracts.load_lab()
    problems = missing_stand_ins()
    for problem in problems:
        print(f"FAILED  {problem}")
    machine = build_machine(arguments.compiler)
    jobs = make_jobs(arguments)
    start = time.monotonic()
    print(f"{'rung':16} {'D':>3} {'mask':6} {'type':4} {'runs':>5} {'element':>8} {'norm':>6} {'s':>5}  configuration")
    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = pool.map(lambda job: run_job(arguments, machine, lab, job), jobs)
        n_failed = sum(report(job, result, arguments.verbose) for job, result in zip(jobs, results))
    n_unseen = 0
    if arguments.quick or arguments.broken or not arguments.rungs:
        n_unseen = check_broken(arguments, machine, lab)
    print(f"{len(jobs)} programs in {time.monotonic() - start:.0f} s, {n_failed} failed, {n_unseen} broken ones unseen")
    return 1 if n_failed or n_unseen or problems else 0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(word) for word in text.split(",")]  # noqa: E731
    parser.add_argument("rungs", nargs="*", help="names or numbers; default: all with TMA and wgmma")
    parser.add_argument("--set", action="append", dest="configs", metavar="NAME=VALUE,...",
                        help="a configuration, the rest from the contract's default; several are allowed")
    parser.add_argument("--s", type=numbers, help="sequence lengths")
    parser.add_argument("--d", type=numbers, help="head dimensions, of those that the rung serves")
    parser.add_argument("--b", type=int, default=1, help="batch size")
    parser.add_argument("--h", type=int, default=2, help="heads")
    parser.add_argument("--causal", type=numbers, default=[0, 1])
    parser.add_argument("--bf16", type=numbers, default=[0, 1])
    parser.add_argument("--inputs", type=lambda text: text.split(","), help=f"of {', '.join(INPUTS)}")
    parser.add_argument("--sms", type=numbers, help="multiprocessors, for grids that depend on them")
    parser.add_argument("--seeds", type=int, help="schedules of each case")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--independent-lanes", action="store_true",
                        help="lanes of a warp that poll a barrier find out one by one, not together")
    parser.add_argument("--quick", action="store_true", help="a selection that takes less than a minute")
    parser.add_argument("--broken", action="store_true", help="also see that broken kernels are found")
    parser.add_argument("--verbose", action="store_true", help="every failure, not the first three of a program")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="programs at a time")
    parser.add_argument("--compiler", default=os.environ.get("CXX", "g++"))
    parser.add_argument("--timeout", type=int, default=600, help="seconds for a program")
    arguments = parser.parse_args()
    unknown = set(arguments.inputs or []) - set(INPUTS)
    if unknown:
        parser.error(f"no inputs `{', '.join(sorted(unknown))}`")
    return arguments


# --- What to run -----------------------------------------------------------------------------------------------------


def make_jobs(arguments):
    """A job is a program: a rung, its configuration, and the axes that it is compiled for, with all cases."""
    names = arguments.rungs or [path.stem for path in sorted(contracts.KERNELS.glob("*.toml"))]
    chosen = [contracts.load_contract(name) for name in names]
    chosen = [one for one in chosen if contracts.is_hopper(one) or arguments.rungs]
    jobs = []
    for one in chosen:
        axes_of_programs = list(itertools.product(arguments.d or [64, 128], arguments.causal, arguments.bf16))
        for idx, config in enumerate(choose_configs(one, arguments)):
            served = [axes for axes in axes_of_programs if contracts.serves(one, {"D": axes[0]})]
            if arguments.quick and not arguments.configs:
                # Half of the pairs of mask and type for each configuration: all occur, in turns.
                served = [axes for axes in served if (axes[1] + axes[2] + idx) % 2 == 0]
            for d, causal, bf16 in served:
                jobs.append({"contract": one, "config": config, "d": d, "causal": causal, "bf16": bf16,
                             "cases": make_cases(arguments, len(jobs), d, causal, bf16)})
    return jobs


def choose_configs(one, arguments):
    default = contracts.default_config(one)
    if arguments.configs:
        configs = []
        for text in arguments.configs:
            changes = dict(word.split("=") for word in text.split(","))
            unknown = set(changes) - set(one["tunables"])
            if unknown:
                raise SystemExit(f"{one['name']} has no {', '.join(sorted(unknown))}")
            configs.append({**default, **{name: int(value) for name, value in changes.items()}})
    else:
        configs = distinct([default, *fast_configs(one)])
        if arguments.quick:
            configs = configs if len(configs) > 1 else distinct([default, *varied_configs(one, default)])[:2]
        else:
            configs = distinct([*configs, *varied_configs(one, default)])[:8]
    for config in configs:
        for constraint in contracts.broken_constraints(one, config):
            print(f"note: {one['name']} {say_config(config)} breaks `{constraint}`")
    return configs


def distinct(configs):
    return [config for idx, config in enumerate(configs) if config not in configs[:idx]]


def fast_configs(one):
    """Those that the lab's routes use."""
    front = tomllib.loads((contracts.LAB / "front.toml").read_text())
    return [route["params"] for route in front["route"] if route["kernel"] == one["name"]]


def varied_configs(one, default):
    """The default with another value of one tunable, in the order of the contract."""
    changed = [{**default, name: value} for name, values in one["tunables"].items() for value in values]
    return [config for config in changed if not contracts.broken_constraints(one, config)]


def make_cases(arguments, job_idx, d, causal, bf16):
    lengths = arguments.s or (QUICK_LENGTHS if arguments.quick else LENGTHS)
    every_input = arguments.inputs or (None if arguments.quick or not arguments.s else INPUTS)
    cases = []
    for idx, length in enumerate(lengths):
        turn = idx + job_idx
        for inputs in every_input or [INPUTS[turn % len(INPUTS)], "normal"][: 1 if arguments.quick else 2]:
            for sms in arguments.sms or [MULTIPROCESSORS[(turn + len(cases)) % 3]]:
                axes = {"B": arguments.b, "H": arguments.h, "S": length, "D": d, "CAUSAL": causal, "BF16": bf16}
                cases.append({"axes": axes, "sms": sms, "inputs": inputs,
                              "independent_lanes": arguments.independent_lanes,
                              "first_seed": arguments.first_seed + 100 * len(cases),
                              "n_seeds": arguments.seeds or (2 if arguments.quick else 3)})
    return cases


# --- Running ---------------------------------------------------------------------------------------------------------


def run_job(arguments, machine, lab, job, changes=()):
    """Returns the number of runs, the worst errors, the seconds, and the failures as texts."""
    start = time.monotonic()
    result = {"runs": 0, "element": 0.0, "norm": 0.0, "failures": []}
    axes = {"D": job["d"], "CAUSAL": job["causal"], "BF16": job["bf16"]}
    try:
        program = build_kernel(arguments.compiler, machine, job["contract"], job["config"], axes, changes)
    except BuildError as error:
        result["failures"].append("does not compile:\n" + str(error)[:4000])
        return {**result, "seconds": time.monotonic() - start}
    text = "".join(contracts.describe_case(job["contract"], job["config"], case, lab) for case in job["cases"])
    try:
        done = subprocess.run([program], input=text, capture_output=True, text=True, timeout=arguments.timeout)
        output, ended = done.stdout, "" if done.returncode in (0, 1) else f"the process died ({done.returncode})"
    except subprocess.TimeoutExpired as error:
        output, ended = (error.stdout or b"").decode(), f"no end within {arguments.timeout} s"
    read_output(output, ended, job["cases"], result)
    expected = sum(case["n_seeds"] for case in job["cases"])
    if result["runs"] != expected and not result["failures"]:
        result["failures"].append(f"{result['runs']} of {expected} runs were reported")
    return {**result, "seconds": time.monotonic() - start}


def read_output(output, ended, cases, result):
    case_idx = 0
    seed = "?"
    for line in output.splitlines():
        if line == "end":
            case_idx += 1
            continue
        words = line.split(" ", 3)
        seed = words[1]
        if len(words) > 3 and words[2] == "ok":
            element, norm = map(float, words[3].split())
            result["element"] = max(result["element"], element)
            result["norm"] = max(result["norm"], norm)
            result["runs"] += 1
        elif len(words) > 3 and words[2] == "wrong":
            result["runs"] += 1
            result["failures"].append(f"{say_case(cases[case_idx])} seed {seed}: " + words[3].replace("\t", "\n"))
    if ended:
        where = say_case(cases[case_idx]) if case_idx < len(cases) else "at its end"
        result["failures"].append(f"{where} seed {seed}: {ended}")
    elif case_idx != len(cases):
        result["failures"].append("not all cases were run")


def say_case(case):
    return f"S={case['axes']['S']} {case['inputs']} SMS={case['sms']}"


def say_config(config):
    return ",".join(f"{name}={value}" for name, value in config.items())


def report(job, result, verbose):
    """Prints a line, and the failures. Returns whether there were any."""
    failed = bool(result["failures"])
    mask = "causal" if job["causal"] else "full"
    kind = "bf16" if job["bf16"] else "f16"
    print(f"{job['contract']['name']:16} {job['d']:3} {mask:6} {kind:4} {result['runs']:5} {result['element']:8.2f} "
          f"{result['norm']:6.3f} {result['seconds']:5.1f}  {say_config(job['config'])}{'  FAILED' if failed else ''}")
    shown = result["failures"] if verbose else result["failures"][:3]
    for failure in shown:
        print(f"    {failure}")
    if len(shown) < len(result["failures"]):
        print(f"    and {len(result['failures']) - len(shown)} more")
    sys.stdout.flush()
    return failed


# --- Broken kernels --------------------------------------------------------------------------------------------------


def check_broken(arguments, machine, lab):
    """Every broken variant must be reported. Returns how many are not."""
    print("broken on purpose:")

    def attempt(variant):
        one = contracts.load_contract(variant["rung"])
        axes = {"B": 1, "H": variant.get("h", 2), "S": variant["s"], "D": variant["d"], "CAUSAL": variant["causal"],
                "BF16": 1}
        case = {"axes": axes, "sms": 1, "inputs": variant.get("inputs", "normal"),
                "independent_lanes": variant.get("independent_lanes", False), "first_seed": 1, "n_seeds": 4}
        config = {**contracts.default_config(one), **variant.get("config", {})}
        job = {"contract": one, "config": config, "d": variant["d"],
               "causal": variant["causal"], "bf16": 1, "cases": [case]}
        return run_job(arguments, machine, lab, job, [variant["change"]])

    n_unseen = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for variant, result in zip(broken.VARIANTS, pool.map(attempt, broken.VARIANTS)):
            # A variant that cannot be made is no proof.
            made = result["runs"] > 0
            seen = made and len(result["failures"]) > 0
            n_unseen += not seen
            first = result["failures"][0].splitlines()[0] if result["failures"] else "nothing was reported"
            word = "seen  " if seen else "UNSEEN"
            print(f"  {word} {variant['rung']:14} {variant['what']} ({len(result['failures'])} of 4): {first}")
    return n_unseen


if __name__ == "__main__":
    sys.exit(main())
