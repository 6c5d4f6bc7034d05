"""Runs an imported problem for the harness. Written by `warpsmith import`; the problem itself is beside it.

`plan.py` says which of the harness's tensors are arguments, which are weights of the module and what comes
out. As the reference everything is computed in double precision: the libraries' names of narrower types
stand for it, so that casts inside of the problem do not round. As the baseline nothing is changed, and
results are copied out by `deliver`, after the clock stopped.
"""

import ast
import os
import types
import warnings

# Weights that do not matter keep what the module's constructor draws with this seed.
SEED = 1


def prepare(axes, scalars, threads, wide=False):
    from plan import PLAN

    return Problem(PLAN, source(PLAN.get("file", "problem.py")), axes, scalars, threads, wide)


def run(state, inputs, outputs=None):
    return state.call(inputs)


def deliver(state, results, outputs):
    for name, target in outputs.items():
        state.library.copy_out(results[name], target, state.plan["elements"][name])


def solution(name, file, entry, returns):
    """Makes a baseline of another implementation of the same problem."""

    def prepare_solution(axes, scalars, threads):
        from plan import PLAN

        plan = dict(PLAN, kind="function", entry=entry, returns=returns)
        return Problem(plan, source(os.path.join("baselines", file)), axes, scalars, threads, False)

    return prepare_solution, run, deliver


def source(name):
    """Returns a text of the lab: one that the harness sent, or a file."""
    sent = globals().get("SOURCES")
    if sent is not None:
        return sent[name]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name)) as file:
        return file.read()


def load(text, constants, name="problem.py"):
    """Executes a module with other values for some of its integer constants."""
    tree = ast.parse(text, name)
    for statement in tree.body:
        target = constant_target(statement)
        if target in constants:
            statement.value.value = constants[target]
    module = types.ModuleType(name[: -len(".py")])
    module.__file__ = name
    exec(compile(tree, name, "exec"), module.__dict__)
    return module


