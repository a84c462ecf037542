"""Mistakes to plant in a graph, by kind; each changes a copy of the file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .graph_places import (
    Seen,
    attribute,
    constants,
    graph_of,
    insert_behind,
    node_at,
    nodes,
    set_attribute,
    set_constant,
    true,
)

Change = Callable[[onnx.ModelProto], None]


@dataclass(frozen=True)
class Mistake:
    """A mistake: its kind, a name that is one of its own in the graph, and how to plant it."""

    kind: str
    name: str
    change: Change

    def planted(self, model: onnx.ModelProto) -> onnx.ModelProto:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        self.change(copy)
        return copy


OPERATORS = {
    "Add": ("Sub", "Max"), "Sub": ("Add",), "Mul": ("Add",), "Div": ("Mul",), "Max": ("Min",),
    "Min": ("Max",), "Relu": ("LeakyRelu", "Abs"), "Sigmoid": ("HardSigmoid",),
    "Tanh": ("Softsign",), "Exp": ("Softplus",), "Softplus": ("Relu",), "Erf": ("Tanh",),
    "Greater": ("GreaterOrEqual", "Less"), "GreaterOrEqual": ("Greater",),
    "Less": ("LessOrEqual", "Greater"), "LessOrEqual": ("Less",), "And": ("Or",), "Or": ("And",),
    "Equal": ("GreaterOrEqual",), "ReduceMean": ("ReduceSum", "ReduceMax"),
    "ReduceSum": ("ReduceMean",), "ReduceMax": ("ReduceMin", "ReduceMean"),
    "ReduceMin": ("ReduceMax",), "ReduceL2": ("ReduceL1",), "ArgMax": ("ArgMin",),
    "ArgMin": ("ArgMax",), "Floor": ("Ceil", "Round"), "Ceil": ("Floor",), "Round": ("Floor",),
    "Sqrt": ("Abs",), "Sin": ("Cos",), "Cos": ("Sin",), "Softmax": ("LogSoftmax", "Hardmax"),
    "LogSoftmax": ("Softmax",), "Elu": ("LeakyRelu", "Selu"), "Selu": ("Elu",),
    "LeakyRelu": ("Relu",), "Gelu": ("Relu",), "HardSwish": ("Relu",), "Abs": ("Relu",),
    "Softsign": ("Tanh",), "GlobalAveragePool": ("GlobalMaxPool",), "Reciprocal": ("Neg",),
    "HardSigmoid": ("Sigmoid",), "Mish": ("Relu",), "ReduceLogSumExp": ("ReduceMax",),
    "ReduceProd": ("ReduceSum",),
}  # fmt: skip


def operators(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """Another operator in the place of one."""
    for address, node in nodes(model.graph):
        for other in OPERATORS.get(node.op_type, ()):
            yield of_node("operator", address, node, f"is {other}", _set_operator, other)


def _set_operator(node: onnx.NodeProto, other: str) -> None:
    node.op_type = other
    known = set(onnx.defs.get_schema(other).attributes)
    kept = [a for a in node.attribute if a.name in known]
    del node.attribute[:]
    node.attribute.extend(kept)


def of_node(
    kind: str, address: str, node: onnx.NodeProto, what: str, change: Callable, *args: object
) -> Mistake:
    return Mistake(
        kind,
        f"{node.op_type}@{address} {what}",
        lambda model: change(node_at(model, address), *args),
    )


def _moved(pads: list[int]) -> list[list[int]]:
    """Return paddings with one more at the begin of an axis, and one less at its end."""
    half = len(pads) // 2
    if not pads or not any(pads):
        return []
    moved = list(pads)
    at = next(i for i, n in enumerate(pads[half:]) if n) if any(pads[half:]) else 0
    moved[at] += 1
    moved[half + at] = max(0, moved[half + at] - 1)
    return [moved]


Attributes = dict[str, tuple[object, Callable]]
EPSILON: Attributes = {"epsilon": (1e-5, lambda x: [x * 1000, 0.0])}

# For each attribute of an operator: its default, and a function that returns wrong values for it.
ATTRIBUTES: dict[str, Attributes] = {
    "LayerNormalization": EPSILON,
    "BatchNormalization": EPSILON,
    "InstanceNormalization": EPSILON,
    "Conv": {"pads": ([], _moved)},
    "ConvTranspose": {"pads": ([], _moved)},
    "MaxPool": {"pads": ([], _moved)},
    "AveragePool": {"pads": ([], _moved), "count_include_pad": (0, lambda x: [1 - x])},
    "Gelu": {"approximate": (b"none", lambda x: ["tanh" if x == b"none" else "none"])},
    "Mod": {"fmod": (0, lambda x: [1 - x])},
    "CumSum": {"exclusive": (0, lambda x: [1 - x]), "reverse": (0, lambda x: [1 - x])},
    "TopK": {"largest": (1, lambda x: [1 - x])},
    "ArgMax": {"select_last_index": (0, lambda x: [1 - x])},
    "ArgMin": {"select_last_index": (0, lambda x: [1 - x])},
    "LeakyRelu": {"alpha": (0.01, lambda x: [x * 2])},
    "Elu": {"alpha": (1.0, lambda x: [x * 0.5])},
    "HardSigmoid": {"alpha": (0.2, lambda x: [x * 1.2]), "beta": (0.5, lambda x: [0.4])},
    "Gemm": {"alpha": (1.0, lambda x: [x * 0.5]), "beta": (1.0, lambda x: [0.0])},
    "Trilu": {"upper": (1, lambda x: [1 - x])},
    "GRU": {"linear_before_reset": (0, lambda x: [1 - x])},
    "Resize": {
        "coordinate_transformation_mode":
            (b"half_pixel", lambda x: [o for o in ("asymmetric", "half_pixel", "align_corners")
                                       if o.encode() != x]),
        "nearest_mode": (b"round_prefer_floor", lambda x: [
            o for o in ("floor", "ceil", "round_prefer_ceil") if o.encode() != x]),
    },
    "Pad": {"mode": (b"constant", lambda x: [
        o for o in ("constant", "edge", "reflect") if o.encode() != x])},
    "GridSample": {
        "align_corners": (0, lambda x: [1 - x]),
        "padding_mode": (b"zeros", lambda x: [
            o for o in ("zeros", "border") if o.encode() != x])},
    "ScatterElements": {"reduction": (b"none", lambda x: [
        o for o in ("none", "max") if o.encode() != x])},
    "ScatterND": {"reduction": (b"none", lambda x: [
        o for o in ("none", "max") if o.encode() != x])},
    "DepthToSpace": {"mode": (b"DCR", lambda x: ["CRD" if x == b"DCR" else "DCR"])},
    "LpNormalization": {"p": (2, lambda x: [3 - x])},
}  # fmt: skip


def attributes(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """Another value of an attribute that is no axis."""
    return other_attributes("attribute", ATTRIBUTES, model)


def other_attributes(
    kind: str, table: Mapping[str, Any], model: onnx.ModelProto
) -> Iterator[Mistake]:
    """Another value of each attribute that a table lists by operator."""
    for address, node in nodes(model.graph):
        for name, (default, others) in table.get(node.op_type, {}).items():
            for other in others(attribute(node, name, default)):
                yield of_node(kind, address, node, f"{name}={other}", set_attribute, name, other)


REDUCED = frozenset(
    "ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL2 ReduceL1 CumSum Squeeze "
    "ReduceLogSumExp".split()
)


def axes(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """Another axis, as an attribute or as a constant; other orders of axes."""
    known = constants(model)
    for address, node in nodes(model.graph):
        axis = attribute(node, "axis")
        for other in {axis - 1, axis + 1, 0, -1} - {axis} if isinstance(axis, int) else ():
            yield of_node("axis", address, node, f"axis={other}", set_attribute, "axis", other)
        perm = attribute(node, "perm")
        for i in range(len(perm) - 1) if isinstance(perm, list) else ():
            other = [*perm[:i], perm[i + 1], perm[i], *perm[i + 2 :]]
            yield of_node("axis", address, node, f"perm={other}", set_attribute, "perm", other)
        if node.op_type in REDUCED and len(node.input) > 1 and node.input[1] in known:
            at = known[node.input[1]]
            for step in (-1, 1) if at.size == 1 else ():
                yield Mistake(
                    "axis",
                    f"{node.op_type}@{address} axes{step:+d}",
                    functools.partial(read_another, address, 1, at + step),
                )


def read_another(address: str, place: int, array: np.ndarray, model: onnx.ModelProto) -> None:
    """Have a node read another constant."""
    name = f"{address}/planted_constant"
    model.graph.initializer.append(numpy_helper.from_array(array, name))
    node_at(model, address).input[place] = name


def changed_constants(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """One number of a constant is another one."""
    for name, array in constants(model).items():
        if not array.size or array.dtype == object:
            continue
        flat = array.reshape(-1)
        for at in sorted({0, array.size - 1, array.size // 2}):
            for what, other in _others(flat[at]):
                made = array.copy()
                made.reshape(-1)[at] = other
                yield Mistake(
                    "constant",
                    f"{name}[{at}] {what}",
                    functools.partial(set_constant, name=name, array=made),
                )


def _others(number: np.generic) -> Iterator[tuple[str, object]]:
    if number.dtype == bool:
        yield "turned", not number
    elif number.dtype.kind in "iu":
        yield "+1", number + 1
    elif number.dtype.kind == "f":
        if not np.isfinite(number) or abs(number) > 1e8:
            yield "nearer", np.sign(number) * 1e4
        else:
            yield "x1.5", number * 1.5 if abs(number) > 1e-9 else 0.5


SIDED = {"Sub": (0, 1), "MatMul": (0, 1), "Less": (0, 1), "Greater": (0, 1), "Where": (1, 2),
         "LessOrEqual": (0, 1), "GreaterOrEqual": (0, 1), "Concat": (0, 1)}  # fmt: skip
SIDED_FLOATS = {"Div": (0, 1), "Pow": (0, 1)}  # a whole number that is divided by 0 ends a process


def orders(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """Two operands in the other order."""
    for address, node in nodes(model.graph):
        sides = SIDED.get(node.op_type)
        if seen.dtypes.get(node.output[0], "").startswith("float"):
            sides = sides or SIDED_FLOATS.get(node.op_type)
        if sides and len(node.input) > sides[1] and node.input[sides[0]] != node.input[sides[1]]:
            yield of_node("order", address, node, "swapped", _swap, *sides)


def _swap(node: onnx.NodeProto, a: int, b: int) -> None:
    node.input[a], node.input[b] = node.input[b], node.input[a]


def baked(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """A size is the number that was recorded; in place of -1, of a shape, or of sums of sizes."""
    sizes: set[str] = set()
    for node in model.graph.node:
        if node.op_type == "Shape" or sizes.intersection(node.input):
            for name in node.output:
                if name in seen.numbers:
                    sizes.add(name)
                    array = seen.numbers[name]
                    for at in range(array.size):
                        yield Mistake(
                            "size",
                            f"{node.op_type} {name} [{at}] is {array.reshape(-1)[at]}",
                            functools.partial(_bake, name, at, array),
                        )
    for name, node, place in _targets(model, seen):
        yield Mistake("size", name, functools.partial(read_another, node, 1, place))


def _bake(name: str, at: int, array: np.ndarray, model: onnx.ModelProto) -> None:
    """Put the recorded number into one element of a value."""
    here = np.arange(array.size).reshape(array.shape) == at
    fixed = [f"{name}/planted_{part}" for part in ("here", "number")]
    constant = [numpy_helper.from_array(np.asarray(here), fixed[0]),
                numpy_helper.from_array(array, fixed[1])]  # fmt: skip
    where = helper.make_node("Where", [fixed[0], fixed[1], true(name)], [name])
    insert_behind(model, name, [where], constant)


def _targets(model: onnx.ModelProto, seen: Seen) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield shapes to which a Reshape leaves an axis open, with that axis as recorded."""
    known = constants(model)
    for i, node in enumerate(model.graph.node):
        if node.op_type != "Reshape" or node.input[1] not in known:
            continue
        shape, real = known[node.input[1]], seen.shapes.get(node.output[0])
        if real is None or len(real) != shape.size:
            continue
        for at in np.flatnonzero(shape <= 0):
            made = shape.copy()
            made[at] = real[at]
            if at in seen.dynamic[node.output[0]]:
                yield f"Reshape@{i} [{at}] is {real[at]}", str(i), made


