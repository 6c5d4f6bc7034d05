"""Runs one library baseline for the harness: started by it with the script's path, spoken to in lines.

The script is loaded at once, since importing a library takes seconds and several workers can do it at the
same time. The first line on standard input is a JSON document that says where tensors lie in the files that come
by the socket; only then the script prepares. Afterwards each line is a list of case numbers to run, in order; an
empty line runs nothing and measures the conversation itself; `copy BYTES` times a copy on the device, to compare
its clock with the harness's; `deliver` lets a script that has a function of this name copy its results into the
harness's outputs, outside of the clock; `release` forgets all of this, and another such document may follow, so that
the library need not be imported again. Every line gets one JSON line back. The harness holds the clock, except on a
CUDA device, whose own clock the answer carries.
"""

import array
import gc
import importlib.util
import json
import mmap
import os
import socket
import sys
import traceback


def main():
    commands = sys.stdin
    # Libraries print what they like: the conversation gets a descriptor of its own.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def reply(**message):
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    module = refusal = None
    try:
        module = load(sys.argv[1])
    except Exception as error:
        refusal = error
    files = socket.socket(fileno=int(sys.argv[2]))
    while line := commands.readline():
        plan = json.loads(line)
        if not serve(plan, module, refusal, files, commands, reply):
            break
        # Only now nothing holds tensors any more, and only after the reply this process is stopped.
        gc.enable()
        gc.collect()
        if plan["on_cuda"]:
            give_memory_back()
        reply(done=True)


def serve(plan, module, refusal, files, commands, reply):
    """Runs what one document asks for; returns whether another one may follow."""
    device = None
    try:
        if refusal is not None:
            raise refusal
        descriptors = receive(files, plan["files"])
        cases = [views(case, descriptors) for case in plan["cases"]]
        for descriptor in descriptors:
            os.close(descriptor)
        if plan["on_cuda"]:
            device = Device()
            for (inputs, outputs), case in zip(cases, plan["cases"]):
                device.add(inputs, outputs, case["inputs"])
        state = module.prepare(plan["axes"], plan["scalars"], plan["threads"])
        run = module.run
        deliver = None if plan["on_cuda"] else getattr(module, "deliver", None)
    except ModuleNotFoundError as error:
        return reply(missing=error.name)
    except FileNotFoundError as error:
        # A script's way to say that it needs something that is not a Python package.
        return reply(unavailable=str(error))
    except Exception as error:
        return reply(raised=describe(error))
    reply(ready=True, delivers=deliver is not None, remark=state.get("remark") if isinstance(state, dict) else None)

    gc.disable()
    results = []
    for line in commands:
        seconds = None
        try:
            words = line.split()
            wanted = [int(case) for case in words if words[0] not in ("copy", "deliver", "release")]
            if words == ["deliver"]:
                for result, outputs in results:
                    deliver(state, result, outputs)
                results.clear()
            elif words == ["release"]:
                return True
            elif words[:1] == ["copy"]:
                seconds = device.copy(int(words[1]))
            elif device is not None and wanted:
                seconds = device.launch(run, state, wanted)
            else:
                for case in wanted:
                    inputs, outputs = cases[case]
                    result = run(state, inputs, outputs)
                    if deliver is not None:
                        results.append((result, outputs))
        except Exception as error:
            return reply(raised=describe(error))
        reply(done=True, seconds=seconds)


def load(path):
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location("baseline", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def receive(files, count):
    """Takes open files from the socket; how many come with a byte is up to the system."""
    descriptors = array.array("i")
    while len(descriptors) < count:
        _, ancillary, _, _ = files.recvmsg(1, socket.CMSG_SPACE(256 * descriptors.itemsize))
        for _, _, data in ancillary:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        if not ancillary:
            raise EOFError(f"{len(descriptors)} of {count} files came")
    return descriptors


def views(case, descriptors):
    return (
        {name: view(tensor, descriptors, writable=False) for name, tensor in case["inputs"].items()},
        {name: view(tensor, descriptors, writable=True) for name, tensor in case["outputs"].items()},
    )


def view(tensor, descriptors, writable):
    """Shows a tensor as a NumPy array on the harness's own memory; inputs cannot be written."""
    import numpy

    present_at_once = getattr(mmap, "MAP_POPULATE", 0)
    memory = mmap.mmap(
        descriptors[tensor["file"]],
        tensor["bytes"],
        flags=mmap.MAP_SHARED | present_at_once,
        prot=mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0),
        offset=tensor["offset"],
    )
    count = 1
    for extent in tensor["shape"]:
        count *= extent
    flat = numpy.frombuffer(memory, dtype=tensor["dtype"], count=count)
    return flat.reshape(tensor["shape"])


def describe(error):
    traceback.print_exc()
    return "".join(traceback.format_exception_only(error)).strip()


main()
