"""PyTorch's scaled_dot_product_attention with the FlashAttention-2 backend, and no other."""

from sdpa import prepare_backend, run


def prepare(axes, scalars, threads):
    return prepare_backend("FLASH_ATTENTION", axes, scalars)
