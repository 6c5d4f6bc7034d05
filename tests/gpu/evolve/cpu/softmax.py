"""Softmax along the rows, in NumPy."""

import numpy as np

batch = 512
features = 2048


class Model:
    def forward(self, x):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)


def get_inputs():
    return [np.random.randn(batch, features).astype(np.float32)]


def get_init_inputs():
    return []
