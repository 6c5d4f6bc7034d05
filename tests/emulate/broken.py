"""Kernels broken on purpose, by a change of text: the emulation must report each of them."""

STEADY = {"rung": "80_steady", "d": 64}

VARIANTS = [
    {
        **STEADY,
        "what": "the wait for K is missing",
        "change": ("ws::mbarrier_wait(&shared.k_barriers.full[self.k_at.stage], self.k_at.parity);", ""),
        "s": 512,
        "causal": 0,
    },
    {
        **STEADY,
        "what": "the wait for the scores' product is missing",
        "change": ("    ws::wgmma_wait<kPending>();\n", ""),
        "s": 512,
        "causal": 0,
    },
]
