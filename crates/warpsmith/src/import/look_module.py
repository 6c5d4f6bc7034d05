"""Modules with `Model`, `get_inputs` and `get_init_inputs`; part of look.py."""


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
    kept = {
        name: library.to_numpy(value)
        for name, value in all_weights.items()
        if library.element(value) in EPSILON
    }
    results = sights.forward(model, {}, arguments)
    check_results(sights, results)
    check_untouched(sights, arguments, before, model, kept)
    again = sights.forward(model, {}, arguments)
    for first, second in zip(results, again):
        if not numpy.array_equal(library.to_numpy(first), library.to_numpy(second), equal_nan=True):
            raise Refusal(
                "the same inputs give another result the second time: forward draws random numbers or keeps state",
                way_out(question),
            )

    weights = {}
    for name, value in all_weights.items():
        if library.element(value) not in EPSILON:
            sights.notes.append(f"`{name}` is {library.element(value)}: it stays a constant of the module")
        elif value.ndim == 0 or not numpy.isfinite(kept[name]).all():
            sights.notes.append(
                f"`{name}` has no extents or is not finite: it stays a constant of the module"
            )
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
            tensors.append(
                tensor(name, shape, library.element(value), "input", describe(numpy, library.to_numpy(value)))
            )
            plan_arguments.append({"tensor": name})
        else:
            kind = "int" if isinstance(value, int) else "float"
            text = fit_number(points, axes, lambda sight, i=index: sight["arguments"][i])
            scalars.append({"name": name, "dtype": "i64" if kind == "int" else "f64", "value": text})
            plan_arguments.append({"scalar": name, "type": kind})
    for attribute, value in weights.items():
        name = names["weights"][attribute]
        shape = fit_shape(points, axes, lambda sight, a=attribute: sight["weights"][a])
        tensors.append(
            tensor(name, shape, library.element(value), "input", around(describe(numpy, kept[attribute])))
        )
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
    answer = {
        "axes": axes,
        "tensors": tensors,
        "scalars": scalars,
        "workloads": [{"name": "given", "axes": base}],
    }
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
        raise Refusal(
            f"it has no class `Model`{known}",
            "a problem is a module with `Model`, `get_inputs()` and `get_init_inputs()`",
        )
    methods = {node.name for node in classes["Model"].body if isinstance(node, ast.FunctionDef)}
    if "forward" not in methods:
        raise Refusal(
            "`Model` has no method `forward`",
            "forward takes what get_inputs() returns, and returns a tensor or a tuple",
        )
    if "get_inputs" not in functions:
        raise Refusal("it has no function `get_inputs`", "it returns the list of forward's arguments")


def check_arguments(sights, arguments, model):
    library = sights.library
    if not any(library.is_tensor(value) for value in arguments):
        raise Refusal(
            "get_inputs() returns no tensor",
            "a lab draws its inputs anew for every launch: at least one is needed",
        )
    for index, value in enumerate(arguments):
        if library.is_tensor(value):
            if library.element(value) not in EPSILON:
                raise Refusal(
                    f"input {index} of get_inputs() has elements of type {library.element(value)}; tensors are f16, bf16, f32 or f64",
                    "make it a float tensor, or a buffer of the module that its constructor computes",
                )
            if value.ndim == 0 or 0 in value.shape:
                raise Refusal(
                    f"input {index} of get_inputs() has the shape {tuple(value.shape)}",
                    "pass a number instead, or give it elements",
                )
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Refusal(
                f"input {index} of get_inputs() is {type(value).__name__}, not a tensor or a number",
                "make it an argument of the constructor, in get_init_inputs()",
            )


def check_results(sights, results):
    for index, value in enumerate(results):
        element = sights.library.element(value)
        if element not in EPSILON:
            raise Refusal(
                f"result {index} has elements of type {element}; outputs are f16, bf16, f32 or f64",
                "return the float tensors alone",
            )
        if 0 in value.shape:
            raise Refusal(f"result {index} is empty")
        if not sights.numpy.isfinite(sights.library.to_numpy(value)).all():
            raise Refusal(
                f"result {index} is not finite on the inputs of get_inputs(); a NaN would match anything"
            )


def check_untouched(sights, arguments, before, model, kept):
    library, numpy = sights.library, sights.numpy
    for index, (value, was) in enumerate(zip(arguments, before)):
        if library.is_tensor(value) and not numpy.array_equal(library.to_numpy(value), was, equal_nan=True):
            raise Refusal(
                f"forward writes to its input {index}; inputs are read-only", "let it work on a copy"
            )
    for name, value in library.weights(model).items():
        if name in kept and not numpy.array_equal(library.to_numpy(value), kept[name], equal_nan=True):
            raise Refusal(
                f"forward changes `{name}` of the module: it keeps state between calls",
                way_out(sights.question),
            )


def way_out(question):
    if question["mode"] == "train":
        return "--eval imports the module in evaluation mode, in which dropout and running statistics stand still"
    return "remove the randomness or the state from forward"


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
            sights.notes.append(
                f"`{name}` of the module changes the result by {change:.1e} of its norm at most: it is no input"
            )
    return matter


def changes(sights, constants, weights):
    """Returns by how much of its norm the result changes when an argument or a weight is drawn anew."""
    library, numpy = sights.library, sights.numpy
    module, model = sights.build(constants)
    arguments = sights.inputs(module)
    own = library.weights(model)
    redrawn = lambda value, spread: to_native(
        sights, sample(sights, spread, tuple(value.shape)), library.element(value)
    )
    spread = lambda value: describe(numpy, library.to_numpy(value))
    fixed = {name: redrawn(own[name], around(spread(own[name]))) for name in weights}
    run = lambda weights, arguments: [
        library.to_numpy(value) for value in sights.forward(model, weights, arguments)
    ]
    base = run(fixed, arguments)
    norm = lambda values: math.sqrt(float((values**2).sum()))
    change = lambda results: max(
        norm(after - before) / (norm(before) or 1.0) for after, before in zip(results, base)
    )
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
