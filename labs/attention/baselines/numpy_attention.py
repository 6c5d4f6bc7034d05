"""Attention as one writes it in NumPy: two matrix products around a softmax."""

import numpy as np
from threadpoolctl import ThreadpoolController


def prepare(axes, scalars, threads):
    ThreadpoolController().limit(limits=threads)
    size = axes["S"]
    hidden = np.triu(np.ones((size, size), dtype=bool), k=1) if axes["CAUSAL"] else None
    return {"scale": np.float32(scalars["scale"]), "hidden": hidden}


def run(state, inputs, outputs):
    scores = (inputs["q"] * state["scale"]) @ inputs["k"].swapaxes(-1, -2)
    if state["hidden"] is not None:
        scores[..., state["hidden"]] = -np.inf
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    np.matmul(scores, inputs["v"], out=outputs["o"])
