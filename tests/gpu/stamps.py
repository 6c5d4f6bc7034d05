#!/usr/bin/env python3
"""Looks into a launch of 90_zero_reference or 95_zero_reference_wide: when which step is reached, and how long a launch takes.

    python3 tests/gpu/stamps.py 90_zero_reference --shape 4,8,512,64 --causal 0,1 --set TILES=1,SPLIT=1,BLOCKS=2 --set SLOTS=2

Needs a Hopper GPU, PyTorch and nvcc. For experiments: its clock is a plain loop over inputs that the cache cannot hold,
and it checks one answer of each configuration. Evidence is what `warpsmith compare` measures.
"""

import argparse
import concurrent.futures
import ctypes
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/emulate"))
import contract as contracts  # noqa: E402: from the folder above

CHUNKS = 4  # whose weights are shown
CACHE_STATES = ["full of launches before", "full of what was read", "full of what was written",
                "full of what was written, except for the code"]
TENSOR_MAP_BYTES = 128
MAX_DYNAMIC_SHARED_MEMORY = 8  # CUfunction_attribute
CLUSTER_DIMENSION = 4  # CUlaunchAttributeID


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rung")
    parser.add_argument("--shape", required=True, help="B,H,S,D")
    parser.add_argument("--causal", default="0,1")
    parser.add_argument("--bf16", default="1")
    parser.add_argument("--set", action="append", default=[], help="NAME=VALUE,...: the rest from the contract's default")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cold", action="store_true", help="stamps after the cache has been filled with something else, too")
    return parser.parse_args()


def configurations(contract, settings):
    for text in settings or [""]:
        config = contracts.default_config(contract)
        for pair in filter(None, text.split(",")):
            name, value = pair.split("=")
            if name not in config:
                raise SystemExit(f"{contract['name']} has no tunable `{name}`")
            config[name] = int(value)
        broken = contracts.broken_constraints(contract, config)
        if broken:
            raise SystemExit(f"{text}: breaks {broken[0]}")
        yield text or "default", config


