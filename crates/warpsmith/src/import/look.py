"""Looks at a problem that is to become a lab: started by `warpsmith import`, answers one question.

The question is a line of JSON on standard input; the answer is a line of JSON: what the lab must say, or
`refused` with the reason and a hint. The text of `adapter.py` comes with the question, so that a problem is
looked at through the code that will run it.
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
    "block_begin", "block_end", "min", "max", "abs", "ceil_div", "round", "bool", "THREADS", "auto", "case",
    "char", "const", "default", "do", "double", "enum", "extern", "goto", "inline", "long", "register",
    "restrict", "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned",
    "void", "volatile",
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
    library = guarded("loading the library", lambda: (adapter.Torch if framework == "torch" else adapter.NumPy)(
        question["threads"], False, False
    ))
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
        raise Refusal(f"it is not Python: {error.msg} ({where})", "mend the file; `python3 -m py_compile` shows the place")


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
        raise Refusal(f"{doing} needs more memory than there is: {words}", "choose smaller constants in the file")
    except BaseException as error:
        traceback.print_exc()
        words = "".join(traceback.format_exception_only(error)).strip()
        place = ""
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename.endswith(".py") and "/" not in frame.filename and frame.filename != "adapter.py":
                place = f" ({frame.filename}, line {frame.lineno})"
        raise Refusal(f"{doing} raised {words}{place}")


class Sights:
    """Runs the problem on shapes."""

    def __init__(self, question, adapter, library, numpy, tree):
        self.question, self.adapter, self.library, self.numpy, self.tree = question, adapter, library, numpy, tree
        self.rng = numpy.random.default_rng(20250101)
        self.notes = []

    def build(self, constants):
        question, adapter = self.question, self.adapter
        module = guarded(f"loading {question['file']}", lambda: adapter.load(question["text"], constants, question["file"]))
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
            raise Refusal("the result is a dictionary; results are a tensor, or a tuple of tensors", "return a tuple")
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


def look_at_module(sights, question):
    check_parts(sights.tree, question["file"])
    library, numpy = sights.library, sights.numpy
    constants = {}
    for statement in sights.tree.body:
        name = sights.adapter.constant_target(statement)
        if name and statement.value.value > 0:
            constants[name] = statement.value.value
    module, model = sights.build({})
    arguments = sights.inputs(module)
    check_arguments(sights, arguments, model)
    before = [library.to_numpy(value) if library.is_tensor(value) else value for value in arguments]
    all_weights = library.weights(model)
    kept = {name: library.to_numpy(value) for name, value in all_weights.items() if library.element(value) in EPSILON}
    results = sights.forward(model, {}, arguments)
    check_results(sights, results)
    check_untouched(sights, arguments, before, model, kept)
    again = sights.forward(model, {}, arguments)
    for first, second in zip(results, again):
        if not numpy.array_equal(library.to_numpy(first), library.to_numpy(second), equal_nan=True):
            raise Refusal("the same inputs give another result the second time: forward draws random numbers or keeps state", way_out(question))

    weights = {}
    for name, value in all_weights.items():
        if library.element(value) not in EPSILON:
            sights.notes.append(f"`{name}` is {library.element(value)}: it stays a constant of the module")
        elif value.ndim == 0 or not numpy.isfinite(kept[name]).all():
            sights.notes.append(f"`{name}` has no extents or is not finite: it stays a constant of the module")
        else:
            weights[name] = value
    axes, points = find_axes(sights, constants, (arguments, weights, results))
    origin = points[-1][0] if axes else {}
    names = name_all(sights, model, arguments, weights, results, axes)
    weights = drop_what_does_not_matter(sights, origin, weights, names)

    tensors, scalars, plan_arguments, plan_weights = [], [], [], []
    for index, value in enumerate(arguments):
        name = names["arguments"][index]
        if library.is_tensor(value):
            shape = fit_shape(points, axes, lambda sight, i=index: sight["arguments"][i])
            tensors.append(tensor(name, shape, library.element(value), "input", describe(numpy, library.to_numpy(value))))
            plan_arguments.append({"tensor": name})
        else:
            kind = "int" if isinstance(value, int) else "float"
            text = fit_number(points, axes, lambda sight, i=index: sight["arguments"][i])
            scalars.append({"name": name, "dtype": "i64" if kind == "int" else "f64", "value": text})
            plan_arguments.append({"scalar": name, "type": kind})
    for attribute, value in weights.items():
        name = names["weights"][attribute]
        shape = fit_shape(points, axes, lambda sight, a=attribute: sight["weights"][a])
        tensors.append(tensor(name, shape, library.element(value), "input", around(describe(numpy, kept[attribute]))))
        tensors[-1]["weight"] = attribute
        plan_weights.append({"tensor": name, "attribute": attribute})
    for index, value in enumerate(results):
        shape = fit_shape(points, axes, lambda sight, i=index: sight["results"][i])
        tensors.append(tensor(names["results"][index], shape, library.element(value), "output", None))
    plan = {
        "kind": "module",
        "framework": library.name,
        "target": question["target"],
        "mode": question["mode"],
        "constants": axes,
        "arguments": plan_arguments,
        "weights": plan_weights,
        "outputs": names["results"],
        "elements": {it["name"]: it["dtype"] for it in tensors},
    }
    base = {axis: constants[axis] for axis in axes}
    answer = {"axes": axes, "tensors": tensors, "scalars": scalars, "workloads": [{"name": "given", "axes": base}]}
    answer["proofs"], answer["ranges"] = small_shapes(sights, axes, base, points)
    measure(sights, plan, question["text"], answer)
    answer["plan"] = plan
    answer["notes"] = sights.notes
    return answer


def check_parts(tree, name):
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if "Model" not in classes:
        known = f"; it has the classes {', '.join(classes)}" if classes else ""
        raise Refusal(f"it has no class `Model`{known}", "a problem is a module with `Model`, `get_inputs()` and `get_init_inputs()`")
    methods = {node.name for node in classes["Model"].body if isinstance(node, ast.FunctionDef)}
    if "forward" not in methods:
        raise Refusal("`Model` has no method `forward`", "forward takes what get_inputs() returns, and returns a tensor or a tuple")
    if "get_inputs" not in functions:
        raise Refusal("it has no function `get_inputs`", "it returns the list of forward's arguments")


def check_arguments(sights, arguments, model):
    library = sights.library
    if not any(library.is_tensor(value) for value in arguments):
        raise Refusal("get_inputs() returns no tensor", "a lab draws its inputs anew for every launch: at least one is needed")
    for index, value in enumerate(arguments):
        if library.is_tensor(value):
            if library.element(value) not in EPSILON:
                raise Refusal(
                    f"input {index} of get_inputs() has elements of type {library.element(value)}; tensors are f16, bf16, f32 or f64",
                    "make it a float tensor, or a buffer of the module that its constructor computes",
                )
            if value.ndim == 0 or 0 in value.shape:
                raise Refusal(f"input {index} of get_inputs() has the shape {tuple(value.shape)}", "pass a number instead, or give it elements")
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Refusal(
                f"input {index} of get_inputs() is {type(value).__name__}, not a tensor or a number",
                "make it an argument of the constructor, in get_init_inputs()",
            )


def check_results(sights, results):
    for index, value in enumerate(results):
        element = sights.library.element(value)
        if element not in EPSILON:
            raise Refusal(f"result {index} has elements of type {element}; outputs are f16, bf16, f32 or f64", "return the float tensors alone")
        if 0 in value.shape:
            raise Refusal(f"result {index} is empty")
        if not sights.numpy.isfinite(sights.library.to_numpy(value)).all():
            raise Refusal(f"result {index} is not finite on the inputs of get_inputs(); a NaN would match anything")


def check_untouched(sights, arguments, before, model, kept):
    library, numpy = sights.library, sights.numpy
    for index, (value, was) in enumerate(zip(arguments, before)):
        if library.is_tensor(value) and not numpy.array_equal(library.to_numpy(value), was, equal_nan=True):
            raise Refusal(f"forward writes to its input {index}; inputs are read-only", "let it work on a copy")
    for name, value in library.weights(model).items():
        if name in kept and not numpy.array_equal(library.to_numpy(value), kept[name], equal_nan=True):
            raise Refusal(f"forward changes `{name}` of the module: it keeps state between calls", way_out(sights.question))


def way_out(question):
    if question["mode"] == "train":
        return "--eval imports the module in evaluation mode, in which dropout and running statistics stand still"
    return "remove the randomness or the state from forward"


def find_axes(sights, constants, seen):
    """Finds the constants that are extents: those with which shapes change as an expression says.

    Returns them and the points that were seen, the base first and the origin of the small ones last.
    """
    library = sights.library
    shape = lambda value: list(value.shape) if library.is_tensor(value) else value
    arguments, weights, results = seen
    base_sight = {
        "arguments": [shape(value) for value in arguments],
        "weights": {name: shape(value) for name, value in weights.items()},
        "results": [shape(value) for value in results],
    }
    names = list(constants)
    for values in SMALL:
        while names:
            origin = dict(zip(names, values + list(range(200, 200 + len(names)))))
            sight = sights.shapes(origin)
            if sight is not None and alike(sight, base_sight):
                break
            # Which of them cannot be small while the others can?
            stuck = [name for name in names if runs_without(sights, origin, name, base_sight)]
            if len(stuck) != 1:
                sight = None
                break
            names.remove(stuck[0])
        if names and sight is not None:
            break
    else:
        names = []
    while names:
        origin = {name: origin[name] for name in names}
        points = [({name: constants[name] for name in names}, base_sight)]
        for name in names:
            for step in (1, 2, 4):
                point = dict(origin, **{name: origin[name] + step * origin[name]})
                sight = sights.shapes(point)
                if sight is not None and alike(sight, base_sight):
                    points.append((point, sight))
        points.append((origin, sights.shapes(origin)))
        if points[-1][1] is None:
            return [], [({}, base_sight)]
        bad, used = set(), set()
        for extents in columns(points):
            text = fit(points, names, extents)
            if text is None:
                bad |= movers(points, names, extents)
            else:
                used |= {name for name in names if mentions(text, name)}
        # A constant that moves no extent, or one that no expression explains, stays a constant.
        keep = [name for name in names if name in used and name not in bad]
        if keep == names:
            return names, points
        names = keep
    return [], [({}, base_sight)]


def runs_without(sights, origin, name, base_sight):
    sight = sights.shapes({other: value for other, value in origin.items() if other != name})
    return sight is not None and alike(sight, base_sight)


def alike(sight, base):
    """Says whether two sights have the same tensors with as many extents each, none of them empty."""
    rank = lambda value: len(value) if isinstance(value, list) else -1
    all_shapes = sight["arguments"] + sight["results"] + list(sight["weights"].values())
    return (
        not any(isinstance(shape, list) and 0 in shape for shape in all_shapes)
        and [rank(v) for v in sight["arguments"]] == [rank(v) for v in base["arguments"]]
        and [rank(v) for v in sight["results"]] == [rank(v) for v in base["results"]]
        and all(name in sight["weights"] and rank(sight["weights"][name]) == rank(value) for name, value in base["weights"].items())
    )


def columns(points):
    """Yields every extent and number as its values over the points."""
    _, base = points[0]
    pick = []
    for kind in ("arguments", "results"):
        for index, value in enumerate(base[kind]):
            if isinstance(value, list):
                pick += [lambda s, k=kind, i=index, d=dim: s[k][i][d] for dim in range(len(value))]
            else:
                pick.append(lambda s, k=kind, i=index: s[k][i])
    for name, value in base["weights"].items():
        pick += [lambda s, n=name, d=dim: s["weights"][n][d] for dim in range(len(value))]
    for look in pick:
        yield [look(sight) for _, sight in points]


def movers(points, names, extents):
    origin, at_origin = points[-1][0], extents[-1]
    moved = set()
    for (point, _), extent in zip(points[1:-1], extents[1:-1]):
        if extent != at_origin:
            moved |= {name for name in names if point[name] != origin[name]}
    return moved or set(names)


def mentions(text, name):
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(ast.parse(text, mode="eval")))


def fit(points, names, extents):
    """Returns the simplest expression over the axes that gives these extents; none where there is none."""
    if len(set(extents)) == 1 and isinstance(extents[0], (int, float)):
        return repr(extents[0])
    rows = [point for point, _ in points]
    for count in (1, 2, 3):
        for chosen in itertools.combinations_with_replacement(names, count):
            product = " * ".join(chosen)
            values = [math.prod(row[name] for name in chosen) for row in rows]
            if values == extents:
                return product
            if all(value and extent % value == 0 for value, extent in zip(values, extents)):
                factor = extents[0] // values[0]
                if [factor * value for value in values] == extents:
                    return f"{factor} * {product}"
            offset = extents[0] - values[0]
            if [value + offset for value in values] == extents:
                return f"{product} + {offset}" if offset >= 0 else f"{product} - {-offset}"
            for divisor in (2, 4, 8):
                if [value // divisor for value in values] == extents:
                    return f"{product} // {divisor}" if count == 1 else f"({product}) // {divisor}"
    return None


def fit_shape(points, axes, pick):
    shapes = [pick(sight) for _, sight in points]
    if not shapes[0]:
        return ["1"]
    return [fit(points, axes, [shape[dim] for shape in shapes]) for dim in range(len(shapes[0]))]


def fit_number(points, axes, pick):
    return fit(points, axes, [pick(sight) for _, sight in points])


def name_all(sights, model, arguments, weights, results, axes):
    taken = set(axes)

    def free(name):
        name = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
        if not name or name[0].isdigit() or keyword.iskeyword(name) or name in RESERVED:
            name = "t_" + name
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    parameters = []
    try:
        for parameter in inspect.signature(model.forward).parameters.values():
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                parameters.append(parameter.name)
    except (TypeError, ValueError):
        pass
    if len(parameters) < len(arguments):
        parameters = [f"x{index}" for index in range(len(arguments))]
    outputs = ["out"] if len(results) == 1 else [f"out{index}" for index in range(len(results))]
    return {
        "arguments": [free(name) for name in parameters[: len(arguments)]],
        "weights": {attribute: free(attribute) for attribute in weights},
        "results": [free(name) for name in outputs],
    }


def drop_what_does_not_matter(sights, constants, weights, names):
    """Keeps weights that change the result as inputs; refuses inputs that do not.

    A small shape may hide what matters (a softmax over one element), so the given shape is asked as well.
    """
    moved = changes(sights, constants, weights)
    if min(moved.values()) < LEAST_CHANGE and constants:
        given = changes(sights, {}, weights)
        moved = {key: max(moved[key], given[key]) for key in moved}
    for (kind, which), change in moved.items():
        if kind == "argument" and not change >= LEAST_CHANGE:
            raise Refusal(
                f"the result hardly depends on the input `{names['arguments'][which]}`: drawing it anew changes it by {change:.1e} of its norm, so a kernel that ignores it would pass",
                "remove the input, or let get_inputs() give it values that matter",
            )
    matter = {}
    for name in weights:
        change = moved["weight", name]
        if change >= LEAST_CHANGE:
            matter[name] = weights[name]
        else:
            sights.notes.append(f"`{name}` of the module changes the result by {change:.1e} of its norm at most: it is no input")
    return matter


def changes(sights, constants, weights):
    """Returns by how much of its norm the result changes when an argument or a weight is drawn anew."""
    library, numpy = sights.library, sights.numpy
    module, model = sights.build(constants)
    arguments = sights.inputs(module)
    own = library.weights(model)
    redrawn = lambda value, spread: to_native(sights, sample(sights, spread, tuple(value.shape)), library.element(value))
    spread = lambda value: describe(numpy, library.to_numpy(value))
    fixed = {name: redrawn(own[name], around(spread(own[name]))) for name in weights}
    run = lambda weights, arguments: [library.to_numpy(value) for value in sights.forward(model, weights, arguments)]
    base = run(fixed, arguments)
    norm = lambda values: math.sqrt(float((values**2).sum()))
    change = lambda results: max(norm(after - before) / (norm(before) or 1.0) for after, before in zip(results, base))
    moved = {}
    for index, value in enumerate(arguments):
        if library.is_tensor(value):
            others = list(arguments)
            others[index] = redrawn(value, around(spread(value)))
            moved["argument", index] = change(run(fixed, others))
    for name in weights:
        others = dict(fixed, **{name: redrawn(own[name], around(spread(own[name])))})
        moved["weight", name] = change(run(others, arguments))
    return moved


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
    (kind, numbers), = spread.items()
    if kind == "normal":
        return {"normal": {"mean": numbers["mean"], "std": short(numbers["std"] * factor)}}
    low, high = numbers["low"], numbers["high"]
    if low >= 0.0:
        # Signs may matter: a logarithm stays one of positive numbers.
        return {"uniform": {"low": low, "high": short(low + (high - low) * factor)}}
    return {"uniform": {"low": short(low * factor), "high": short(high * factor)}}


def sample(sights, spread, shape):
    rng, numpy = sights.rng, sights.numpy
    (kind, numbers), = spread.items()
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


def small_shapes(sights, axes, base, points):
    """Chooses the shapes of the proofs, and the values from which the gate draws further ones."""
    if not axes:
        sights.notes.append("no constant of the module is an extent of its own, so there is one shape: it is the workload and the proof")
        return [{"name": "given", "axes": base}], None
    origin = points[-1][0]
    proofs = [{"name": "small", "axes": origin}]
    runs = lambda point: (lambda sight: sight is not None and alike(sight, points[0][1]) and explained(axes, points, point, sight))(sights.shapes(point))
    values = {}
    for axis in axes:
        tried = [value for value in FURTHER + [2 * origin[axis]] if value <= max(base[axis], origin[axis])]
        values[axis] = sorted({origin[axis]} | {value for value in tried if runs(dict(origin, **{axis: value}))})
    chance = random.Random(1)
    corners = [{axis: min(values[axis]) for axis in axes}, {axis: max(values[axis]) for axis in axes}]
    together = corners + [{axis: chance.choice(values[axis]) for axis in axes} for _ in range(TRIED_TOGETHER)]
    if all(runs(point) for point in together):
        if corners[1] != origin:
            proofs.append({"name": "larger", "axes": corners[1]})
        return proofs, values
    sights.notes.append("not every combination of small extents runs, so the gate draws no further shapes: add [ranges] by hand")
    return proofs, None


def explained(axes, points, point, sight):
    """Says whether the expressions that fit the points give these shapes too."""
    extended = points[:-1] + [(point, sight), points[-1]]
    return all(fit(extended, axes, extents) is not None for extents in columns(extended))


def measure(sights, plan, text, answer):
    """Draws the distributions, and makes the tolerance from how far the problem in its own type is from itself
    in double precision. The last thing that is done: the libraries are widened for it, which cannot be undone."""
    numpy, adapter = sights.numpy, sights.adapter
    # Problems are looked at on the CPU, whatever their kernels will run on.
    plan = dict(plan, target="cpu")
    tensors = answer["tensors"]
    inputs = [it for it in tensors if it["role"] == "input"]
    for it in inputs:
        it["spread"] = around(it["spread"])
    of = lambda change: {it["name"]: it["spread"] if "weight" in it else change(it["spread"]) for it in inputs}
    distributions = [
        ("as given", of(lambda spread: spread)),
        ("larger", of(lambda spread: scaled(spread, 4.0))),
        ("smaller", of(lambda spread: scaled(spread, 0.0625))),
        ("mixed scales", of(lambda spread: {"mixed": {}} if "normal" in spread and spread["normal"]["mean"] == 0.0 else spread)),
    ]
    distributions = [it for index, it in enumerate(distributions) if it[1] not in [other for _, other in distributions[:index]]]
    shapes = [proof["axes"] for proof in answer["proofs"]]
    if answer["workloads"][0]["axes"] not in shapes:
        shapes.append(answer["workloads"][0]["axes"])
    native = []
    for axes in shapes:
        scalars = {it["name"]: evaluate(it["value"], axes) for it in answer["scalars"]}
        problem = guarded("preparing", lambda: adapter.Problem(plan, text, axes, scalars, sights.question["threads"], False))
        extents = {it["name"]: [evaluate(extent, axes) for extent in it["shape"]] for it in tensors}
        for name, spreads in distributions:
            drawn = {}
            for it in inputs:
                values = to_native(sights, sample(sights, spreads[it["name"]], tuple(extents[it["name"]])), it["dtype"])
                drawn[it["name"]] = values
            results = guarded(f"running with `{name}` inputs", lambda: problem.call(drawn))
            results = {key: sights.library.to_numpy(value) for key, value in results.items()}
            for it in tensors:
                if it["role"] == "output" and results[it["name"]].size != math.prod(extents[it["name"]]):
                    raise Refusal(f"the result `{it['name']}` has the shape {list(results[it['name']].shape)} on {axes}, not {extents[it['name']]}")
            native.append((name, axes, scalars, {key: sights.library.to_numpy(value) for key, value in drawn.items()}, results))
    worst, failed, kept_narrow = {}, {}, set()
    problems = {}
    for name, axes, scalars, drawn, results in native:
        key = json.dumps(axes)
        if key not in problems:
            problems[key] = guarded("preparing it in double precision", lambda: adapter.Problem(plan, text, axes, scalars, sights.question["threads"], True))
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
            worst[name] = (max(was[0], sizes[0]), max(was[1], sizes[1]), max(was[2], least[0]), max(was[3], least[1]))
    if kept_narrow:
        sights.notes.append(f"{', '.join(sorted(kept_narrow))} is not computed in double precision: the problem rounds inside, and the reference is as good as that")
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
            scale = max(1, power(ALLOWANCE * worst[name][0] / element_eps), power(ALLOWANCE * worst[name][1] / norm_eps))
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
    return float((difference / scale).max()) / epsilon, math.sqrt(float((difference**2).sum())) / norm / epsilon


def power(number):
    return max(1, 2 ** math.ceil(math.log2(number))) if number > 0 else 1


def evaluate(text, axes):
    return eval(compile(text, "shape", "eval"), {"__builtins__": {}}, dict(axes))


def look_at_function(sights, question):
    """A function whose tensors are known: small shapes are found, and the tolerance is measured."""
    entry = question["entry"]
    if not any(isinstance(node, ast.FunctionDef) and node.name == entry for node in sights.tree.body):
        raise Refusal(f"the reference has no function `{entry}`", "FlashInfer-Trace calls `run` with the inputs in order")
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
        drawn = {it["name"]: to_native(sights, sample(sights, it["spread"], extents(it)), it["dtype"]) for it in answer["tensors"] if it["role"] == "input"}
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
                raise Refusal(f"the reference returns `{it['name']}` as {sights.library.element(first)}; the definition says {it['dtype']}")
            if tuple(first.shape) != extents(it):
                raise Refusal(f"the reference returns `{it['name']}` with the shape {tuple(first.shape)}; the definition says {extents(it)}")
            if not sights.numpy.array_equal(sights.library.to_numpy(first), sights.library.to_numpy(second), equal_nan=True):
                raise Refusal("the same inputs give another result the second time: the reference is random or keeps state")
        return True

    fixed = {axis: value for axis, value in answer["workloads"][0]["axes"].items() if axis not in free}
    for workload in answer["workloads"]:
        broken = [text for text in question["constraints"] if not guarded(f"the constraint `{text}`", lambda: evaluate(text, workload["axes"]))]
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
            sights.notes.append("the reference does not run on smaller shapes than the workloads: the least of them is the proof, and no further shapes are drawn")
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
        together = [{axis: chance.choice(options) for axis, options in values.items()} for _ in range(TRIED_TOGETHER)]
        together += [{axis: pick(options) for axis, options in values.items()} for pick in (min, max)]
        try:
            answer["ranges"] = values if all(runs(point) for point in together) else None
        except Exception:
            answer["ranges"] = None
        if answer["ranges"] is None:
            sights.notes.append("not every combination of small extents runs, so the gate draws no further shapes: add [ranges] by hand")
    measure(sights, plan, question["text"], answer)
    answer["plan"] = plan
    answer["notes"] = sights.notes
    return answer


main()