ROWS = (50, 200, 700, 1500)


def data(model: onnx.ModelProto, seen: Seen, rank: int = 0) -> Iterator[str]:
    """Yield values of floats that nodes give."""
    for node in model.graph.node:
        if node.op_type in ("Constant", "ConstantOfShape"):
            continue
        for name in node.output:
            if seen.dtypes.get(name) in ("float32", "float64") and seen.ranks[name] >= rank:
                yield name


def lost_rows(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """Rows past a number are 0, or the last before it."""
    for name in data(model, seen, 1):
        for axis in seen.dynamic[name]:
            for count in ROWS:
                for way in ("zeroed", "repeated"):
                    yield Mistake(
                        "rows",
                        f"{name} axis {axis} past {count} {way}",
                        functools.partial(_lose, name, axis, count, way, seen),
                    )


def _lose(name: str, axis: int, count: int, way: str, seen: Seen, model: onnx.ModelProto) -> None:
    made = Nodes(name)
    size = made("Squeeze", made("Shape", true(name), start=axis, end=axis + 1))
    place = made("Range", made.constant(0), size, made.constant(1))
    if way == "zeroed":
        ones = [-1, *[1] * (seen.ranks[name] - axis - 1)]
        keep = made("Reshape", made("Less", place, made.constant(count)), made.constant(ones))
        zero = made.constant(0, seen.dtypes[name])
        made("Where", keep, true(name), zero, output=name)
    else:
        at = made("Min", place, made.constant(count - 1))
        made("Gather", true(name), at, output=name, axis=axis)
    insert_behind(model, name, made.nodes, made.constants)


class Nodes:
    """Nodes to insert behind a value."""

    def __init__(self, value: str) -> None:
        self.value = value
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def __call__(self, operator: str, *inputs: str, output: str = "", **given: object) -> str:
        output = output or f"{self.value}/planted_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], **given))
        return output

    def constant(self, number: object, dtype: str = "int64") -> str:
        name = f"{self.value}/planted_c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(number, dtype), name))
        return name


BOUNDS = (("Min", 40.0), ("Max", -40.0), ("Min", 300.0), ("Max", -300.0), ("Min", 6.0))


def clipped(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """Values past a bound are the bound."""
    for name in data(model, seen):
        for operator, bound in BOUNDS:
            yield Mistake(
                "bound",
                f"{name} {operator} {bound:g}",
                functools.partial(_clip, name, operator, bound, seen.dtypes[name]),
            )


def _clip(name: str, operator: str, bound: float, dtype: str, model: onnx.ModelProto) -> None:
    made = Nodes(name)
    made(operator, true(name), made.constant(bound, dtype), output=name)
    insert_behind(model, name, made.nodes, made.constants)


def first_rows(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """The first row is used for all."""
    for name in data(model, seen, 1):
        for axis in seen.dynamic[name]:
            yield Mistake(
                "first",
                f"{name} axis {axis}",
                functools.partial(_only_first, name, axis),
            )


def _only_first(name: str, axis: int, model: onnx.ModelProto) -> None:
    made = Nodes(name)
    first = made("Gather", true(name), made.constant([0]), axis=axis)
    made("Expand", first, made("Shape", true(name)), output=name)
    insert_behind(model, name, made.nodes, made.constants)


def ignored_masks(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """A mask is ignored: a choice is the same everywhere, or a sum leaves the mask out."""
    from_masks = _from_masks(model, seen)
    for address, node in nodes(model.graph):
        if node.op_type == "Where":
            for answer in (True, False):
                yield Mistake(
                    "mask",
                    f"Where@{address} is {'always' if answer else 'never'}",
                    functools.partial(_same_everywhere, address, answer),
                )
        elif node.op_type in ("And", "Or"):
            for side in (0, 1):
                yield of_node("mask", address, node, f"without {side}", _leave_out, side)
        elif node.op_type in ("Add", "Mul") and "." not in address:
            for side in (0, 1):
                if node.input[side] in from_masks and node.input[1 - side] not in from_masks:
                    yield Mistake(
                        "mask",
                        f"{node.op_type}@{address} without {side}",
                        functools.partial(_other_side, address, side),
                    )


def _from_masks(model: onnx.ModelProto, seen: Seen) -> set[str]:
    """Return the values that follow from booleans, and from no floats."""
    found = {name for name, dtype in seen.dtypes.items() if dtype == "bool"}
    fixed = set(constants(model))
    for node in model.graph.node:
        read = [name for name in node.input if name and name not in fixed]
        if read and found.issuperset(read):
            found.update(node.output)
    return found


def _same_everywhere(address: str, answer: bool, model: onnx.ModelProto) -> None:
    graph, i = graph_of(model, address)
    condition = graph.node[i].input[0]
    other, made = f"{address}/planted_not", f"{address}/planted_answer"
    graph.node.insert(i, helper.make_node("Not", [condition], [other]))
    operator = "Or" if answer else "And"
    graph.node.insert(i + 1, helper.make_node(operator, [condition, other], [made]))
    graph.node[i + 2].input[0] = made


def _leave_out(node: onnx.NodeProto, side: int) -> None:
    node.input[side] = node.input[1 - side]


def _other_side(address: str, side: int, model: onnx.ModelProto) -> None:
    node = node_at(model, address)
    name, kept = node.output[0], node.input[1 - side]
    made = Nodes(name)
    made("Expand", kept, made("Shape", true(name)), output=name)
    insert_behind(model, name, made.nodes)


KINDS: dict[str, Callable[[onnx.ModelProto, Seen], Iterator[Mistake]]] = {
    "operator": operators,
    "attribute": attributes,
    "axis": axes,
    "constant": changed_constants,
    "order": orders,
    "size": baked,
    "rows": lost_rows,
    "bound": clipped,
    "first": first_rows,
    "mask": ignored_masks,
}
