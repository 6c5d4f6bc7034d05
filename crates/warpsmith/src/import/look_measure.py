"""How inputs are spread, and how far a problem is from itself in double precision; part of look.py."""


def tensor(name, shape, element, role, spread):
    return {"name": name, "shape": shape, "dtype": element, "role": role, "spread": spread}


def describe(numpy, values):
    """Says how values are spread: like a bell or evenly, judged by how far the outermost lie."""
    mean, std = float(values.mean()), float(values.std())
    low, high = float(values.min()), float(values.max())
    if not (math.isfinite(mean) and math.isfinite(std)) or std <= 1e-6 * max(abs(low), abs(high)):
        return {"constant": {"value": mean if math.isfinite(mean) else 0.0}}
    # A draw comes close to the ends of its interval and seldom meets them.
    if abs(low) <= 0.01 * (high - low):
        low = 0.0
    if values.size >= 8 and max(high - mean, mean - low) <= 2.0 * std:
        return {"uniform": {"low": short(low), "high": short(high)}}
    if low >= 0.0:
        return {"uniform": {"low": short(low), "high": short(high)}}
    return {"normal": {"mean": short(mean if abs(mean) > 0.1 * std else 0.0), "std": short(std)}}


def short(number):
    return float(f"{number:.3g}")


def around(spread):
    """A constant tensor would let kernels that ignore it pass: it is drawn around its value."""
    if "constant" not in spread:
        return spread
    value = spread["constant"]["value"]
    if value == 0.0:
        return {"normal": {"mean": 0.0, "std": 0.1}}
    low, high = sorted([0.5 * value, 1.5 * value])
    return {"uniform": {"low": short(low), "high": short(high)}}


def scaled(spread, factor):
    ((kind, numbers),) = spread.items()
    if kind == "normal":
        return {"normal": {"mean": numbers["mean"], "std": short(numbers["std"] * factor)}}
    low, high = numbers["low"], numbers["high"]
    if low >= 0.0:
        # Signs may matter: a logarithm stays one of positive numbers.
        return {"uniform": {"low": low, "high": short(low + (high - low) * factor)}}
    return {"uniform": {"low": short(low * factor), "high": short(high * factor)}}


