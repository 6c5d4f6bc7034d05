"""Runs a lab's reference for the harness: started by it once, asked many times.

The first line on standard input says which files there are and which one to load. Each question is a line
of JSON, the bytes of the inputs and an empty line; each answer a line of JSON and the bytes of the outputs.
All tensors are f64.
"""

import sys

# Files of the folder that we happen to be in are no modules of ours.
sys.path[:] = [folder for folder in sys.path if folder]

import importlib.abc
import importlib.util
import json
import linecache
import os
import time
import traceback


class Files(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules from texts, before anything that is installed."""

    def __init__(self, files):
        self.files = files

    def find_spec(self, name, path=None, target=None):
        if name + ".py" in self.files:
            return importlib.util.spec_from_loader(name, self, origin=name + ".py")
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__name__ + ".py"
        text = self.files[name]
        # Tracebacks quote the lines.
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        module.__dict__["__file__"] = name
        module.__dict__["SOURCES"] = self.files
        exec(compile(text, name, "exec"), module.__dict__)


def main():
    questions = sys.stdin.buffer
    # Libraries print what they like: the conversation gets a descriptor of its own.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def reply(*tensors, **message):
        replies.write(json.dumps(message).encode() + b"\n")
        for tensor in tensors:
            replies.write(memoryview(tensor).cast("B"))
        replies.flush()

    plan = json.loads(questions.readline())
    try:
        import numpy

        sys.meta_path.insert(0, Files(plan["files"]))
        module = importlib.import_module(plan["script"][: -len(".py")])
    except ModuleNotFoundError as error:
        return reply(missing=error.name)
    except Exception as error:
        return reply(raised=describe(error))
    reply(ready=True, versions=versions())

    prepared, state = None, None
    while line := questions.readline():
        question = json.loads(line)
        inputs = {}
        for tensor in question["inputs"]:
            count = 1
            for extent in tensor["shape"]:
                count *= extent
            content = numpy.frombuffer(questions.read(8 * count), dtype="float64", count=count)
            inputs[tensor["name"]] = content.reshape(tensor["shape"])
        questions.readline()
        outputs = {tensor["name"]: numpy.full(tensor["shape"], numpy.nan) for tensor in question["outputs"]}
        try:
            shape = (question["axes"], question["scalars"])
            if prepared != shape:
                state = module.prepare(*shape, plan["threads"])
                prepared = shape
            started = time.perf_counter()
            module.run(state, inputs, outputs)
            seconds = time.perf_counter() - started
        except Exception as error:
            return reply(raised=describe(error))
        reply(*outputs.values(), done=True, seconds=seconds)


def versions():
    """Whatever computes: an answer that is kept must not outlive the library that gave it."""
    found = {"python": sys.version.split()[0]}
    for name in ("numpy", "torch", "scipy"):
        if name in sys.modules:
            found[name] = str(getattr(sys.modules[name], "__version__", "unknown"))
    return found


def describe(error):
    traceback.print_exc()
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.endswith(".py") and "/" not in frame.filename:
            place = f" ({frame.filename}, line {frame.lineno})"
    return "".join(traceback.format_exception_only(error)).strip() + place


main()
