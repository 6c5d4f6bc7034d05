"""What Kernel Tuner and pyATF do, one job per process, told and answered in JSON.

Runs inside the virtual environment that search.py makes. A job is one JSON line on standard input; the
answer is the last line of standard output, since the tuners print lines of their own.
"""

import json
import resource
import statistics
import sys
import time
import warnings
from pathlib import Path


def peak_rss_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def build_kernel_tuner(job):
    """Constructs a space with Kernel Tuner's default solver."""
    from kernel_tuner.searchspace import Searchspace

    space = json.loads(Path(job["file"]).read_text())
    # Kernel Tuner adds a limit on the product of block_size_x, _y and _z by itself; a limit that excludes
    # nothing leaves the space as it is written down.
    begun = time.process_time()
    built = Searchspace(space["params"], list(space["constraints"]), 1 << 40)
    return {"cpu_s": time.process_time() - begun, "valid": built.size}


def build_pyatf(job):
    """Constructs a space with pyATF. A constraint belongs to the last parameter that it mentions."""
    import ast

    from pyatf import TP, Set
    from pyatf.search_space import SearchSpace

    space = json.loads(Path(job["file"]).read_text())
    names = list(space["params"])
    by_last = {name: [] for name in names}
    for text in space["constraints"]:
        used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        used = [name for name in names if name in used]
        if used:
            by_last[used[-1]].append((text, used))
    parameters = []
    for name in names:
        constraint = None
        if by_last[name]:
            used = {other for _, others in by_last[name] for other in others} | {name}
            arguments = ", ".join(other for other in names if other in used)
            text = " and ".join(f"({text})" for text, _ in by_last[name])
            constraint = eval(f"lambda {arguments}: {text}")  # the benchmark's own files
        parameters.append(TP(name, Set(*space["params"][name]), constraint))
    begun = time.process_time()
    built = SearchSpace(*parameters, verbosity=0)
    return {"cpu_s": time.process_time() - begun, "valid": built.constrained_size}


class Visits(set):
    """A set that remembers in which order it grew."""

    def __init__(self):
        super().__init__()
        self.order = []

    def add(self, key):
        if key not in self:
            self.order.append(key)
        super().add(key)


def simulate(job):
    """Lets a strategy search a recorded space several times; returns the quality after each budget."""
    import random

    import kernel_tuner
    import numpy
    from kernel_tuner import interface
    from kernel_tuner.runners.simulation import SimulationRunner
    from kernel_tuner.searchspace import Searchspace

    warnings.simplefilter("ignore")
    path = job["file"]
    recorded = json.loads(Path(path).read_text())
    names = recorded["tune_params_keys"]

    def time_of(entry):
        if entry.get("times"):
            return statistics.median(entry["times"])
        return entry["time"] if isinstance(entry["time"], (int, float)) else None

    times = {key: time_of(entry) for key, entry in recorded["cache"].items()}
    optimum = min(value for value in times.values() if value is not None)
    key_of = lambda params: ",".join(str(params[name]) for name in names)

    def fresh_space():
        """A space remembers neighbours that were asked for, by which a search would learn where earlier ones were."""
        space = Searchspace(None, None, None, from_cache=recorded)
        # Strategies that leave the space must see that they did, as they would with its constraints.
        space._modified_restrictions = lambda params: key_of(params) in times
        return space

    visits = None
    original = SimulationRunner.__init__

    def instrumented(self, *arguments, **options):
        nonlocal visits
        original(self, *arguments, **options)
        visits = self.visited_results = Visits()

    SimulationRunner.__init__ = instrumented
    qualities = {budget: [] for budget in job["budgets"]}
    cpu_s = 0.0
    for repeat in range(job["repeats"]):
        space = fresh_space()
        interface.Searchspace = lambda *arguments, **options: space
        begun = time.process_time()
        random.seed(repeat)
        numpy.random.seed(repeat)
        kernel_tuner.tune_kernel(
            recorded["kernel_name"],
            "",
            recorded.get("problem_size") or 1,
            [],
            {name: recorded["tune_params"][name] for name in names},
            strategy=job["strategy"],
            strategy_options={"max_fevals": max(job["budgets"])},
            cache=path,
            simulation_mode=True,
            lang="CUDA",
            quiet=True,
        )
        cpu_s += (time.process_time() - begun) / job["repeats"]
        for budget in job["budgets"]:
            found = [times[key] for key in visits.order[:budget] if times.get(key) is not None]
            qualities[budget].append(optimum / min(found) if found else 0.0)
    return {
        "means": {str(budget): statistics.mean(values) for budget, values in qualities.items()},
        "cpu_s_per_search": cpu_s,
    }


def tune(job):
    """Tunes a C function with Kernel Tuner; returns the winner and when each evaluation was done."""
    import datetime
    import random

    import kernel_tuner
    import numpy

    warnings.simplefilter("ignore")
    random.seed(job["seed"])
    numpy.random.seed(job["seed"])
    rng = numpy.random.default_rng(job["seed"])
    m, n, k = job["shape"]
    a = rng.standard_normal((m, k), dtype=numpy.float32)
    b = rng.standard_normal((k, n), dtype=numpy.float32)
    c = numpy.zeros((m, n), dtype=numpy.float32)
    names = list(job["tune_params"])
    begun, begun_unix_s = time.monotonic(), time.time()
    # The expected result is part of the job: both tools check every configuration.
    expected = (a.astype(numpy.float64) @ b.astype(numpy.float64)).astype(numpy.float32)
    results, _ = kernel_tuner.tune_kernel(
        job["entry"],
        job["source"],
        1,
        [a, b, c],
        job["tune_params"],
        restrictions=job["constraints"],
        answer=[None, None, expected],
        atol=1e-2,
        lang="C",
        compiler=job["compiler"],
        compiler_options=job["compiler_options"],
        strategy=job["strategy"],
        strategy_options={"max_fevals": job["budget"]},
        quiet=True,
    )
    wall_s = time.monotonic() - begun
    timed = [row for row in results if isinstance(row.get("time"), (int, float))]
    best = min(timed, key=lambda row: row["time"])
    at = lambda row: datetime.datetime.fromisoformat(row["timestamp"]).timestamp()
    return {
        "wall_s": wall_s,
        "started_unix_s": begun_unix_s,
        "seen": [(at(row), float(row["time"])) for row in timed],
        "evaluations": len(results),
        "winner": {name: best[name] for name in names},
        "time_ms": float(best["time"]),
    }


JOBS = {"build_kernel_tuner": build_kernel_tuner, "build_pyatf": build_pyatf, "simulate": simulate, "tune": tune}


def main():
    job = json.loads(sys.stdin.readline())
    answer = JOBS[job["do"]](job)
    answer["peak_rss_bytes"] = peak_rss_bytes()
    print("\n" + json.dumps(answer))


if __name__ == "__main__":
    main()
