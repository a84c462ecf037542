"""More mistakes, by kind: those of one number, channel, place, dtype, branch or round."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import helper

from .graph_places import (
    Seen,
    attribute,
    constants,
    insert_behind,
    node_at,
    nodes,
    set_attribute,
    set_constant,
    true,
)
from .mistakes import Mistake, Nodes, data, of_node, other_attributes, read_another

EPSILON: dict[str, tuple[object, Callable]] = {"epsilon": (1e-5, lambda x: [x * 10])}
# For each attribute of an operator: its default, and a function that returns wrong values for it.
FINER: dict[str, dict[str, tuple[object, Callable]]] = {
    "LayerNormalization": EPSILON,
    "BatchNormalization": EPSILON,
    "InstanceNormalization": EPSILON,
    "GroupNormalization": EPSILON,
    "MaxPool": {"ceil_mode": (0, lambda x: [1 - x])},
    "AveragePool": {"ceil_mode": (0, lambda x: [1 - x])},
    "Pad": {"mode": (b"constant", lambda x: ["wrap"] if x != b"wrap" else ["reflect"])},
    "Resize": {"cubic_coeff_a": (-0.75, lambda x: [-0.5]), "mode": (b"nearest", lambda x: [
        o for o in ("nearest", "linear", "cubic") if o.encode() != x])},
    "GridSample": {"mode": (b"linear", lambda x: ["nearest" if x != b"nearest" else "linear"]),
                   "padding_mode": (b"zeros", lambda x: ["reflection"] if x != b"reflection" else [])},
    "Conv": {"dilations": ([], lambda x: [[max(1, n - 1) for n in x]] if any(n > 1 for n in x) else [])},
    "LRN": {"size": (1, lambda x: [x + 2]), "bias": (1.0, lambda x: [x + 1])},
    "LpPool": {"p": (2, lambda x: [x + 1])},
    "LSTM": {"direction": (b"forward", lambda x: ["reverse"] if x == b"forward" else [])},
    "GRU": {"direction": (b"forward", lambda x: ["reverse"] if x == b"forward" else [])},
    "RNN": {"direction": (b"forward", lambda x: ["reverse"] if x == b"forward" else [])},
    "BitShift": {"direction": (b"LEFT", lambda x: ["LEFT" if x == b"RIGHT" else "RIGHT"])},
    "DFT": {"inverse": (0, lambda x: [1 - x])},
}  # fmt: skip


def finer_attributes(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """An attribute that matters at few values, or at the edges."""
    yield from other_attributes("finer", FINER, model)
    for address, node in nodes(model.graph):
        if node.op_type.startswith("Reduce") or node.op_type.startswith("Arg"):
            other = 1 - attribute(node, "keepdims", 1)
            yield of_node(
                "finer", address, node, f"keepdims={other}", set_attribute, "keepdims", other
            )


def slight(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """One number of a constant is off by a hundredth; one of its channels is 0; it is turned."""
    for name, array in constants(model).items():
        if array.dtype.kind != "f" or not array.size:
            continue
        rng = np.random.default_rng(array.size)
        for at in sorted({0, array.size - 1, *rng.integers(array.size, size=2).tolist()}):
            made = array.copy()
            made.reshape(-1)[at] *= 1.01
            if np.isfinite(array.reshape(-1)[at]):
                yield Mistake("slight", f"{name}[{at}] x1.01", _set(name, made))
        for axis in range(array.ndim):
            if 1 < array.shape[axis]:
                for at in {array.shape[axis] - 1, int(rng.integers(array.shape[axis]))}:
                    made = array.copy()
                    made[(slice(None),) * axis + (at,)] = 0
                    yield Mistake("slight", f"{name} axis {axis} [{at}] is 0", _set(name, made))
        if array.ndim > 1 and array.shape[-1] == array.shape[-2] > 1:
            yield Mistake("slight", f"{name} turned", _set(name, np.swapaxes(array, -1, -2).copy()))


def _set(name: str, array: np.ndarray) -> Callable[[onnx.ModelProto], None]:
    return functools.partial(set_constant, name=name, array=array)


BIASED = {
    "Conv": 2,
    "ConvTranspose": 2,
    "Gemm": 2,
    "LayerNormalization": 2,
    "GRU": 3,
    "LSTM": 3,
    "RNN": 3,
}


def without_bias(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """A bias or an initial state is left out."""
    for address, node in nodes(model.graph):
        place = BIASED.get(node.op_type)
        if place is not None and len(node.input) > place and node.input[place]:
            yield of_node("bias", address, node, "without bias", _without, place)
        if node.op_type in ("GRU", "LSTM", "RNN") and len(node.input) > 5 and node.input[5]:
            yield of_node("bias", address, node, "without state", _without, 5)


def _without(node: onnx.NodeProto, place: int) -> None:
    node.input[place] = ""
    while not node.input[-1]:  # onnxruntime crashes on a normalization of halves with such a one
        del node.input[-1]


def limits(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """A bound of a clip is another one, or none."""
    known = constants(model)
    for address, node in nodes(model.graph):
        for place in (1, 2) if node.op_type == "Clip" else ():
            if len(node.input) > place and node.input[place]:
                yield of_node("limit", address, node, f"without {place}", _without, place)
                if node.input[place] in known:
                    array = known[node.input[place]]
                    for what, by in (("wider", 1.1), ("narrower", 0.9)):
                        made = (
                            array * by if array.dtype.kind == "f" else array + (1 if by > 1 else -1)
                        )
                        yield Mistake(
                            "limit",
                            f"Clip@{address} {place} {what}",
                            functools.partial(
                                read_another, address, place, made.astype(array.dtype)
                            ),
                        )


def dtypes(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """Numbers pass through a dtype that holds fewer of them."""
    kinds = {"float32": ("FLOAT16", "INT32"), "float64": ("FLOAT", "INT64"), "float16": ("INT32",),
             "int64": ("INT32", "FLOAT16"), "int32": ("INT16",)}  # fmt: skip
    for node in model.graph.node:
        for name in node.output if node.op_type != "Constant" else ():
            for other in kinds.get(seen.dtypes.get(name, ""), ()):
                yield Mistake(
                    "dtype",
                    f"{name} through {other}",
                    functools.partial(_through, name, other, seen),
                )


def _through(name: str, other: str, seen: Seen, model: onnx.ModelProto) -> None:
    made = Nodes(name)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(seen.dtypes[name]))
    less = made("Cast", true(name), to=getattr(onnx.TensorProto, other))
    made("Cast", less, output=name, to=kind)
    insert_behind(model, name, made.nodes, made.constants)


INDICES = {"Gather": 1, "GatherElements": 1, "GatherND": 1, "ScatterElements": 1, "ScatterND": 1}


def indices(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """An index wraps around, stops at a bound, or is one more or less."""
    known, made = constants(model), {name for node in model.graph.node for name in node.output}
    given = {each.name for each in model.graph.input}
    for i, node in enumerate(model.graph.node):
        place = INDICES.get(node.op_type)
        if place is None or node.input[place] in known or node.input[place] not in made | given:
            continue
        for what in ("at least 0", "at most 2", "at most 20", "at most 500", "one less", "even"):
            yield Mistake(
                "index", f"{node.op_type}@{i} {what}", functools.partial(_index, i, place, what)
            )


def _index(i: int, place: int, what: str, model: onnx.ModelProto) -> None:
    node = model.graph.node[i]
    made, index = Nodes(f"{i}/index"), node.input[place]
    as_64 = made("Cast", index, to=onnx.TensorProto.INT64)
    operator, *numbers = {
        "at least 0": ("Max", 0), "at most 2": ("Min", 2), "at most 20": ("Min", 20),
        "at most 500": ("Min", 500), "one less": ("Sub", 1), "even": ("Sub", 0),
    }[what]  # fmt: skip
    result = made(operator, as_64, made.constant(numbers[0]))
    if what == "one less":
        result = made("Max", result, made.constant(0))
    if what == "even":
        two = made.constant(2)
        result = made("Mul", made("Div", result, two), two)
    node.input[place] = result
    later = list(model.graph.node[i:])
    del model.graph.node[i:]
    model.graph.node.extend([*made.nodes, *later])
    model.graph.initializer.extend(made.constants)


def flows(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """A loop that ends a round early or late, an If with the other branch."""
    for address, node in nodes(model.graph):
        if node.op_type == "If":
            for what in ("swapped", "always then", "always else"):
                yield of_node("flow", address, node, what, _other_way, what)
        if node.op_type == "Loop" and "." not in address:
            for what in ("Sub", "Add", "Min") if node.input[0] else ():
                yield Mistake(
                    "flow", f"Loop@{address} {what}", functools.partial(_rounds, int(address), what)
                )
            body = attribute(node, "body")
            states = len(node.input) - 2
            for a in range(2, 2 + states - 1):
                if node.input[a] != node.input[a + 1]:
                    yield of_node("flow", address, node, f"states {a}, {a + 1}", _swap_states, a)
            for at in range(1, 1 + states):
                if body.output[at].name != body.input[at + 1].name:
                    yield Mistake(
                        "flow",
                        f"Loop@{address} keeps state {at}",
                        functools.partial(_keep, address, at),
                    )


def _other_way(node: onnx.NodeProto, what: str) -> None:
    both = {a.name: a for a in node.attribute}
    one, other = onnx.GraphProto(), onnx.GraphProto()
    one.CopyFrom(both["then_branch"].g)
    other.CopyFrom(both["else_branch"].g)
    if what in ("swapped", "always else"):
        both["then_branch"].g.CopyFrom(other)
    if what in ("swapped", "always then"):
        both["else_branch"].g.CopyFrom(one)
    kept = both["else_branch"].g if what != "always else" else both["then_branch"].g
    if what != "swapped":  # the names of one branch may occur once
        names = {n: f"{n}/planted" for node_ in kept.node for n in node_.output}
        for node_ in kept.node:
            node_.input[:] = [names.get(n, n) for n in node_.input]
            node_.output[:] = [names.get(n, n) for n in node_.output]
        for each in kept.output:
            each.name = names.get(each.name, each.name)
        del kept.value_info[:]


def _rounds(i: int, what: str, model: onnx.ModelProto) -> None:
    node = model.graph.node[i]
    made = Nodes(f"{i}/rounds")
    result = made(what, node.input[0], made.constant({"Sub": 1, "Add": 1, "Min": 24}[what]))
    node.input[0] = result
    later = list(model.graph.node[i:])
    del model.graph.node[i:]
    model.graph.node.extend([*made.nodes, *later])
    model.graph.initializer.extend(made.constants)


def _swap_states(node: onnx.NodeProto, a: int) -> None:
    node.input[a], node.input[a + 1] = node.input[a + 1], node.input[a]


def _keep(address: str, at: int, model: onnx.ModelProto) -> None:
    body = attribute_graph(model, address)
    body.node.append(
        helper.make_node("Identity", [body.input[at + 1].name], [f"{address}/planted_kept"])
    )
    body.output[at].name = f"{address}/planted_kept"


def attribute_graph(model: onnx.ModelProto, address: str) -> onnx.GraphProto:
    return next(a.g for a in node_at(model, address).attribute if a.name == "body")


def lone(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """The last, or every third row or channel is 0, or a hundredth larger."""
    for name in data(model, seen, 1):
        for axis in range(seen.ranks[name]):
            if seen.shapes[name][axis] < 2:
                continue
            for way in ("last", "third"):
                for by in (0.0, 1.01):
                    change = functools.partial(_lone, name, axis, way, by, seen)
                    yield Mistake("lone", f"{name} axis {axis} {way} x{by}", change)


def _lone(name: str, axis: int, way: str, by: float, seen: Seen, model: onnx.ModelProto) -> None:
    made = Nodes(name)
    size = made("Squeeze", made("Shape", true(name), start=axis, end=axis + 1))
    place = made("Range", made.constant(0), size, made.constant(1))
    if way == "last":
        here = made("Equal", place, made("Sub", size, made.constant(1)))
    else:
        here = made("Equal", made("Mod", place, made.constant(3)), made.constant(2))
    here = made("Reshape", here, made.constant([-1, *[1] * (seen.ranks[name] - axis - 1)]))
    times = made(
        "Where", here, made.constant(by, seen.dtypes[name]), made.constant(1.0, seen.dtypes[name])
    )
    made("Mul", true(name), times, output=name)
    insert_behind(model, name, made.nodes, made.constants)


def ranges(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """Values of one range are others: small ones are 0, whole ones one more, those of a band equal."""
    for name in data(model, seen):
        for what in ("small", "band", "negative", "equal to 0", "whole"):
            yield Mistake("range", f"{name} {what}", functools.partial(_ranged, name, what, seen))


def _ranged(name: str, what: str, seen: Seen, model: onnx.ModelProto) -> None:
    made, dtype = Nodes(name), seen.dtypes[name]
    x = true(name)
    number = functools.partial(made.constant, dtype=dtype)
    if what == "small":
        here, other = made("Less", made("Abs", x), number(0.02)), number(0.0)
    elif what == "band":
        here, other = (
            made("And", made("Greater", x, number(0.5)), made("Less", x, number(0.6))),
            number(0.5),
        )
    elif what == "negative":
        here, other = made("Less", x, number(-3.0)), made("Neg", x)
    elif what == "equal to 0":
        here, other = made("Equal", x, number(0.0)), number(0.1)
    else:
        here, other = made("Equal", x, made("Floor", x)), made("Add", x, number(0.01))
    made("Where", here, other, x, output=name)
    insert_behind(model, name, made.nodes, made.constants)


WHOLE_BOUNDS = (("Min", 20), ("Max", 0), ("Min", 300), ("Max", 2))


def whole_bounds(model: onnx.ModelProto, seen: Seen) -> Iterator[Mistake]:
    """Whole numbers past a bound are the bound; division rounds the other way."""
    for node in model.graph.node:
        if node.op_type in ("Constant", "Shape", "Size"):
            continue
        for name in node.output:
            if seen.dtypes.get(name) in ("int64", "int32"):
                for operator, bound in WHOLE_BOUNDS:
                    change = functools.partial(_bounded, name, operator, bound, seen.dtypes[name])
                    yield Mistake("whole", f"{name} {operator} {bound}", change)
        if node.op_type in ("Div", "Mod") and seen.dtypes.get(node.output[0]) in ("int64", "int32"):
            change = functools.partial(_of_absolute, node.output[0])
            yield Mistake("whole", f"{node.output[0]} of absolute numbers", change)


def _bounded(name: str, operator: str, bound: int, dtype: str, model: onnx.ModelProto) -> None:
    made = Nodes(name)
    made(operator, true(name), made.constant(bound, dtype), output=name)
    insert_behind(model, name, made.nodes, made.constants)


def _of_absolute(name: str, model: onnx.ModelProto) -> None:
    i, node = next((i, n) for i, n in enumerate(model.graph.node) if name in n.output)
    model.graph.node.insert(
        i, helper.make_node("Abs", [node.input[0]], [f"{name}/planted_absolute"])
    )
    model.graph.node[i + 1].input[0] = f"{name}/planted_absolute"


KINDS: dict[str, Callable[[onnx.ModelProto, Seen], Iterator[Mistake]]] = {
    "finer": finer_attributes,
    "slight": slight,
    "bias": without_bias,
    "limit": limits,
    "dtype": dtypes,
    "index": indices,
    "flow": flows,
    "lone": lone,
    "range": ranges,
    "whole": whole_bounds,
}
