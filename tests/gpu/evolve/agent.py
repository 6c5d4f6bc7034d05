"""Drives `warpsmith mcp` as a coding agent would, by the official client of the protocol.

    python agent.py WARPSMITH TARGET RESULTS

Prints a line for each check that holds, and whole answers; raises at the first that does not.
"""

import asyncio
import json
import os
import sys
import time

from mcp import Client, StdioServerParameters

WARPSMITH, TARGET, RESULTS = sys.argv[1:]
LAB = {"cuda": "saxpy/cuda", "cpu": "saxpy"}[TARGET]
SOURCE = {
    "cuda": """__device__ volatile int forever = 1;
extern "C" __global__ void saxpy(const float *x, const float *y, float *z, int n, float a) {
    const unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i < static_cast<unsigned>(n)) {
        BODY
    }
}
""",
    "cpu": """#include <stdint.h>
volatile int forever = 1;
void saxpy(const float *x, const float *y, float *z, int64_t n, float a, int64_t block_begin, int64_t block_end) {
    int64_t end = block_end * 4096 < n ? block_end * 4096 : n;
    for (int64_t i = block_begin * 4096; i < end; i++) {
        BODY
    }
}
""",
}[TARGET]
RIGHT = SOURCE.replace("BODY", "z[i] = a * x[i] + y[i];")
WRONG = SOURCE.replace("BODY", "z[i] = a * x[i] - y[i];")
ENDLESS = SOURCE.replace("BODY", "while (forever != 0) {} z[i] = a * x[i] + y[i];")


def holds(what, is_so, seen=""):
    if not is_so:
        raise AssertionError(f"{what} does not hold: {seen}")
    print(f"  {what}", flush=True)


def candidate(source, **more):
    return {"lab": LAB, "kernel": "05_strided", "source": source, **more}


async def call(client, tool, arguments, **more):
    started = time.monotonic()
    answer = await client.call_tool(tool, arguments, **more)
    print(f"{tool}: {time.monotonic() - started:.1f} s\n{answer.content[0].text}", flush=True)
    return answer


async def conversation(client):
    labs = await call(client, "list_labs", {})
    listed = {lab["lab"]: lab["target"] for lab in labs.structured_content["labs"]}
    holds("labs of this target alone are listed", listed.get(LAB) == TARGET and {*listed.values()} == {TARGET}, listed)
    good = (await call(client, "evaluate", candidate(RIGHT, title="neighbours"))).structured_content
    holds("a right source passes", good["verdict"] == "passed", good)
    holds("and is faster than the base", good["over_base"]["speedup"] > 1.2, good)
    wrong = await call(client, "evaluate", candidate(WRONG))
    holds("a wrong source does not pass", wrong.structured_content["verdict"] == "incorrect", wrong)
    holds("and that is no error of the call", not wrong.is_error)
    profile = await call(client, "profile", {"lab": LAB, "kernel": "05_strided"})
    holds("the base is profiled", profile.structured_content["verdict"] == "passed", profile)
    if TARGET == "cuda":
        findings = profile.structured_content["findings"]
        holds("with counters", all(it["diagnosis"]["basis"] == "counters" for it in findings), findings)
        text = profile.content[0].text
        for words in ["registers: ", "shared memory: ", "instructions: ", "coalescing: ", "occupancy: ", "try: "]:
            holds(f"the text has `{words}`", words in text, text)
    contenders = [f"trial:{good['trial']}", "05_strided"]
    compared = (await call(client, "compare", {"lab": LAB, "contenders": contenders})).structured_content
    holds("both are compared", len(compared["speedups"]) >= 1 and not compared["failures"], json.dumps(compared))
    started = time.monotonic()
    try:
        await client.call_tool("evaluate", candidate(ENDLESS), read_timeout_seconds=4)
        raise AssertionError("an endless candidate was answered")
    except Exception as error:
        holds("a call that is cancelled is given up", "imed out" in str(error), repr(error))
    again = (await call(client, "evaluate", {"lab": LAB, "kernel": "10_vector"})).structured_content
    holds("the server goes on", again["verdict"] == "passed", again)
    print(f"  after {time.monotonic() - started:.1f} s, of which 4 s were waited")


async def main():
    arguments = ["mcp", "--target", TARGET, "--labs", f"{RESULTS}/labs", "--evidence", f"{RESULTS}/evidence-agent"]
    # Where the client was found is nobody else's concern.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    parameters = StdioServerParameters(
        command=WARPSMITH, args=[*arguments, "--work-dir", f"{RESULTS}/work"], cwd=RESULTS, env=environment
    )
    async with Client(parameters) as client:
        await conversation(client)
        left = time.monotonic()
    holds(f"the server ended {time.monotonic() - left:.1f} s after the client left", True)


asyncio.run(main())
