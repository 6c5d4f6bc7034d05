"""What one writes in an hour: a fused kernel in Triton, with the best of its configurations."""

import math
import os
import statistics
from concurrent.futures import ThreadPoolExecutor

import torch
import triton
import triton.language as tl

LOG2_E = 1.4426950408889634
LAUNCHES = 64  # at most, in a reading of the clock
TRIAL_BYTES = 200_000_000  # of all inputs together, at most: several times what a second-level cache holds
READINGS = 15

CONFIGURATIONS = [
    (block_m, block_n, warps, stages)
    for block_m in (64, 128)
    for block_n in (32, 64, 128)
    for warps in (4, 8)
    for stages in (2, 3, 4)
]


@triton.jit
def attention(
    q, k, v, o, scale, s,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64) * s * D
    first = tl.program_id(0) * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    row_at = head + rows[:, None] * D + dims[None, :]
    queries = tl.load(q + row_at, mask=rows[:, None] < s, other=0.0)
    largest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    output = tl.zeros([BLOCK_M, D], tl.float32)
    end = tl.minimum(first + BLOCK_M, s) if CAUSAL else s
    for start in range(0, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        key_at = head + keys[:, None] * D + dims[None, :]
        inside = keys[:, None] < s
        scores = tl.dot(queries, tl.trans(tl.load(k + key_at, mask=inside, other=0.0))) * scale
        visible = keys[None, :] < s
        if CAUSAL:
            visible = visible & (keys[None, :] <= rows[:, None])
        scores = tl.where(visible, scores, float("-inf"))
        now = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp2(scores - now[:, None])
        correction = tl.exp2(largest - now)
        total = total * correction + tl.sum(weights, 1)
        values = tl.load(v + key_at, mask=inside, other=0.0)
        output = output * correction[:, None] + tl.dot(weights.to(values.dtype), values)
        largest = now
    output = output / total[:, None]
    tl.store(o + row_at, output.to(o.dtype.element_ty), mask=rows[:, None] < s)


def prepare(axes, scalars, threads):
    shape = [axes["B"], axes["H"], axes["S"], axes["D"]]
    dtype = torch.bfloat16 if axes["BF16"] else torch.float16
    state = {"causal": bool(axes["CAUSAL"]), "scale": float(scalars["scale"]) * LOG2_E}
    trials = make_trials(shape, dtype)
    # A compiler takes a second for each; the launches below find what the others left on the disk.
    compile_one = lambda it: launch({**state, "configuration": it}, trials[0], warmup=True)
    compile_one(CONFIGURATIONS[0])
    with ThreadPoolExecutor(os.cpu_count()) as compilers:
        list(compilers.map(compile_one, CONFIGURATIONS[1:]))
    best_ms = float("inf")
    for configuration in CONFIGURATIONS:
        try:
            ms = measure({**state, "configuration": configuration}, trials)
        except triton.runtime.errors.OutOfResources:
            continue
        if ms < best_ms:
            best_ms, state["configuration"] = ms, configuration
    return state


def make_trials(shape, dtype):
    """Inputs that the second-level cache does not hold when their turn comes again."""
    trial_bytes = 3 * 2 * math.prod(shape)
    n_trials = max(1, min(LAUNCHES, TRIAL_BYTES // trial_bytes))
    return [
        {name: torch.randn(shape, dtype=dtype, device="cuda") for name in ("q", "k", "v")} for _ in range(n_trials)
    ]


def measure(candidate, trials):
    """Milliseconds of a launch: several in a graph, since a reading of the clock costs as much as a launch."""
    for inputs in trials:
        run(candidate, inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()
        for inputs in trials:
            run(candidate, inputs)
        graph.capture_end()
    readings = []
    for _ in range(READINGS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        readings.append(start.elapsed_time(end) / len(trials))
    return statistics.median(readings)


def launch(state, inputs, warmup):
    """Launches the kernel, or only compiles it."""
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    b, h, s, d = q.shape
    block_m, block_n, warps, stages = state["configuration"]
    o = torch.empty_like(q)
    attention.run(
        q, k, v, o, state["scale"], s, grid=(triton.cdiv(s, block_m), b * h), warmup=warmup,
        BLOCK_M=block_m, BLOCK_N=block_n, D=d, CAUSAL=state["causal"], num_warps=warps, num_stages=stages,
    )
    return o


def run(state, inputs):
    return {"o": launch(state, inputs, warmup=False)}
