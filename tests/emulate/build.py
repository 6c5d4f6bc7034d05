"""Compiles a rung's own source for the emulated machine."""

import hashlib
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from contract import INCLUDE, KERNELS, ROOT
from ptx_layer import plain_parts

HERE = Path(__file__).resolve().parent
BUILD = ROOT / "target/emulate"
FLAGS = ["-std=c++20", "-march=native", "-fno-strict-aliasing", "-Wall", "-Wno-unknown-pragmas"]
# Kernels are written for another compiler; what it would say here is not about them.
KERNEL_FLAGS = ["-O1", f"-I{HERE / 'include'}", f"-I{HERE / 'machine'}", "-Wno-unused", "-Wno-maybe-uninitialized",
                "-Wno-uninitialized"]


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
    """The machine's objects, and a header compiled ahead; they are the same for every kernel. Returns their folder."""
    sources = sorted((HERE / "machine").glob("*.cc"))
    key = fingerprint(files_in("machine") + files_in("include"), [compiler, *FLAGS, *KERNEL_FLAGS])
    folder = BUILD / f"machine-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    header = folder / "emulate.h"
    header.write_text(f'#include "{HERE / "include/emulate.h"}"\n')
    tasks = [(source, folder / f"{source.stem}.o", optimisation(source)) for source in sources]
    tasks.append((header, folder / "emulate.h.gch", ["-x", "c++-header", *KERNEL_FLAGS]))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda task: build_object(compiler, *task), tasks))
    return folder


def optimisation(source):
    return ["-O3"] if source.stem in ("products", "cases") else ["-O2"]


def build_object(compiler, source, target, flags):
    if not target.exists():
        part = target.with_suffix(f".{os.getpid()}{target.suffix}")
        compile_file(compiler, source, part, flags)
        part.replace(target)


def files_in(folder):
    return [path for path in (HERE / folder).rglob("*") if path.is_file()]


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
    needed |= plain_parts()
    defines = {**config, **{axis: axes[axis] for axis in contract.get("specialize", [])}}
    flags = [f"-D{key}={value}" for key, value in sorted(defines.items())]
    n_maps = len(contract["tma"])
    texts = [f"{path}\n{text}" for path, text in sorted(needed.items())]
    key = fingerprint([], [machine.name, *flags, *texts])
    folder = BUILD / f"{name}-{key}"
    program = folder / "program"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in needed.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(translate(text))
    entry = contract["launch"][0]["entry"]
    (folder / "call.cc").write_text(call_source(name, entry, n_maps))
    part = folder / f"program.{os.getpid()}"
    include = [f"-I{folder}", "-include", str(machine / "emulate.h")]
    compile_file(compiler, folder / "call.cc", folder / "call.o", [*KERNEL_FLAGS, *include, *flags])
    link = [compiler, str(folder / "call.o"), *map(str, sorted(machine.glob("*.o"))), "-o", str(part)]
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
