"""Compiles a rung's own source for the emulated machine."""

import hashlib
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from contract import INCLUDE, KERNELS, ROOT

HERE = Path(__file__).resolve().parent
BUILD = ROOT / "target/emulate"
FLAGS = ["-std=c++20", "-O2", "-march=native", "-fno-strict-aliasing", "-Wall", "-Wno-unknown-pragmas"]
# Kernels are written for another compiler; what it would say here is not about them.
KERNEL_FLAGS = ["-Wno-unused", "-Wno-unused-but-set-variable", "-Wno-maybe-uninitialized", "-Wno-uninitialized"]


class BuildError(Exception):
    pass


def compile_file(compiler, source, target, extra):
    command = [compiler, *FLAGS, *extra, "-c", str(source), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(done.stderr)


def fingerprint(paths, words):
    state = hashlib.sha256("\0".join(words).encode())
    for path in sorted(paths):
        state.update(str(path).encode() + path.read_bytes())
    return state.hexdigest()[:16]


def build_machine(compiler):
    """The machine's objects; they are the same for every kernel."""
    sources = sorted((HERE / "machine").glob("*.cc"))
    key = fingerprint((HERE / "machine").iterdir(), [compiler, *FLAGS])
    folder = BUILD / f"machine-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda source: build_object(compiler, source, folder), sources))


def build_object(compiler, source, folder):
    target = folder / f"{source.stem}.o"
    if not target.exists():
        part = folder / f"{source.stem}.{os.getpid()}.o"
        compile_file(compiler, source, part, ["-O3"] if source.stem in ("products", "cases") else [])
        part.replace(target)
    return target


# Dynamic shared memory has an address of its own in every block, so the declaration becomes a pointer.
SHARED = re.compile(r"extern\s+__shared__\s+(?:__align__\(\d+\)\s+)?([\w ]+?)\s+(\w+)\[\];")


def translate(text):
    return SHARED.sub(r"\1 *\2 = reinterpret_cast<\1 *>(emu::this_block().shared);", text)


def apply_change(files, change):
    """Puts one text in the place of another, which must be there exactly once in all files."""
    before, after = change
    holders = [name for name, text in files.items() if before in text]
    if len(holders) != 1 or files[holders[0]].count(before) != 1:
        raise BuildError(f"the text to change is not there exactly once: {before}")
    files[holders[0]] = files[holders[0]].replace(before, after)


def build_kernel(compiler, machine, contract, config, axes, changes=()):
    """A program for one configuration and the axes that the contract specializes. `changes` are textual."""
    name = contract["name"]
    files = {path.name: path.read_text() for path in INCLUDE.glob("*.cuh")}
    files[f"{name}.cu"] = (KERNELS / f"{name}.cu").read_text()
    needed = sources_of(f"{name}.cu", files)
    for change in changes:
        apply_change(needed, change)
    defines = {**config, **{axis: axes[axis] for axis in contract.get("specialize", [])}}
    flags = [f"-D{key}={value}" for key, value in sorted(defines.items())]
    n_maps = len(contract["tma"])
    texts = [f"{path}\n{text}" for path, text in sorted(needed.items())]
    stand_ins = [path for path in (HERE / "include").rglob("*") if path.is_file()]
    key = fingerprint(stand_ins, [compiler, *FLAGS, *KERNEL_FLAGS, *flags, *texts, *map(str, machine)])
    folder = BUILD / f"{name}-{key}"
    program = folder / "program"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in needed.items():
        (folder / path).write_text(translate(text))
    entry = contract["launch"][0]["entry"]
    (folder / "call.cc").write_text(call_source(name, entry, n_maps))
    include = [f"-I{HERE / 'include'}", f"-I{HERE / 'machine'}", "-include", "emulate.h"]
    part = folder / f"program.{os.getpid()}"
    compile_file(compiler, folder / "call.cc", folder / "call.o", [*KERNEL_FLAGS, *include, *flags])
    link = [compiler, str(folder / "call.o"), *map(str, machine), "-o", str(part)]
    done = subprocess.run(link, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(done.stderr)
    part.replace(program)
    return program


def sources_of(start, files):
    """The start and those of our headers that it includes, directly or not. The PTX layer is replaced, not read."""
    found, todo = {}, [start]
    while todo:
        path = todo.pop()
        if path in found or path not in files:
            continue
        found[path] = files[path]
        todo += re.findall(r'#include "([\w.]+)"', files[path])
    return found


def call_source(name, entry, n_maps):
    tensors = ", ".join(f"AnyPointer{{arguments.tensors[{i}]}}" for i in range(4))
    axes = ", ".join(f"arguments.axes[{i}]" for i in range(6))
    maps = "".join(f", arguments.maps[{i}]" for i in range(n_maps))
    return (
        f'#include "{name}.cu"\n\n#include "kernel.h"\n\n'
        "void call_kernel(const KernelArguments &arguments) {\n"
        f"    {entry}({tensors}, {axes}, arguments.scale{maps});\n}}\n"
    )
