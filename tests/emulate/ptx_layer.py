"""The kernels' PTX layer: what is inline assembly there has a stand-in here, and the rest is taken as it is."""

import re
from pathlib import Path

from contract import SHARED

HERE = Path(__file__).resolve().parent
NAME = re.compile(r"(?:__forceinline__|inline)\s+[\w:<> ]+?[ *&](\w+)\(")


def functions_of(text):
    """The functions that begin in the first column, each as its name, its first line and its text."""
    lines = text.splitlines()
    found = []
    start = None
    for idx, line in enumerate(lines):
        if start is None and re.match(r"(template <|__device__ |inline )", line):
            start = idx
        if start is not None and (line == "}" or line.endswith("{}")):
            body = "\n".join(lines[start : idx + 1])
            name = NAME.search(body)
            if name:
                found.append((name.group(1), start + 1, body))
            start = None
        elif start is not None and line.endswith(";") and not line.startswith(" "):
            start = None  # a declaration
    return found


def headers():
    return {path.name: path.read_text() for path in sorted((SHARED / "ptx").glob("*.cuh"))}


def stand_ins():
    """Names of the functions that are defined here."""
    texts = [path.read_text() for path in (HERE / "include/ptx").glob("*.cuh")]
    return {name for text in texts for name, _, _ in functions_of(text)}


def plain_parts():
    """For every header of the layer, the functions that need no stand-in, as a header of their own."""
    have = stand_ins()
    parts = {}
    for header, text in headers().items():
        functions = [f for f in functions_of(text) if f[0] not in have and "asm" not in f[2]]
        body = "".join(f'#line {line} "ptx/{header}"\n{source}\n' for _, line, source in functions)
        parts[f"plain/{header}"] = f"namespace ws {{\n{body}}} // namespace ws\n"
    return parts


def missing_stand_ins():
    have = stand_ins()
    return [
        f"tests/emulate/include/ptx/{header} has no stand-in for `{name}`"
        for header, text in headers().items()
        for name, _, source in functions_of(text)
        if "asm" in source and name not in have
    ]
