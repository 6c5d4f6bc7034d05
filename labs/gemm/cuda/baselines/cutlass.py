"""CUTLASS's templates for Hopper, compiled from the headers on PyPI: the fastest of a few configurations.

The first use compiles `cutlass.cu` with nvcc, once for each configuration and side by side, into a folder
that is named after everything that went in. Each library is disassembled before it is used: one without
warpgroup instructions of the tensor cores (HGMMA) is refused.

As a program it needs neither a GPU nor PyTorch:

    python cutlass.py              compile every configuration, and show what is in the code
    python cutlass.py --check N    compile the device code alone of configuration N, for the lab's A B and for A Bᵀ
"""

import concurrent.futures
import ctypes
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "cutlass.cu")
ARCH = "sm_90a"
HEADERS = "nvidia-cutlass==4.2.0.0"

# Tile of M and N, cluster of M and N, whether two warpgroups share a tile. The usual choices for large, middling and
# small products; small ones need more tiles than there are multiprocessors.
CONFIGURATIONS = [
    (128, 256, 2, 1, 1),
    (256, 128, 2, 1, 1),
    (128, 128, 2, 1, 1),
    (128, 128, 2, 1, 0),
    (64, 256, 2, 1, 0),
    (64, 128, 1, 1, 0),
]
# What a warpgroup instruction of the tensor cores is called in machine code.
TENSOR_CORES = "HGMMA"
ROUNDS = 5


