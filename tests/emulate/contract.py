"""Contracts of kernels and the lab: what a launch looks like for given axes and tunables."""

import os
import tomllib
from pathlib import Path

ROOT = Path(os.environ.get("EMULATE_ROOT") or Path(__file__).resolve().parents[2])
LAB = ROOT / "labs/attention/cuda"
KERNELS = LAB / "kernels"
# The headers of the lab, and those of all labs.
INCLUDE = LAB / "include"
SHARED = ROOT / "labs/include"

# Of an H200. A case may have fewer multiprocessors, so that blocks stay and take several tiles.
DEVICE = {"SMS": 132, "WARP_SIZE": 32, "MAX_THREADS": 1024, "SMEM_PER_BLOCK": 232448}


def load_lab():
    return tomllib.loads((LAB / "lab.toml").read_text())


def load_contract(rung):
    """The contract of a rung, by its name or the number that the name begins with."""
    found = [path for path in sorted(KERNELS.glob("*.toml")) if path.stem == rung or path.stem.split("_")[0] == rung]
    if len(found) != 1:
        raise SystemExit(f"no rung `{rung}` in {KERNELS}")
    contract = tomllib.loads(found[0].read_text())
    contract["name"] = found[0].stem
    return contract


def evaluate(expression, names):
    functions = {"ceil_div": lambda a, b: -(-a // b), "min": min, "max": max, "abs": abs, "__builtins__": {}}
    return eval(expression, functions, dict(names))  # noqa: S307: our own contracts


def is_hopper(contract):
    return bool(contract.get("tma")) and contract.get("arch") == "sm_90a"


def default_config(contract):
    return dict(contract.get("search", {}).get("default") or {k: v[0] for k, v in contract["tunables"].items()})


def broken_constraints(contract, config):
    names = {**DEVICE, **config}
    return [text for text in contract.get("constraints", []) if not evaluate(text, names)]


def serves(contract, axes):
    return all(evaluate(text, axes) for text in contract.get("requires", []))


def three(expressions, names):
    values = [int(evaluate(text, names)) for text in expressions]
    return values + [1] * (3 - len(values))


def describe_case(contract, config, case, lab):
    """The case in the words that machine/cases.cc reads."""
    axes = case["axes"]
    names = {**DEVICE, **config, **axes, "SMS": case["sms"]}
    if len(contract["launch"]) != 1 or contract.get("scratch"):
        raise SystemExit(f"{contract['name']}: kernels of one launch without scratch memory are emulated")
    launch = contract["launch"][0]
    words = ["case"]
    words += [axes[name] for name in lab["axes"]]
    words += [axes["D"] ** -0.5, lab["tolerance"]["element_eps"], lab["tolerance"]["norm_eps"]]
    words += [case["inputs"], case["first_seed"], case["n_seeds"]]
    words += three(launch["grid"], names) + three(launch.get("cluster", []), names)
    words += [three(launch["block"], names)[0], int(evaluate(str(launch.get("smem", 0)), names))]
    words += [int(case["independent_lanes"]), len(contract["tma"])]
    tensors = [tensor["name"] for tensor in lab["tensor"]]
    for tma in contract["tma"]:
        words += [tensors.index(tma["tensor"]), len(tma["shape"]), tma.get("swizzle", 0)]
        for shape, box in zip(tma["shape"], tma["box"]):
            words += [int(evaluate(shape, names)), int(evaluate(box, names))]
    return " ".join(str(word) for word in words) + "\n"
