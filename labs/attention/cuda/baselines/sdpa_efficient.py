"""PyTorch's scaled_dot_product_attention with the memory-efficient attention backend, and no other."""

from sdpa import prepare_backend, run


def prepare(axes, scalars, threads):
    return prepare_backend("EFFICIENT_ATTENTION", axes, scalars)
