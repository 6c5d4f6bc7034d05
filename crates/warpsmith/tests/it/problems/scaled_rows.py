"""A row-wise layer in NumPy: a product with weights, a bias, and the positive part, scaled."""

import numpy as np

batch = 24
features = 40
width = 16


class Model:
    def __init__(self, inner, outer):
        self.weight = np.random.uniform(-0.3, 0.3, (outer, inner)).astype(np.float32)
        self.bias = np.zeros(outer, dtype=np.float32)
        self.unused = np.ones(3, dtype=np.float32)

    def forward(self, x, slope):
        print("a problem may print")
        y = x @ self.weight.T + self.bias
        return np.maximum(y, np.float32(slope) * y)


def get_inputs():
    return [np.random.randn(batch, features).astype(np.float32), 0.25]


def get_init_inputs():
    return [features, width]
