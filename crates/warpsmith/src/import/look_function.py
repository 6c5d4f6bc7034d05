"""Functions whose tensors are known; part of look.py."""


def look_at_function(sights, question):
    """A function whose tensors are known: small shapes are found, and the tolerance is measured."""
    entry = question["entry"]
    if not any(isinstance(node, ast.FunctionDef) and node.name == entry for node in sights.tree.body):
        raise Refusal(
            f"the reference has no function `{entry}`",
            "FlashInfer-Trace calls `run` with the inputs in order",
        )
    plan = dict(question["plan"], framework=sights.library.name)
    if sights.library.name == "numpy" and "bf16" in plan["elements"].values():
        raise Refusal("NumPy has no bfloat16", "write the reference with torch")
    answer = {key: question[key] for key in ("axes", "tensors", "scalars", "workloads")}
    scalars = {it["name"]: evaluate(it["value"], {}) for it in answer["scalars"]}
    free = question["variable"]

    def runs(axes):
        extents = lambda it: tuple(evaluate(extent, axes) for extent in it["shape"])
        if not all(evaluate(constraint, axes) for constraint in question["constraints"]):
            return False
        drawn = {
            it["name"]: to_native(sights, sample(sights, it["spread"], extents(it)), it["dtype"])
            for it in answer["tensors"]
            if it["role"] == "input"
        }
        on_cpu = dict(plan, target="cpu")
        problem = sights.adapter.Problem(on_cpu, question["text"], axes, scalars, question["threads"], False)
        before = {name: sights.library.to_numpy(value) for name, value in drawn.items()}
        results = [problem.call(drawn) for _ in range(2)]
        for name, value in drawn.items():
            if not sights.numpy.array_equal(sights.library.to_numpy(value), before[name]):
                raise Refusal(f"the reference writes to its input `{name}`; inputs are read-only")
        for it in answer["tensors"]:
            if it["role"] != "output":
                continue
            first, second = (result[it["name"]] for result in results)
            if sights.library.element(first) != it["dtype"]:
                raise Refusal(
                    f"the reference returns `{it['name']}` as {sights.library.element(first)}; the definition says {it['dtype']}"
                )
            if tuple(first.shape) != extents(it):
                raise Refusal(
                    f"the reference returns `{it['name']}` with the shape {tuple(first.shape)}; the definition says {extents(it)}"
                )
            if not sights.numpy.array_equal(
                sights.library.to_numpy(first), sights.library.to_numpy(second), equal_nan=True
            ):
                raise Refusal(
                    "the same inputs give another result the second time: the reference is random or keeps state"
                )
        return True

    fixed = {axis: value for axis, value in answer["workloads"][0]["axes"].items() if axis not in free}
    for workload in answer["workloads"]:
        broken = [
            text
            for text in question["constraints"]
            if not guarded(f"the constraint `{text}`", lambda: evaluate(text, workload["axes"]))
        ]
        if broken:
            raise Refusal(f"the workload {workload['name']} breaks the constraint `{broken[0]}`")
    guarded("the reference", lambda: runs(answer["workloads"][0]["axes"]))
    origin = None
    for values in SMALL if free else []:
        point = dict(fixed, **dict(zip(free, values)))
        try:
            if runs(point):
                origin = point
                break
        except Exception:
            continue
    if origin is None:
        least = min((it["axes"] for it in answer["workloads"]), key=lambda axes: math.prod(axes.values()))
        answer["proofs"], answer["ranges"] = [{"name": "least", "axes": least}], None
        if free:
            sights.notes.append(
                "the reference does not run on smaller shapes than the workloads: the least of them is the proof, and no further shapes are drawn"
            )
    else:
        answer["proofs"] = [{"name": "small", "axes": origin}]
        values = {axis: [value] for axis, value in fixed.items()}
        for axis in free:

            def works(value):
                try:
                    return runs(dict(origin, **{axis: value}))
                except Exception:
                    return False

            values[axis] = sorted({origin[axis]} | {value for value in FURTHER if works(value)})
        chance = random.Random(1)
        together = [
            {axis: chance.choice(options) for axis, options in values.items()} for _ in range(TRIED_TOGETHER)
        ]
        together += [{axis: pick(options) for axis, options in values.items()} for pick in (min, max)]
        try:
            answer["ranges"] = values if all(runs(point) for point in together) else None
        except Exception:
            answer["ranges"] = None
        if answer["ranges"] is None:
            sights.notes.append(
                "not every combination of small extents runs, so the gate draws no further shapes: add [ranges] by hand"
            )
    measure(sights, plan, question["text"], answer)
    answer["plan"] = plan
    answer["notes"] = sights.notes
    return answer