def compile_kernel(contract, config, axes, stamps, folder):
    """A cubin, and what the compiler says of spills and products one after the other."""
    nvcc = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin/nvcc"
    defines = {**config, **{name: axes[name] for name in contract["specialize"]}}
    if stamps:
        defines["STAMPS"] = stamps
    text = ",".join(f"{name}={value}" for name, value in sorted(defines.items()))
    path = Path(folder) / f"{text}.cubin"
    command = [nvcc, "-gencode=arch=compute_90a,code=sm_90a", "-cubin", "-std=c++17", "-Xptxas", "-v",
               f"-I{contracts.INCLUDE}", f"-I{contracts.SHARED}", "-o", path, *(f"-D{name}={value}" for name, value in defines.items()),
               contracts.KERNELS / f"{contract['name']}.cu"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    remarks = [line.strip() for line in (done.stdout + done.stderr).splitlines()
               if re.search(r"C75\d\d|[1-9]\d* bytes spill", line)]
    return path, remarks


class Driver:
    """The few calls of CUDA's driver that are needed."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments):
            code = function(*arguments)
            if code:
                why = ctypes.c_char_p()
                self.library.cuGetErrorString(code, ctypes.byref(why))
                raise SystemExit(f"{name}: {why.value.decode() if why.value else code}")
        return call


class LaunchConfig(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("smem", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("n_attributes", ctypes.c_uint)]


class Kernel:
    def __init__(self, driver, path, smem):
        self.driver = driver
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        driver.cuModuleLoad(ctypes.byref(self.module), str(path).encode())
        driver.cuModuleGetFunction(ctypes.byref(self.function), self.module, b"attention_fwd")
        driver.cuFuncSetAttribute(self.function, MAX_DYNAMIC_SHARED_MEMORY, ctypes.c_int(smem))

    def read(self, symbol, kind):
        """A device array."""
        import numpy
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        self.driver.cuModuleGetGlobal_v2(ctypes.byref(address), ctypes.byref(size), self.module, symbol.encode())
        values = numpy.empty(size.value // numpy.dtype(kind).itemsize, dtype=kind)
        self.driver.cuMemcpyDtoH_v2(values.ctypes.data_as(ctypes.c_void_p), address, size)
        return values


class Launch:
    """One launch on one set of tensors; it keeps alive whatever the driver points to."""

    def __init__(self, kernel, contract, names, tensors):
        self.kernel = kernel
        launch = contract["launch"][0]
        axes = [ctypes.c_int(names[name]) for name in ("B", "H", "S", "D", "CAUSAL", "BF16")]
        self.values = [ctypes.c_uint64(tensor.data_ptr()) for tensor in tensors.values()]
        self.values += axes + [ctypes.c_float(names["D"] ** -0.5)]
        self.maps = [self.encode(tma, names, tensors[tma["tensor"]]) for tma in contract["tma"]]
        pointers = [ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in self.values]
        pointers += [ctypes.c_void_p(address) for _, address in self.maps]
        self.parameters = (ctypes.c_void_p * len(pointers))(*pointers)
        smem = int(contracts.evaluate(str(launch["smem"]), names))
        triple = lambda key: (ctypes.c_uint * 3)(*contracts.three(launch.get(key, []), names))  # noqa: E731
        self.config = LaunchConfig(triple("grid"), triple("block"), smem, None, None, 0)
        if "cluster" in launch:
            self.attribute = (ctypes.c_uint * 18)(CLUSTER_DIMENSION, 0, *triple("cluster"))
            self.config.attributes, self.config.n_attributes = ctypes.addressof(self.attribute), 1

    def encode(self, tma, names, tensor):
        shape = [int(contracts.evaluate(text, names)) for text in reversed(tma["shape"])]
        box = [int(contracts.evaluate(text, names)) for text in reversed(tma["box"])]
        strides, bytes_so_far = [], tensor.element_size()
        for extent in shape[:-1]:
            bytes_so_far *= extent
            strides.append(bytes_so_far)
        buffer = (ctypes.c_char * (TENSOR_MAP_BYTES + 64))()
        address = (ctypes.addressof(buffer) + 63) // 64 * 64
        rank, ones = len(shape), [1] * len(shape)
        kind = 9 if names["BF16"] else 6  # bfloat16, half
        swizzle = {0: 0, 32: 1, 64: 2, 128: 3}[tma.get("swizzle", 0)]
        self.kernel.driver.cuTensorMapEncodeTiled(
            ctypes.c_void_p(address), kind, rank, ctypes.c_void_p(tensor.data_ptr()), (ctypes.c_uint64 * rank)(*shape),
            (ctypes.c_uint64 * (rank - 1))(*strides), (ctypes.c_uint32 * rank)(*box), (ctypes.c_uint32 * rank)(*ones),
            0, swizzle, 0, 0)
        return buffer, address

    def one_block(self):
        """One block for all tiles, which brings the code into the second-level cache, and few inputs."""
        whole = self.config.grid
        self.config.grid = (ctypes.c_uint * 3)(1, 1, 1)
        self()
        self.config.grid = whole

    def __call__(self):
        import torch
        self.config.stream = torch.cuda.current_stream().cuda_stream
        self.kernel.driver.cuLaunchKernelEx(ctypes.byref(self.config), self.kernel.function, self.parameters, None)


def make_tensors(names, seed):
    import torch
    kind = torch.bfloat16 if names["BF16"] else torch.float16
    shape = [names[axis] for axis in "BHSD"]
    generator = torch.Generator(device="cuda").manual_seed(seed)
    tensors = {name: torch.randn(shape, device="cuda", generator=generator).to(kind) for name in "qkv"}
    tensors["o"] = torch.full(shape, float("nan"), device="cuda", dtype=kind)
    return tensors


def relative_error(tensors, causal):
    """Of the whole output, in units of its type's precision."""
    import torch
    q, k, v = (tensors[name].double() for name in "qkv")
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        length = q.shape[2]
        ahead = torch.ones(length, length, device="cuda", dtype=torch.bool).triu(1)
        scores = scores.masked_fill(ahead, float("-inf"))
    expected = torch.softmax(scores, -1) @ v
    return float((tensors["o"].double() - expected).norm() / expected.norm() / torch.finfo(tensors["o"].dtype).eps)


def interleaved_times(launches, rounds):
    """Microseconds a launch, by label: medians of rounds in which everyone runs once through its inputs."""
    import torch
    graphs = {}
    for label, of_label in launches.items():
        graphs[label] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[label], stream=torch.cuda.Stream()):
            for launch in of_label:
                launch()
    times = {label: [] for label in graphs}
    for _ in range(rounds):
        for label, graph in graphs.items():
            graph.replay()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(3):
                graph.replay()
            end.record()
            end.synchronize()
            times[label].append(start.elapsed_time(end) * 1e3 / (3 * len(launches[label])))
    return {label: sorted(of_label)[rounds // 2] for label, of_label in times.items()}


def stamp_names():
    """The steps in the header's order."""
    text = (contracts.INCLUDE / "stamps.cuh").read_text()
    body = re.sub(r"//.*", "", re.search(r"enum Stamp \{(.*?)\}", text, re.S).group(1))
    names = [name.strip() for name in body.split(",")]
    return names[:names.index("kWeighed")], int(re.search(r"kStamps = (\d+)", text).group(1))


def prepare_cache(state, launches):
    """Leaves the second-level cache as the name says; the last of `launches` is the one to be looked at."""
    import torch
    other = torch.empty(64 << 20, dtype=torch.int32, device="cuda")  # several times the cache
    other.fill_(1)
    if state == "full of what was read":
        for _ in range(2):
            torch.sum(other)
    elif state == "full of what was written, except for the code":
        launches[0].one_block()
    elif state == "full of launches before":
        for launch in launches[:-1]:
            launch()


def show_stamps(kernel, launches, n_blocks, state):
    """Medians over blocks, in ns after the entry of a block's first warpgroup; tenth and ninetieth percentile of the
    first and the last step, in ns after the first block's entry."""
    import numpy
    import torch
    names, n_stamps = stamp_names()
    prepare_cache(state, launches)
    launches[-1]()
    torch.cuda.synchronize()
    cycles = kernel.read("_ZN2ws6stampsE", numpy.uint32).reshape(-1, 8, n_stamps)[:n_blocks].astype(numpy.int64)
    times = kernel.read("_ZN2ws11stamp_timesE", numpy.uint64).reshape(-1, 8, 2)[:n_blocks].astype(numpy.int64)
    used = times[:, :, 1] != 0  # producers do not leave a time
    entered, left = names.index("kEntered"), names.index("kLeft")
    spent_cycles = (cycles[:, :, left] - cycles[:, :, entered])[used] % (1 << 32)
    spent_ns = (times[:, :, 1] - times[:, :, 0])[used]
    clock = spent_cycles.sum() / max(1, spent_ns.sum())
    origin = times[:, :, 0][times[:, :, 0] != 0].min()
    quantiles = lambda values: " ".join(f"{int(x)}" for x in numpy.percentile(values, [0, 10, 50, 90, 100]))  # noqa: E731
    print(f"    cache {state}: {clock:.2f} GHz; entered {quantiles(times[:, :, 0][used] - origin)}, "
          f"left {quantiles(times[:, :, 1][used] - origin)} ns (least, 10 %, median, 90 %, most)")
    start = cycles[:, :, entered].copy()
    start[start == 0] = 1 << 40
    start = start.min(axis=1)
    for warpgroup in range(8):
        seen = cycles[:, warpgroup]
        if not seen.any():
            continue
        cells = []
        labels = names[1:] + [f"weighed{i}" for i in range(CHUNKS)]
        columns = list(range(1, len(names))) + list(range(len(names), len(names) + CHUNKS))
        for label, column in zip(labels, columns):
            there = seen[:, column] != 0
            if there.any():
                after = numpy.median((seen[there, column] - start[there]) % (1 << 32)) / clock
                cells.append((after, f"{label.removeprefix('k')} {int(after)}"))
        print(f"    warpgroup {warpgroup}: " + ", ".join(text for _, text in sorted(cells)))


def main():
    arguments = parse_arguments()
    try:
        import torch
    except ImportError:
        raise SystemExit("needs PyTorch: pip install torch numpy") from None
    if not torch.cuda.is_available():
        raise SystemExit("needs a GPU: PyTorch sees none")
    torch.zeros(1, device="cuda")  # makes the context that the driver's calls use
    driver = Driver()
    contract = contracts.load_contract(arguments.rung)
    b, h, s, d = map(int, arguments.shape.split(","))
    configs = list(configurations(contract, arguments.set))
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    for causal in map(int, arguments.causal.split(",")):
        for bf16 in map(int, arguments.bf16.split(",")):
            axes = {"B": b, "H": h, "S": s, "D": d, "CAUSAL": causal, "BF16": bf16}
            n_sets = min(60, max(5, 130_000_000 // (b * h * s * d * 8)))
            sets = [make_tensors(axes, seed) for seed in range(n_sets)]
            print(f"{arguments.rung} {arguments.shape} causal {causal} bf16 {bf16}, {n_sets} inputs")
            with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor() as pool:
                builds = {}
                for label, config in configs:
                    names = {**contracts.DEVICE, **config, **axes, "SMS": sms}
                    grid = contracts.three(contract["launch"][0]["grid"], names)
                    n_blocks = grid[0] * grid[1] * grid[2]
                    builds[label] = (names, n_blocks, [pool.submit(compile_kernel, contract, config, axes, stamps, folder)
                                                       for stamps in (0, n_blocks)])
                plain, stamped, errors = {}, {}, {}
                for label, (names, n_blocks, jobs) in builds.items():
                    smem = int(contracts.evaluate(str(contract["launch"][0]["smem"]), names))
                    for kind, job in zip((plain, stamped), jobs):
                        path, remarks = job.result()
                        for remark in remarks:
                            print(f"    {label}: {remark}")
                        kernel = Kernel(driver, path, smem)
                        kind[label] = [Launch(kernel, contract, names, tensors) for tensors in sets]
                    sets[0]["o"].fill_(float("nan"))
                    plain[label][0]()
                    torch.cuda.synchronize()
                    errors[label] = relative_error(sets[0], causal)
                for label, time in interleaved_times(plain, arguments.rounds).items():
                    print(f"  {time:8.2f} µs, error {errors[label]:.3f} epsilon: {label}")
                    for state in CACHE_STATES if arguments.cold else CACHE_STATES[:1]:
                        show_stamps(stamped[label][0].kernel, stamped[label][:5], builds[label][1], state)


if __name__ == "__main__":
    main()