def prepare(axes, scalars, threads):
    import torch

    libraries = [(configuration, load(path)) for configuration, path in build_all()]
    m, n, k = (int(axes[name]) for name in ("M", "N", "K"))
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    trial = {
        "a": torch.randn([m, k], dtype=torch.float16, device="cuda"),
        "b": torch.randn([k, n], dtype=torch.float16, device="cuda"),
    }
    # Cold, as the harness times: written between readings.
    flush = torch.empty(64 << 20, dtype=torch.int32, device="cuda")
    timed = []
    for configuration, library in libraries:
        workspace_bytes = library.cutlass_workspace_bytes(m, n, k, sms)
        workspace = torch.empty(max(workspace_bytes, 1), dtype=torch.uint8, device="cuda")
        state = {"library": library, "workspace": workspace, "sms": sms}
        milliseconds = []
        for _ in range(1 + ROUNDS):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.fill_(1)
            start.record()
            run(state, trial)
            stop.record()
            stop.synchronize()
            milliseconds.append(start.elapsed_time(stop))
        timed.append((sorted(milliseconds[1:])[ROUNDS // 2], describe(configuration), state))
    _, words, state = min(timed, key=lambda entry: entry[0])
    state["remark"] = f"CUTLASS {header_version()}: {words} was the fastest of {len(timed)} configurations"
    return state


def run(state, inputs):
    import torch

    a, b = inputs["a"], inputs["b"]
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty([m, n], dtype=a.dtype, device=a.device)
    status = state["library"].cutlass_gemm(
        a.data_ptr(), b.data_ptr(), c.data_ptr(), m, n, k, state["sms"], state["workspace"].data_ptr(),
        torch.cuda.current_stream().cuda_stream,
    )
    if status != 0:
        raise RuntimeError(f"CUTLASS answered {status} (1000 and more: CUDA's error and 1000)")
    return {"c": c}


def describe(configuration):
    tile_m, tile_n, cluster_m, cluster_n, is_cooperative = configuration
    schedule = "cooperative" if is_cooperative else "ping-pong"
    return f"{tile_m}x{tile_n}x64, clusters of {cluster_m}x{cluster_n}, {schedule}"


def load(path):
    library = ctypes.CDLL(path)
    pointer, number = ctypes.c_void_p, ctypes.c_int
    library.cutlass_gemm.argtypes = [pointer] * 3 + [number] * 4 + [pointer] * 2
    library.cutlass_gemm.restype = number
    library.cutlass_workspace_bytes.argtypes = [number] * 4
    library.cutlass_workspace_bytes.restype = ctypes.c_size_t
    return library


def build_all():
    """Compiles what is not compiled yet; returns the configurations with their libraries."""
    return list(zip(CONFIGURATIONS, side_by_side(build, CONFIGURATIONS)))


def side_by_side(work, items):
    # A compiler takes about four gigabytes.
    workers = max(1, min(len(items), os.cpu_count() or 1, memory_bytes() // (4 << 30)))
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, items))


def build(configuration):
    """Compiles one configuration, unless that was done before, and proves what is in it."""
    nvcc, headers = find_nvcc(), find_headers()
    words = [open(SOURCE).read(), output_of([nvcc, "--version"]), header_version(), repr(configuration), ARCH]
    key = hashlib.sha256("\0".join(words).encode()).hexdigest()[:24]
    path = os.path.join(cache_folder(), f"cutlass-{key}.so")
    if os.path.exists(path):
        return path
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
        made = os.path.join(folder, "cutlass.so")
        compile_into(made, nvcc, headers, configuration, ["-shared", "-Xcompiler", "-fPIC"])
        prove_tensor_cores(made)
        os.replace(made, path)
    return path


def compile_into(made, nvcc, headers, configuration, mode):
    names = ["TILE_M", "TILE_N", "CLUSTER_M", "CLUSTER_N", "IS_COOPERATIVE"]
    root = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
    folders = [*headers, *(os.path.join(root, folder) for folder in ("include", "include/cccl"))]
    libraries = [os.path.join(root, folder) for folder in ("lib64", "lib")]
    command = [
        nvcc, "-std=c++17", "-O3", "-DNDEBUG", "--expt-relaxed-constexpr",
        f"-gencode=arch=compute_{ARCH[3:]},code={ARCH}", *mode,
        *(f"-D{name}={value}" for name, value in zip(names, configuration)),
        *(f"-I{folder}" for folder in folders if os.path.isdir(folder)),
        *(f"-L{folder}" for folder in libraries if os.path.isdir(folder)),
        "-o", made, SOURCE,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr.strip()]
        raise RuntimeError(f"nvcc could not compile {SOURCE}: {errors[0]}")


def prove_tensor_cores(made):
    """Looks for tensor-core instructions in the machine code; returns how many of each there are."""
    listing = output_of([find_tool("cuobjdump"), "--dump-sass", made])
    counts = {}
    for name in re.findall(rf"\b{TENSOR_CORES}[.\w]*", listing):
        counts[name] = counts.get(name, 0) + 1
    if not counts:
        raise RuntimeError(f"{made} has no {TENSOR_CORES} in its machine code: it would not use the tensor cores")
    return counts


def find_nvcc():
    return find_tool("nvcc")


def find_tool(name):
    """Finds a program of the CUDA toolkit: in CUDA_HOME, on PATH, where `warpsmith setup cuda` puts it, as usual."""
    roots = [os.environ["CUDA_HOME"]] if "CUDA_HOME" in os.environ else []
    on_path = shutil.which(name)
    candidates = [os.path.join(root, "bin", name) for root in roots] + ([on_path] if on_path else [])
    for packages in environments():
        candidates.append(os.path.join(packages, "nvidia", "cu13", "bin", name))
    candidates.append(os.path.join("/usr/local/cuda/bin", name))
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return candidate
    raise FileNotFoundError(f"{name} of the CUDA toolkit was not found; `warpsmith setup cuda` provides it")


def find_headers():
    """Returns the folders of CUTLASS's headers, without importing the package, which needs others."""
    for packages in [*environments(), *sys.path]:
        source = os.path.join(packages, "cutlass_library", "source")
        folders = [os.path.join(source, "include"), os.path.join(source, "tools", "util", "include")]
        if all(os.path.isdir(folder) for folder in folders):
            return folders
    raise FileNotFoundError(
        f"CUTLASS's headers were not found; the baseline needs the Python package {HEADERS}"
    )


def header_version():
    text = open(os.path.join(find_headers()[0], "cutlass", "version.h")).read()
    parts = [re.search(rf"#define CUTLASS_{part}\s+(\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(parts)


def environments():
    """The packages of the environments that `warpsmith setup` makes, this one's first."""
    parts = os.path.dirname(sys.prefix)
    for environment in (sys.prefix, os.path.join(parts, "cuda"), os.path.join(parts, "venv")):
        yield from sorted(glob.glob(os.path.join(environment, "lib", "python3*", "site-packages")))


def cache_folder():
    """Beside the environment that runs this, where it is the project's own; else in the user's cache."""
    parts = os.path.dirname(sys.prefix)
    if os.path.isdir(os.path.join(parts, "artifacts")) and sys.prefix != sys.base_prefix:
        return os.path.join(parts, "cutlass")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "warpsmith", "cutlass")


def memory_bytes():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def output_of(command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check(configuration):
    """Compiles the device code for both layouts of B and shows the tensor-core instructions in it."""
    def of_layout(is_transposed):
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "cutlass.cubin")
            mode = ["-cubin", f"-DB_IS_TRANSPOSED={is_transposed}"]
            compile_into(made, find_nvcc(), find_headers(), configuration, mode)
            return prove_tensor_cores(made)

    for words, counts in zip(["A B", "A Bᵀ"], side_by_side(of_layout, [0, 1])):
        print(f"{words}, {describe(configuration)}: {counts}")


def main():
    if sys.argv[1:2] == ["--check"]:
        return check(CONFIGURATIONS[int(sys.argv[2])])
    for configuration, path in build_all():
        print(f"{describe(configuration)}: {prove_tensor_cores(path)} in {path}")


if __name__ == "__main__":
    main()
