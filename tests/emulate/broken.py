"""Kernels broken on purpose, by a change of text: the emulation must report each of them."""

# The name of a variant, what is changed in which rung, and for which length and mask.
STEADY = {"rung": "80_fixed_reference", "d": 64, "s": 512, "causal": 0}
WIDE = {"rung": "85_fixed_reference_wide", "d": 128, "s": 512, "causal": 0}
SPLIT = {"rung": "90_zero_reference", "d": 64, "s": 512, "causal": 0}
BRIEF = {"rung": "92_short_sequence", "d": 64, "s": 512, "causal": 0}
SPLIT_WIDE = {"rung": "95_zero_reference_wide", "d": 128, "s": 512, "causal": 0, "config": {"TILES": 2, "SPLIT": 1, "BN": 64}}
SMALL = {"rung": "60_small", "d": 64, "s": 512, "causal": 0}

RELEASE_KEYS = "    release(&shared.k_barriers.empty[self.k_at.slot], self.thread);\n"
WAIT_FOR_SCORES = "    ws::wgmma_wait<kPending>();\n    ws::wgmma_fence_operand(self.scores);\n"
FINISH_BEFORE = "    if (kBefore) {\n        finish_output(self, shared);\n    }\n"
RAISE_AND_PACK = ("    raise<kMasked>(self.softmax, self.scores, sum);\n"
                  "    pack_weights(self.weights, self.scores);\n")
LAST_STEPS = ("        while (self.chunk >= kSplit) {\n            step<false>(self, shared, s);\n"
              "            n_turns--;\n        }\n")
EARLY_RELEASE = "        release(&shared.q_barriers[self.tile].empty[self.n_groups % kQuerySlots], self.thread);\n"
IF_MULTIPLIED_FROM_MEMORY = "        if (!kQueriesInRegisters && !kStaged) {\n"
FIRST_SCORES = "        start_first_scores(self, shared);\n"
IF_TAKEN = "        if (kQueriesInRegisters && !kStaged) {\n"
STORE_ROWS = "            store_rows(self, shared, inverse, o, s - self.first_query);\n"
MASK = "ws::mask_scores<kCausal>(self.scores, query + 1 - key, s - key);"

