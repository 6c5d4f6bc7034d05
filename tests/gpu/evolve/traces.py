"""Reads exported traces as the format's own tools do: every number is a finite number.

    python traces.py FOLDER
"""

import json
import math
import sys
from pathlib import Path

folder = Path(sys.argv[1])
lines = (folder / "traces" / "rmsnorm_h512.jsonl").read_text().splitlines()
traces = [json.loads(line, parse_constant=lambda word: sys.exit(f"{word} is not JSON")) for line in lines]
assert sorted(trace["workload"]["uuid"] for trace in traces) == ["rows-4096", "rows-64"], lines
for trace in traces:
    evaluation = trace["evaluation"]
    assert evaluation["status"] == "PASSED", trace
    numbers = [evaluation["correctness"][key] for key in ("max_absolute_error", "max_relative_error")]
    numbers.append(evaluation["performance"]["latency_ms"])
    assert all(isinstance(number, (int, float)) and math.isfinite(number) for number in numbers), trace
    assert 0 < numbers[0] < 1e-3 and numbers[2] > 0, trace
    solution = json.loads((folder / "solutions" / "rmsnorm_h512" / f"{trace['solution']}.json").read_text())
    assert "rmsnorm_h512" in solution["sources"][0]["content"], solution
    print(trace["workload"]["uuid"], evaluation["correctness"], evaluation["performance"])
