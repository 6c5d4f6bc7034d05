"""Drives `warpsmith mcp` as a coding agent would, by the official client of the protocol.

    python client.py WARPSMITH

Both lifecycles of the protocol are used: the handshake of all releases up to 2025, and the one without it of
2026. Prints a line for each check that holds; raises at the first that does not.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mcp import Client, StdioServerParameters

WARPSMITH = sys.argv[1]
SOURCE = """#include <stdint.h>
void probe(const float *x, const float *bias, float *y, int64_t n, int64_t d, float scale,
           int64_t block_begin, int64_t block_end) {
    (void)n;
    for (int64_t row = block_begin; row < block_end; row++) {
        for (int64_t i = 0; i < d; i++) {
            BODY
        }
    }
}
"""
RIGHT = SOURCE.replace("BODY", "y[row * d + i] = bias[i] + x[row * d + i] * scale;")
WRONG = SOURCE.replace("BODY", "y[row * d + i] = scale * x[row * d + i] - bias[i];")
ENDLESS = SOURCE.replace("BODY", "for (volatile int forever = 1; forever;) {} y[row * d + i] = bias[i];")


def holds(what, is_so, seen=""):
    if not is_so:
        raise AssertionError(f"{what} does not hold: {seen}")
    print(f"  {what}")


def candidate(source, **more):
    return {"lab": "probe", "kernel": "00_naive", "source": source, **more}


async def conversation(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    holds("seven tools", len(tools) == 7, list(tools))
    holds("reading is marked as such", tools["leaderboard"].annotations.read_only_hint)
    labs = await client.call_tool("list_labs", {})
    holds("the lab is listed", labs.structured_content["labs"][0]["lab"] == "probe", labs)

    heard = []

    async def progress(done, total, message):
        heard.append((done, message))

    good = await client.call_tool("evaluate", candidate(RIGHT), progress_callback=progress)
    holds("a right source passes", good.structured_content["verdict"] == "passed", good)
    holds("progress was told", len(heard) >= 2, heard)
    holds("progress grows", all(a[0] < b[0] for a, b in zip(heard, heard[1:])), heard)
    wrong = await client.call_tool("evaluate", candidate(WRONG, gate="full"))
    holds("a wrong source does not", wrong.structured_content["verdict"] == "incorrect", wrong)
    holds("and that is no error of the call", not wrong.is_error)
    full = await client.call_tool("evaluate", candidate(RIGHT, gate="full"))
    holds("the full gate passes", full.structured_content["verdict"] == "passed", full)
    board = (await client.call_tool("leaderboard", {"lab": "probe"})).structured_content
    trials = [place["trial"] for place in board["places"]]
    holds("the leaderboard has the right one alone", trials == [full.structured_content["trial"]], board)

    refused = await client.call_tool("evaluate", {"lab": "../probe", "kernel": "00_naive"})
    holds("a path is no lab", refused.is_error, refused)
    uri = full.structured_content["source_uri"]
    source = (await client.read_resource(uri)).contents[0].text
    holds("the source can be read by its address", source == RIGHT, source)
    listed = [str(resource.uri) for resource in (await client.list_resources()).resources]
    holds("files of labs are listed", "warpsmith://labs/probe/lab.toml" in listed, listed)
    templates = (await client.list_resource_templates()).resource_templates
    holds("forms of addresses are listed", len(templates) == 4, templates)

    started = time.monotonic()
    try:
        await client.call_tool("evaluate", candidate(ENDLESS), read_timeout_seconds=3)
        raise AssertionError("an endless candidate was answered")
    except Exception as error:
        holds("a call that takes too long is given up", "imed out" in str(error), repr(error))
    again = await client.call_tool("evaluate", {"lab": "probe", "kernel": "10_vector"})
    holds("the server goes on", again.structured_content["verdict"] == "passed", again)
    print(f"  after {time.monotonic() - started:.1f} s, of which 3 s were waited")


async def main():
    for mode in ["legacy", "auto"]:
        with tempfile.TemporaryDirectory() as project:
            subprocess.run([WARPSMITH, "new", "probe"], cwd=project, check=True, capture_output=True)
            parameters = StdioServerParameters(
                command=WARPSMITH, args=["mcp"], cwd=project, env=dict(os.environ)
            )
            print(f"{mode}:")
            async with Client(parameters, mode=mode) as client:
                await conversation(client)
                left = time.monotonic()
            holds(f"the server ended {time.monotonic() - left:.1f} s after the client left", True)
            shown = subprocess.run(
                [WARPSMITH, "runs", "--json"], cwd=project, check=True, capture_output=True, text=True
            )
            holds("the session is a run that ended", '"finished"' in shown.stdout, shown.stdout)
            holds("nothing else lies in the project", sorted(p.name for p in Path(project).iterdir())
                  == [".warpsmith", "evidence", "labs"])


asyncio.run(main())
