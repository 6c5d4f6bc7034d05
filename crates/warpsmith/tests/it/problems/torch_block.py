"""A convolution along one axis, batch normalisation and the positive part, in PyTorch."""

import torch
import torch.nn as nn

batch = 6
inner = 5
outer = 9
length = 40
kernel_size = 3


class Model(nn.Module):
    def __init__(self, inner, outer, kernel_size):
        super().__init__()
        self.conv = nn.Conv1d(inner, outer, kernel_size)
        self.norm = nn.BatchNorm1d(outer)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)).to(torch.float32))


def get_inputs():
    return [torch.randn(batch, inner, length)]


def get_init_inputs():
    return [inner, outer, kernel_size]
