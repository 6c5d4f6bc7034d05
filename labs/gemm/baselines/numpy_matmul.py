"""NumPy's matrix product, which is OpenBLAS in the wheels on PyPI."""

import numpy as np
from threadpoolctl import ThreadpoolController


def prepare(axes, scalars, threads):
    ThreadpoolController().limit(limits=threads)
    return None


def run(state, inputs, outputs):
    np.matmul(inputs["a"], inputs["b"], out=outputs["c"])
