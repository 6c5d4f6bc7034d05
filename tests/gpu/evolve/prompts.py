"""Looks through the prompts of the newest evolution for what a model must have been told.

    python prompts.py EVIDENCE.db TARGET
"""

import json
import sqlite3
import sys

WANTED = ["What limits it:", "it did not compile", "its output was wrong", "it crashed", "it did not finish within 3 s"]
PROFILE = [
    "What a profile of it shows:",
    "counted by ncu",
    "registers: ",
    "spills: ",
    "shared memory: ",
    "occupancy: ",
    "instructions: LDG",
    "coalescing: ",
    "| warps wait ",
    "| try: let neighbouring threads access neighbouring addresses",
]

store = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
run = store.execute("SELECT max(run) FROM documents WHERE kind = 'call'").fetchone()[0]
rows = store.execute("SELECT document FROM documents WHERE kind = 'call' AND run = ? ORDER BY number", [run])
calls = [json.loads(row[0]) for row in rows]
prompts = [store.execute("SELECT content FROM blobs WHERE id = ?", [call["prompt"]]).fetchone()[0] for call in calls]
for number, prompt in enumerate(prompts):
    print(f"=== call {number}: {calls[number]['operator']}\n{prompt}\n")
everything = "\n".join(prompts)
missing = [words for words in WANTED + (PROFILE if sys.argv[2] == "cuda" else []) if words not in everything]
operators = [call["operator"] for call in calls]
if operators != ["init", "init"] + ["crossover", "mutation"] * 3:
    missing.append(f"the operators, which are {operators}")
if missing:
    sys.exit(f"not in the prompts: {missing}")