VARIANTS = [
    {
        **STEADY,
        "what": "no wait for K",
        "change": ("ws::mbarrier_wait(&shared.k_barriers.full[self.k_at.slot], self.k_at.parity);", ""),
    },
    {
        **WIDE,
        "what": "no wait for V",
        "change": ("ws::mbarrier_wait(&shared.v_barriers.full[self.v_at.slot], self.v_at.parity);", ""),
    },
    {
        **STEADY,
        "what": "no wait for the product of the scores",
        "change": (WAIT_FOR_SCORES, ""),
    },
    {
        **WIDE,
        "what": "weights packed while a product reads those before",
        "change": (FINISH_BEFORE + RAISE_AND_PACK, RAISE_AND_PACK + FINISH_BEFORE),
    },
    {
        **STEADY,
        "what": "K's slot released before its product is finished",
        "change": (WAIT_FOR_SCORES + RELEASE_KEYS, RELEASE_KEYS + WAIT_FOR_SCORES),
    },
    {
        **STEADY,
        "what": "a query sees the key after its own",
        "change": (MASK, MASK.replace("query + 1", "query + 2")),
        "s": 200,
        "causal": 1,
    },
    {
        **STEADY,
        "what": "a key beyond the last is seen",
        "change": (MASK, MASK.replace("s - key", "s - key + 1")),
        "s": 2,
    },
    {
        **STEADY,
        "what": "fewer bytes promised than copied",
        "change": ("ws::mbarrier_arrive_expect_tx(&barriers.full[at.slot], sizeof(SomeTile));",
                   "ws::mbarrier_arrive_expect_tx(&barriers.full[at.slot], sizeof(SomeTile) - 128);"),
    },
    {
        **STEADY,
        "what": "a consumer that skips a tile keeps its turn",
        "change": ("        take_empty_turn(self.consumer);\n", "        wait_for_turn(self.consumer);\n"),
        "causal": 1,
    },
    {
        **STEADY,
        "what": "a reference that follows does not correct the sums before",
        "change": ("softmax.correction[row] = follow ? ws::exp2_approx(-ahead) : 1.0f;",
                   "softmax.correction[row] = 1.0f;"),
        "inputs": "rising",
    },
    {
        **STEADY,
        "what": "rows beyond the last are stored",
        "change": ("if (query < n_queries) {", "if (true) {"),
        "s": 200,
    },
    {
        **SMALL,
        "what": "a slot is filled again before all tiles have read it",
        "change": ("ws::named_barrier_sync(kRefillBarrier + rank, kWarpgroup * kTiles);", ""),
        "config": {"TILES": 2, "SPLIT": 1, "CLUSTER": 1, "SLOTS": 2, "BN": 64},
    },
    {
        **SMALL,
        "what": "no wait for what the other blocks send",
        "change": ("        mbarrier_wait(full, 0);\n", ""),
    },
    {
        **SPLIT,
        "what": "parts are added before they have been written",
        "change": ("    ws::mbarrier_wait(&shared.written[self.tile], self.exchange_parity);\n", ""),
    },
    {
        **SPLIT,
        "what": "sums outside of the limits are not noticed",
        "change": ("        outside |= is_outside(self, total, row, s);\n", ""),
        "inputs": "large",
    },
    {
        **SPLIT,
        "what": "a part of the keys is left out",
        "change": ("for (int part = 0; part < kSplit; part++) {\n            total +=",
                   "for (int part = 1; part < kSplit; part++) {\n            total +="),
    },
    {
        **SPLIT,
        "what": "a lane releases queries that others of its warp still wait for",
        "change": ("        __syncwarp(); // the part may be", "        // the part may be"),
        "s": 20,
        "h": 12,
        "config": {"TILES": 1, "SPLIT": 4, "SLOTS": 1, "TURNS": 0},
        "independent_lanes": True,
    },
    {
        **SPLIT,
        "what": "scores are started before the next queries have come",
        "change": ("    wait_for_queries(self, shared);\n    WS_STAMP", "    WS_STAMP"),
        "config": {"TILES": 4, "SPLIT": 1, "QUERY_SLOTS": 2},
    },
    {
        **SPLIT,
        "what": "queries are released before their last scores",
        "change": (LAST_STEPS + IF_MULTIPLIED_FROM_MEMORY + "            release_queries(self, shared);",
                   EARLY_RELEASE + LAST_STEPS + IF_MULTIPLIED_FROM_MEMORY + "            self.n_groups++;"),
    },
    {
        **SPLIT,
        "what": "queries are released before they have been taken",
        "change": (FIRST_SCORES + IF_TAKEN + "            __syncwarp(); // every lane has taken its own\n"
                   "            release_queries(self, shared);\n",
                   EARLY_RELEASE + FIRST_SCORES + IF_TAKEN + "            self.n_groups++;\n"),
        "config": {"TILES": 1, "SPLIT": 2},
    },
    {
        **SPLIT_WIDE,
        "what": "no wait for the first queries' first half",
        "change": ("        wait_for_first_slab(self, shared);\n        if (self.n_groups == 0", "        if (self.n_groups == 0"),
    },
    {
        **SPLIT_WIDE,
        "what": "no wait for the first keys' first half",
        "change": ("            ws::mbarrier_wait(&shared.k_first_slab[self.part], 0);\n", ""),
    },
    {
        **SPLIT_WIDE,
        "what": "the next queries may come before the output has left their place",
        "change": (STORE_ROWS + "            release_queries(self, shared);\n",
                   EARLY_RELEASE + STORE_ROWS + "            self.n_groups++;\n"),
    },
    {
        **BRIEF,
        "what": "sums outside of the limits are not noticed",
        "change": ("ws::outside_limits<kBf16>(total[row], n_keys, self.s)", "false"),
        "inputs": "large",
    },
    {
        **BRIEF,
        "what": "no wait for what the other blocks send",
        "change": ("        ws::mbarrier_wait(&shared.cluster_full[self.rank][self.warp], parity);\n", ""),
    },
    {
        **BRIEF,
        "what": "a pass is taken for discarded before everyone has read it",
        "change": ("ws::mbarrier_init(&shared.block_read, kThreads);",
                   "ws::mbarrier_init(&shared.block_read, kThreads / 2);"),
        "inputs": "large",
    },
]
