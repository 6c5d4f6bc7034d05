"""Layer normalisation of rows with weights, and the Gaussian error linear unit, in PyTorch."""

import torch
import torch.nn as nn

batch = 768
features = 1024


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return torch.nn.functional.gelu(self.norm(x))


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features]
