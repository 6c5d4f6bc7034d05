"""Sees that every function of the kernels' PTX layer has its stand-in here."""

import re
from pathlib import Path

from contract import INCLUDE

HERE = Path(__file__).resolve().parent
# Parts of other functions there, without a use of their own in kernels.
INTERNAL = {"map_address"}
FUNCTION = re.compile(r"(?:__forceinline__|inline)\s+[\w:<> ]+?[ *&](\w+)\(")


def functions_of(folder):
    found = {}
    for path in sorted((folder / "ptx").glob("*.cuh")):
        for name in FUNCTION.findall(path.read_text()):
            found[name] = path.name
    return found


def missing_stand_ins():
    have = functions_of(HERE / "include")
    return [
        f"tests/emulate/include/ptx/{header} has no stand-in for `{name}`"
        for name, header in functions_of(INCLUDE).items()
        if name not in have and name not in INTERNAL
    ]
