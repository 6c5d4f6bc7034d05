"""Layer normalisation of rows with weights, and a rectifier in the place of the error function, in NumPy."""

import numpy as np

batch = 768
features = 1024


class Model:
    def __init__(self, features):
        self.weight = np.ones(features, dtype=np.float32)
        self.bias = np.zeros(features, dtype=np.float32)

    def forward(self, x):
        centred = x - x.mean(axis=1, keepdims=True)
        normal = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + np.float32(1e-5))
        return np.maximum(normal * self.weight + self.bias, 0)


def get_inputs():
    return [np.random.randn(batch, features).astype(np.float32)]


def get_init_inputs():
    return [features]