def sample(sights, spread, shape):
    rng, numpy = sights.rng, sights.numpy
    ((kind, numbers),) = spread.items()
    if kind == "normal":
        return rng.normal(numbers["mean"], numbers["std"], shape)
    if kind == "uniform":
        return rng.uniform(numbers["low"], numbers["high"], shape)
    if kind == "constant":
        return numpy.full(shape, numbers["value"])
    rows = shape[:-1] if len(shape) > 1 else (-(-shape[0] // 256),)
    scales = 2.0 ** rng.uniform(-9, 9, rows)
    scales = scales[..., None] if len(shape) > 1 else numpy.repeat(scales, 256)[: shape[0]]
    return rng.normal(0.0, 1.0, shape) * scales


def to_native(sights, values, element):
    if sights.library.name == "torch":
        torch = sights.library.torch
        return torch.from_numpy(sights.numpy.ascontiguousarray(values)).to(sights.library.types[element])
    kinds = {"f16": "float16", "f32": "float32", "f64": "float64"}
    return sights.numpy.asarray(values, dtype=kinds[element])


def measure(sights, plan, text, answer):
    """Draws the distributions, and makes the tolerance from how far the problem in its own type is from itself
    in double precision. The last thing that is done: the libraries are widened for it, which cannot be undone.
    """
    numpy, adapter = sights.numpy, sights.adapter
    # Problems are looked at on the CPU, whatever their kernels will run on.
    plan = dict(plan, target="cpu")
    tensors = answer["tensors"]
    inputs = [it for it in tensors if it["role"] == "input"]
    for it in inputs:
        it["spread"] = around(it["spread"])
    of = lambda change: {
        it["name"]: it["spread"] if "weight" in it else change(it["spread"]) for it in inputs
    }
    distributions = [
        ("as given", of(lambda spread: spread)),
        ("larger", of(lambda spread: scaled(spread, 4.0))),
        ("smaller", of(lambda spread: scaled(spread, 0.0625))),
        (
            "mixed scales",
            of(
                lambda spread: (
                    {"mixed": {}} if "normal" in spread and spread["normal"]["mean"] == 0.0 else spread
                )
            ),
        ),
    ]
    distributions = [
        it
        for index, it in enumerate(distributions)
        if it[1] not in [other for _, other in distributions[:index]]
    ]
    shapes = [proof["axes"] for proof in answer["proofs"]]
    if answer["workloads"][0]["axes"] not in shapes:
        shapes.append(answer["workloads"][0]["axes"])
    native = []
    for axes in shapes:
        scalars = {it["name"]: evaluate(it["value"], axes) for it in answer["scalars"]}
        problem = guarded(
            "preparing", lambda: adapter.Problem(plan, text, axes, scalars, sights.question["threads"], False)
        )
        extents = {it["name"]: [evaluate(extent, axes) for extent in it["shape"]] for it in tensors}
        for name, spreads in distributions:
            drawn = {}
            for it in inputs:
                values = to_native(
                    sights, sample(sights, spreads[it["name"]], tuple(extents[it["name"]])), it["dtype"]
                )
                drawn[it["name"]] = values
            results = guarded(f"running with `{name}` inputs", lambda: problem.call(drawn))
            results = {key: sights.library.to_numpy(value) for key, value in results.items()}
            for it in tensors:
                if it["role"] == "output" and results[it["name"]].size != math.prod(extents[it["name"]]):
                    raise Refusal(
                        f"the result `{it['name']}` has the shape {list(results[it['name']].shape)} on {axes}, not {extents[it['name']]}"
                    )
            native.append(
                (
                    name,
                    axes,
                    scalars,
                    {key: sights.library.to_numpy(value) for key, value in drawn.items()},
                    results,
                )
            )
    worst, failed, kept_narrow = {}, {}, set()
    problems = {}
    for name, axes, scalars, drawn, results in native:
        key = json.dumps(axes)
        if key not in problems:
            problems[key] = guarded(
                "preparing it in double precision",
                lambda: adapter.Problem(plan, text, axes, scalars, sights.question["threads"], True),
            )
        problem = problems[key]
        wide = guarded(f"running in double precision with `{name}` inputs", lambda: problem.call(drawn))
        kept_narrow |= {output for output, value in wide.items() if problem.library.element(value) != "f64"}
        wide = {output: problem.library.to_numpy(value) for output, value in wide.items()}
        for output, expected in wide.items():
            element = plan["elements"][output]
            if not (numpy.isfinite(expected).all() and numpy.isfinite(results[output]).all()):
                failed.setdefault(name, f"`{output}` is not finite")
                continue
            sizes = errors(numpy, results[output], expected, EPSILON[element])
            least = LEAST_TOLERANCE[element]
            was = worst.get(name, (0.0, 0.0, least[0], least[1]))
            worst[name] = (
                max(was[0], sizes[0]),
                max(was[1], sizes[1]),
                max(was[2], least[0]),
                max(was[3], least[1]),
            )
    if kept_narrow:
        sights.notes.append(
            f"{', '.join(sorted(kept_narrow))} is not computed in double precision: the problem rounds inside, and the reference is as good as that"
        )
    first = distributions[0][0]
    if first in failed:
        raise Refusal(f"the problem fails on inputs like those that it gives: {failed[first]}")
    element_eps = power(max(worst[first][2], ALLOWANCE * worst[first][0]))
    norm_eps = power(max(worst[first][3], ALLOWANCE * worst[first][1]))
    epsilon = max(EPSILON[it["dtype"]] for it in tensors if it["role"] == "output")
    if norm_eps * epsilon > 0.1:
        raise Refusal(
            f"in its own type the problem is {worst[first][1]:.0f} eps of the output's norm away from itself in double precision: no tolerance tells right from wrong",
            "use inputs or a type in which it is better conditioned",
        )
    answer["tolerance"] = {"element_eps": element_eps, "norm_eps": norm_eps}
    answer["measured"] = {"element_eps": worst[first][0], "norm_eps": worst[first][1]}
    answer["distributions"] = []
    for name, spreads in distributions:
        reason = failed.get(name)
        if reason is None:
            scale = max(
                1,
                power(ALLOWANCE * worst[name][0] / element_eps),
                power(ALLOWANCE * worst[name][1] / norm_eps),
            )
            if scale > MOST_SCALE:
                reason = f"the problem itself errs by {worst[name][0]:.0f} eps"
        if reason is not None:
            sights.notes.append(f"no `{name}` inputs: {reason}")
            continue
        answer["distributions"].append({"name": name, "tensors": spreads, "tolerance_scale": scale})


def errors(numpy, results, expected, epsilon):
    """The gate's measure: elements against the larger of themselves and their row's size, and the norm."""
    results, expected = results.reshape(-1), expected.reshape(-1)
    row = 256
    padded = numpy.zeros(-(-expected.size // row) * row)
    padded[: expected.size] = expected**2
    counts = numpy.minimum(row, expected.size - numpy.arange(0, expected.size, row))
    rms = numpy.repeat(numpy.sqrt(padded.reshape(-1, row).sum(1) / counts), row)[: expected.size]
    difference = numpy.abs(results - expected)
    scale = numpy.maximum(numpy.abs(expected), rms)
    scale[scale == 0.0] = numpy.finfo(numpy.float64).tiny
    norm = math.sqrt(float((expected**2).sum())) or numpy.finfo(numpy.float64).tiny
    return (
        float((difference / scale).max()) / epsilon,
        math.sqrt(float((difference**2).sum())) / norm / epsilon,
    )


def power(number):
    return max(1, 2 ** math.ceil(math.log2(number))) if number > 0 else 1


def evaluate(text, axes):
    return eval(compile(text, "shape", "eval"), {"__builtins__": {}}, dict(axes))