def constant_target(statement):
    """Returns the name that a statement like `N = 16` assigns to, if it is one."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None
    is_integer = isinstance(statement.value, ast.Constant) and type(statement.value.value) is int
    return target.id if isinstance(target, ast.Name) and is_integer else None


class Problem:
    def __init__(self, plan, text, axes, scalars, threads, wide):
        self.plan = plan
        library = Torch if plan["framework"] == "torch" else NumPy
        self.library = library(threads, wide, plan["target"] == "cuda" and not wide)
        self.axes = axes
        self.scalars = scalars
        constants = {axis: axes[axis] for axis in plan["constants"]}
        self.module = load(text, constants, plan.get("file", "problem.py"))
        self.model = None
        if plan["kind"] == "module":
            self.library.seed(SEED)
            self.model = self.library.adopt(build(self.module), plan["mode"])

    def call(self, inputs):
        plan, library = self.plan, self.library
        arrays = {name: library.take(array, plan["elements"][name]) for name, array in inputs.items()}
        arguments = []
        for argument in plan["arguments"]:
            if "tensor" in argument:
                arguments.append(arrays[argument["tensor"]])
            else:
                number = self.scalars[argument["scalar"]]
                arguments.append(int(number) if argument["type"] == "int" else number)
        weights = {it["attribute"]: arrays[it["tensor"]] for it in plan["weights"]}
        if self.model is not None:
            results = library.invoke(self.model, weights, arguments)
        elif plan["returns"]:
            results = library.apply(getattr(self.module, plan["entry"]), arguments)
        else:
            results = [
                library.empty([self.axes[axis] for axis in it["shape"]], plan["elements"][it["name"]])
                for it in plan["output_shapes"]
            ]
            library.apply(getattr(self.module, plan["entry"]), arguments + results)
        return named(results, plan["outputs"])


def build(module):
    arguments = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
    return module.Model(*arguments)


def named(results, names):
    """Gives results their names: a single one, several in order, or a dictionary."""
    if isinstance(results, dict):
        return {name: results[name] for name in names}
    if not isinstance(results, (tuple, list)):
        results = [results]
    if len(results) != len(names):
        raise ValueError(f"{len(results)} results for the outputs {', '.join(names)}")
    return dict(zip(names, results))


class NumPy:
    name = "numpy"

    def __init__(self, threads, wide, on_cuda):
        import numpy

        if on_cuda:
            raise RuntimeError("a NumPy problem has no baseline on a GPU")
        self.numpy = numpy
        if wide:
            # Modules that were imported earlier keep what they have; the problem comes later.
            for narrow in ("float16", "float32", "half", "single"):
                setattr(numpy, narrow, numpy.float64)

    def seed(self, seed):
        self.numpy.random.seed(seed)

    def adopt(self, model, mode):
        return model

    def weights(self, model):
        is_array = lambda value: isinstance(value, self.numpy.ndarray)
        return {name: value for name, value in vars(model).items() if is_array(value)}

    def is_tensor(self, value):
        return isinstance(value, self.numpy.ndarray)

    def element(self, value):
        kinds = {"float16": "f16", "float32": "f32", "float64": "f64"}
        return kinds.get(str(value.dtype), str(value.dtype))

    def to_numpy(self, value):
        return self.numpy.array(value, dtype=self.numpy.float64)

    def take(self, array, element):
        return array

    def empty(self, shape, element):
        return self.numpy.empty(shape, {"f16": "float16", "f32": "float32", "f64": "float64"}[element])

    def invoke(self, model, weights, arguments):
        for name, value in weights.items():
            setattr(model, name, value)
        return model.forward(*arguments)

    def apply(self, function, arguments):
        return function(*arguments)

    def copy_out(self, result, target, element):
        result = self.numpy.asarray(result)
        if result.size != target.size:
            raise ValueError(f"the shape is {result.shape} instead of {target.shape}")
        target[...] = result.reshape(target.shape)


class Torch:
    name = "torch"

    def __init__(self, threads, wide, on_cuda):
        import torch

        self.torch = torch
        self.wide = wide
        self.on_cuda = on_cuda
        torch.set_num_threads(threads)
        if not hasattr(torch, "warpsmith_types"):
            torch.warpsmith_types = {"f16": torch.float16, "bf16": torch.bfloat16}
            torch.warpsmith_types.update({"f32": torch.float32, "f64": torch.float64})
        self.types = torch.warpsmith_types
        if wide:
            torch.set_default_dtype(torch.float64)
            for narrow in ("float16", "half", "bfloat16", "float32", "float"):
                setattr(torch, narrow, torch.float64)
            for cast in ("float", "half", "bfloat16"):
                setattr(torch.Tensor, cast, torch.Tensor.double)
                setattr(torch.nn.Module, cast, torch.nn.Module.double)
        # Inputs lie in memory that cannot be written, which is meant.
        warnings.filterwarnings("ignore", message=".*not writable.*")

    def seed(self, seed):
        self.torch.manual_seed(seed)
        try:
            import numpy

            numpy.random.seed(seed)
        except ModuleNotFoundError:
            pass

    def adopt(self, model, mode):
        model = model.double() if self.wide else model
        model = model.cuda() if self.on_cuda else model
        return model.eval() if mode == "eval" else model.train()

    def weights(self, model):
        return {**dict(model.named_parameters()), **dict(model.named_buffers())}

    def is_tensor(self, value):
        return isinstance(value, self.torch.Tensor)

    def element(self, value):
        names = {dtype: element for element, dtype in self.types.items()}
        return names.get(value.dtype, str(value.dtype).replace("torch.", ""))

    def to_numpy(self, value):
        return value.detach().to(self.types["f64"]).cpu().numpy().copy()

    def take(self, array, element):
        if not self.on_cuda and not self.is_tensor(array):
            # NumPy knows no bfloat16: those travel as their bits.
            is_bits = element == "bf16" and array.dtype.kind == "u"
            array = self.torch.from_numpy(array.view("int16") if is_bits else array)
            array = array.view(self.types["bf16"]) if is_bits else array
        return array

    def empty(self, shape, element):
        device = "cuda" if self.on_cuda else "cpu"
        return self.torch.empty(shape, dtype=self.types[element], device=device)

    def invoke(self, model, weights, arguments):
        with self.torch.no_grad():
            if not weights:
                return model(*arguments)
            return self.torch.func.functional_call(model, weights, tuple(arguments))

    def apply(self, function, arguments):
        with self.torch.no_grad():
            return function(*arguments)

    def copy_out(self, result, target, element):
        result = result.detach()
        if result.numel() != target.size:
            raise ValueError(f"the shape is {tuple(result.shape)} instead of {target.shape}")
        if target.dtype.kind == "u":
            result = result.to(self.types["bf16"]).contiguous().view(self.torch.int16)
            target[...] = result.cpu().numpy().view("uint16").reshape(target.shape)
        else:
            target[...] = result.contiguous().cpu().numpy().reshape(target.shape)
