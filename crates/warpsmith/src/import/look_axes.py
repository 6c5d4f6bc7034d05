"""Finds the constants that are extents, and the expressions that extents are; part of look.py."""


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
        and all(
            name in sight["weights"] and rank(sight["weights"][name]) == rank(value)
            for name, value in base["weights"].items()
        )
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
    return any(
        isinstance(node, ast.Name) and node.id == name for node in ast.walk(ast.parse(text, mode="eval"))
    )


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


def small_shapes(sights, axes, base, points):
    """Chooses the shapes of the proofs, and the values from which the gate draws further ones."""
    if not axes:
        sights.notes.append(
            "no constant of the module is an extent of its own, so there is one shape: it is the workload and the proof"
        )
        return [{"name": "given", "axes": base}], None
    origin = points[-1][0]
    proofs = [{"name": "small", "axes": origin}]
    runs = lambda point: (
        lambda sight: sight is not None
        and alike(sight, points[0][1])
        and explained(axes, points, point, sight)
    )(sights.shapes(point))
    values = {}
    for axis in axes:
        tried = [value for value in FURTHER + [2 * origin[axis]] if value <= max(base[axis], origin[axis])]
        values[axis] = sorted(
            {origin[axis]} | {value for value in tried if runs(dict(origin, **{axis: value}))}
        )
    chance = random.Random(1)
    corners = [{axis: min(values[axis]) for axis in axes}, {axis: max(values[axis]) for axis in axes}]
    together = corners + [{axis: chance.choice(values[axis]) for axis in axes} for _ in range(TRIED_TOGETHER)]
    if all(runs(point) for point in together):
        if corners[1] != origin:
            proofs.append({"name": "larger", "axes": corners[1]})
        return proofs, values
    sights.notes.append(
        "not every combination of small extents runs, so the gate draws no further shapes: add [ranges] by hand"
    )
    return proofs, None


def explained(axes, points, point, sight):
    """Says whether the expressions that fit the points give these shapes too."""
    extended = points[:-1] + [(point, sight), points[-1]]
    return all(fit(extended, axes, extents) is not None for extents in columns(extended))
