"""Elements in another arrangement, and new tensors."""

from __future__ import annotations

from collections.abc import Sequence

from ..shapes import (
    RUN_TIME,
    Shape,
    Unknown,
    axis_of,
    broadcast,
    by_contents,
    elements,
    numbers,
    product,
    same,
    shape_of,
)
from ..sizes import dims, integer_functions
from ._rule import rule


@rule("Shape")
def _shape_of(inputs, attributes, count):
    rank = inputs[0].rank
    return [(len(range(rank)[attributes.get("start", 0) : attributes.get("end", rank)]),)]


@rule("Size")
def _size(inputs, attributes, count):
    return [()]


@rule("Reshape")
def _reshape(inputs, attributes, count):
    wanted = numbers(inputs[1])
    x = shape_of(inputs[0])
    out: list[int] = []
    for i, n in enumerate(wanted):
        zero = type(n) is int and n == 0 and not attributes.get("allowzero")
        out.append(x[i] if zero else n)
    unknown = [i for i, n in enumerate(out) if type(n) is int and n == -1]
    if unknown:
        before, after = _apart(x, [n for i, n in enumerate(out) if i != unknown[0]])
        rest = product(after)
        if type(rest) is int and rest == 0:
            raise Unknown
        out[unknown[0]] = product(before) // rest
    return [tuple(out)]


def _apart(a: Shape, b: Sequence[int]) -> tuple[list[int], list[int]]:
    """Remove the varying sizes that two shapes share: less to multiply, and to divide by."""
    left, only = list(a), []
    for n in b:
        at = -1
        if type(n) is dims.Dim:
            at = next((i for i, m in enumerate(left) if type(m) is dims.Dim and same(m, n)), -1)
        if at < 0:
            only.append(n)
        else:
            del left[at]
    return left, only


@rule("Flatten")
def _flatten(inputs, attributes, count):
    x = shape_of(inputs[0])
    axis = axis_of(attributes.get("axis", 1), len(x))
    return [(product(x[:axis]), product(x[axis:]))]


@rule("Transpose")
def _transpose(inputs, attributes, count):
    x = shape_of(inputs[0])
    perm = attributes.get("perm") or range(len(x) - 1, -1, -1)
    return [tuple(x[p] for p in perm)]


@rule("Squeeze")
def _squeeze(inputs, attributes, count):
    x = shape_of(inputs[0])
    if len(inputs) < 2 or inputs[1] is None:
        if any(type(n) is dims.Dim for n in x):
            return None
        return [tuple(n for n in x if n != 1)]
    axes = {axis_of(a, len(x)) for a in elements(inputs[1])}
    return [tuple(n for i, n in enumerate(x) if i not in axes)]


@rule("Unsqueeze")
def _unsqueeze(inputs, attributes, count):
    x = list(shape_of(inputs[0]))
    axes = elements(inputs[1])
    rank = len(x) + len(axes)
    for a in sorted(axis_of(a, rank) for a in axes):
        x.insert(a, 1)
    return [tuple(x)]


@rule("Expand")
def _expand(inputs, attributes, count):
    x, wanted = shape_of(inputs[0]), numbers(inputs[1])
    common = broadcast(x, wanted)
    lead = len(common) - len(wanted)
    # The result of an expand has the size asked for, or PyTorch would have refused it.
    return [
        tuple(wanted[i - lead] if n is RUN_TIME and i >= lead else n for i, n in enumerate(common))
    ]


@rule("ConstantOfShape", "RandomNormal", "RandomUniform")
def _of_shape(inputs, attributes, count):
    return [tuple(numbers(inputs[0]) if inputs else attributes["shape"])]


@rule("Tile")
def _tile(inputs, attributes, count):
    return [tuple(n * r for n, r in zip(shape_of(inputs[0]), numbers(inputs[1])))]


@rule("Concat")
def _concat(inputs, attributes, count):
    shapes = [shape_of(v) for v in inputs]
    axis = axis_of(attributes["axis"], len(shapes[0]))
    out = list(shapes[0])
    for i in range(len(out)):
        # Axes that are joined are equal; one that is a plain number knows best.
        fixed = [s[i] for s in shapes if type(s[i]) is int]
        out[i] = fixed[0] if fixed else out[i]
    out[axis] = 0
    for s in shapes:
        out[axis] = out[axis] + s[axis]
    return [tuple(out)]


@rule("Split")
def _split(inputs, attributes, count):
    x = list(shape_of(inputs[0]))
    axis = axis_of(attributes.get("axis", 0), len(x))
    if len(inputs) > 1 and inputs[1] is not None:
        sizes = numbers(inputs[1])
    else:
        chunk = integer_functions.ceil_div(x[axis], count)
        sizes = (*[chunk] * (count - 1), x[axis] - chunk * (count - 1))
    return [(*x[:axis], n, *x[axis + 1 :]) for n in sizes]


@rule("Pad")
def _pad(inputs, attributes, count):
    x = list(shape_of(inputs[0]))
    pads = numbers(inputs[1])
    axes = elements(inputs[3]) if len(inputs) > 3 and inputs[3] is not None else range(len(x))
    for i, a in enumerate(axes):
        x[a] = x[a] + pads[i] + pads[len(pads) // 2 + i]
    return [tuple(x)]


@rule("Range")
def _range(inputs, attributes, count):
    try:
        (start,), (limit,), (delta,) = map(elements, inputs)
    except Unknown:
        return [(RUN_TIME,)] if by_contents("Range", inputs) else None
    if type(delta) is int and delta > 0:
        return [(dims.larger(integer_functions.ceil_div(limit - start, delta), 0)
                 if not (type(start) is int and start == 0)
                 else integer_functions.ceil_div(limit, delta),)]  # fmt: skip
    if type(delta) is int and delta < 0:
        return [(dims.larger(integer_functions.ceil_div(start - limit, -delta), 0),)]
    return [(RUN_TIME,)]
