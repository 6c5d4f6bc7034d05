"""Looks at a problem that is to become a lab: started by `warpsmith import`, answers one question.

The question is a line of JSON on standard input; the answer is a line of JSON: what the lab must say, or
`refused` with the reason and a hint. The text of `adapter.py` comes with the question, so that a problem is
looked at through the code that will run it. This file comes first, then the others whose names begin with
`look_`, and last the call of `main`: together they are one program.
"""

import sys

# Files of the folder that we happen to be in are no modules of ours.
sys.path[:] = [folder for folder in sys.path if folder]

import ast
import inspect
import itertools
import json
import keyword
import math
import os
import random
import resource
import traceback
import types

# Tried in order until the problem runs with such values for all of its axes: odd ones first, since they
# leave tails; then those that heads and groups divide.
SMALL = [
    [5, 7, 11, 13, 17, 19, 23, 29, 31, 37],
    [8, 12, 20, 28, 36, 44, 52, 60, 68, 76],
    [16, 32, 48, 64, 80, 96, 112, 128, 144, 160],
]
# Values that are tried for each axis alone.
FURTHER = [1, 2, 3, 9, 33]
# Draws of several axes together before shapes are drawn from ranges.
TRIED_TOGETHER = 6
# An input or a weight matters when drawing it anew changes the output by this share of its norm.
LEAST_CHANGE = 1e-3
# The error of the problem in its own type is multiplied by this to make the tolerance: another order of
# the same sums is as good.
ALLOWANCE = 8
EPSILON = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}
# The least tolerance, for elements and for the norm, by element type.
LEAST_TOLERANCE = {"f16": (4, 1), "bf16": (4, 1), "f32": (32, 4), "f64": (32, 4)}
# A distribution on which the problem itself errs by more than this many tolerances is left out.
MOST_SCALE = 64
RESERVED = {
    "block_begin",
    "block_end",
    "min",
    "max",
    "abs",
    "ceil_div",
    "round",
    "bool",
    "THREADS",
    "auto",
    "case",
    "char",
    "const",
    "default",
    "do",
    "double",
    "enum",
    "extern",
    "goto",
    "inline",
    "long",
    "register",
    "restrict",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "typedef",
    "union",
    "unsigned",
    "void",
    "volatile",
}


class Refusal(Exception):
    def __init__(self, message, hint=None):
        super().__init__(message)
        self.hint = hint


def main():
    # The problem prints what it likes: the answer gets a descriptor of its own.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    question = json.loads(sys.stdin.readline())
    limit = question["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        answer = look(question)
    except ModuleNotFoundError as error:
        answer = {"missing": error.name}
    except Refusal as refusal:
        answer = {"refused": str(refusal), "hint": refusal.hint}
    replies.write(json.dumps(answer) + "\n")
    replies.flush()
    # Threads that the problem started do not keep us.
    os._exit(0)


def look(question):
    adapter = types.ModuleType("adapter")
    exec(compile(question["adapter"], "adapter.py", "exec"), adapter.__dict__)
    tree = parse(question["text"], question["file"])
    framework = "torch" if imports(tree, "torch") else "numpy"
    library = guarded(
        "loading the library",
        lambda: (adapter.Torch if framework == "torch" else adapter.NumPy)(question["threads"], False, False),
    )
    import numpy

    look_at = look_at_module if question["kind"] == "module" else look_at_function
    sights = Sights(question, adapter, library, numpy, tree)
    answer = look_at(sights, question)
    answer["framework"] = framework
    versions = {"numpy": numpy.__version__}
    if framework == "torch":
        versions["torch"] = library.torch.__version__.split("+")[0]
    answer["versions"] = versions
    return answer


def parse(text, name):
    try:
        return ast.parse(text, name)
    except SyntaxError as error:
        where = f"line {error.lineno}" + (f", column {error.offset}" if error.offset else "")
        raise Refusal(
            f"it is not Python: {error.msg} ({where})",
            "mend the file; `python3 -m py_compile` shows the place",
        )


def imports(tree, library):
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        if any(name.split(".")[0] == library for name in names):
            return True
    return False


def guarded(doing, step):
    """Runs a step of the problem's own code; what it raises becomes a refusal in words."""
    try:
        return step()
    except (Refusal, ModuleNotFoundError):
        raise
    except MemoryError as error:
        words = str(error) or "out of memory"
        raise Refusal(
            f"{doing} needs more memory than there is: {words}", "choose smaller constants in the file"
        )
    except BaseException as error:
        traceback.print_exc()
        words = "".join(traceback.format_exception_only(error)).strip()
        place = ""
        for frame in traceback.extract_tb(error.__traceback__):
            if (
                frame.filename.endswith(".py")
                and "/" not in frame.filename
                and frame.filename != "adapter.py"
            ):
                place = f" ({frame.filename}, line {frame.lineno})"
        raise Refusal(f"{doing} raised {words}{place}")


class Sights:
    """Runs the problem on shapes."""

    def __init__(self, question, adapter, library, numpy, tree):
        self.question, self.adapter, self.library, self.numpy, self.tree = (
            question,
            adapter,
            library,
            numpy,
            tree,
        )
        self.rng = numpy.random.default_rng(20250101)
        self.notes = []

    def build(self, constants):
        question, adapter = self.question, self.adapter
        module = guarded(
            f"loading {question['file']}", lambda: adapter.load(question["text"], constants, question["file"])
        )
        self.library.seed(adapter.SEED)
        model = guarded("Model(*get_init_inputs())", lambda: adapter.build(module))
        return module, guarded("Model", lambda: self.library.adopt(model, question["mode"]))

    def inputs(self, module):
        self.library.seed(self.adapter.SEED)
        given = guarded("get_inputs()", module.get_inputs)
        if not isinstance(given, (list, tuple)):
            raise Refusal(f"get_inputs() returns {type(given).__name__}, not a list of tensors")
        return list(given)

    def forward(self, model, weights, arguments):
        results = guarded("forward", lambda: self.library.invoke(model, weights, arguments))
        return self.results(results)

    def results(self, results):
        if isinstance(results, dict):
            raise Refusal(
                "the result is a dictionary; results are a tensor, or a tuple of tensors", "return a tuple"
            )
        if not isinstance(results, (list, tuple)):
            results = [results]
        for result in results:
            if not self.library.is_tensor(result):
                raise Refusal(f"a result is {type(result).__name__}, not a tensor")
        return list(results)

    def see(self, constants):
        """Runs the module once with these constants; returns its arguments, weights and results."""
        module, model = self.build(constants)
        arguments = self.inputs(module)
        weights = self.library.weights(model)
        return arguments, weights, self.forward(model, {}, arguments)

    def shapes(self, constants):
        """Returns every shape and number at these constants; none where the problem does not run."""
        try:
            arguments, weights, results = self.see(constants)
        except Refusal:
            return None
        shape = lambda value: list(value.shape) if self.library.is_tensor(value) else value
        return {
            "arguments": [shape(value) for value in arguments],
            "weights": {name: shape(value) for name, value in weights.items()},
            "results": [shape(value) for value in results],
        }
