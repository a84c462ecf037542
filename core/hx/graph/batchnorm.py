"""Fold a BatchNormalization with fixed statistics into the weights of the layer before it.

It multiplies each channel of `Conv(x, w, b)` by a factor and adds an offset, which equals
`Conv(x, w * factor, b * factor + offset)`. The weight itself stays as it is: the products are made
piece by piece as they are written, under a name of their own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

import torch

from ..ir.value import Absent, Constant, Node, Value
from ..weights import contents
from ..weights.contents import Scaled

# The products of numbers with fewer digits would be less exact than what they are made of.
_DTYPES = (torch.float32, torch.float64)


def fold(nodes: list[Node], uses: Counter[int], folds: Folds) -> list[Node]:
    """The nodes, without the normalizations that the layer before them absorbs.

    `uses` counts the readers of a value, by its id: nothing else may read such a layer's output.
    """
    norms = [node for node in nodes if node.op == "BatchNormalization"]
    if not norms:
        return nodes
    layers = {id(node.outputs[0]): node for node in nodes if is_layer(node)}
    pairs = [
        (layer, norm)
        for norm in norms
        if (layer := layers.get(id(norm.inputs[0]))) is not None
        and uses[id(layer.outputs[0])] == 1
        and fits(layer, norm)
    ]
    readers = defaultdict(list)
    for layer, norm in pairs:
        readers[id(layer.inputs[1])].append(_made_of(layer, norm))
    first: dict[int, Node] = {}  # by the weight that it was made of
    instead: dict[int, Node | None] = {}
    for layer, norm in pairs:
        weight = id(layer.inputs[1])
        # One that several read is stored once, and stays so.
        if len(readers[weight]) != uses[weight] or len(set(readers[weight])) > 1:
            continue
        known = first.get(weight)
        made = _instead(layer, norm, known.inputs[1:]) if known else folds.of(layer, norm)
        if made is not None:
            first.setdefault(weight, made)
            instead[id(layer)], instead[id(norm)] = made, None
    return [made for node in nodes if (made := instead.get(id(node), node)) is not None]


class Folds:
    """Folded nodes of layers and their normalizations, made once for both write-ahead and graph."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], Node | None] = {}

    def of(self, layer: Node, norm: Node) -> Node | None:
        """The folded node; None if no weights give the same result."""
        weight: Any = layer.inputs[1]
        key = (layer, norm, *layer.inputs[1:], *norm.inputs[1:])
        if key not in self._made or weight.frozen:  # frozen: it was written to, and is a copy now
            self._made[key] = _folded(layer, norm)
        made = self._made[key]
        if made is not None:  # its input may have become another value since it was made
            made.inputs[0] = layer.inputs[0]
        return made


def is_layer(node: Node) -> bool:
    """Return True if a node multiplies by its weights, per channel, and does nothing else."""
    return (
        node.op in ("Conv", "ConvTranspose", "Gemm")
        and not node.domain
        and _known(node.inputs[1:])
        and all(node.attributes.get(key, 1.0) == 1.0 for key in ("alpha", "beta"))
    )


def fits(layer: Node, norm: Node) -> bool:
    """Return True if a node normalizes the output of such a layer by known numbers."""
    dtype = norm.outputs[0].dtype
    return (
        norm.op == "BatchNormalization"
        and norm.inputs[0] is layer.outputs[0]
        and not norm.attributes.get("training_mode")
        and _known(norm.inputs[1:])
        and dtype in _DTYPES
        and all(v is None or v.dtype == dtype for v in (*layer.inputs[1:], *norm.inputs[1:]))
    )


def _folded(layer: Node, norm: Node) -> Node | None:
    """One node for both; None if no weights give the same result."""
    weight: Any = layer.inputs[1]
    bias: Any = layer.inputs[2] if len(layer.inputs) > 2 else None
    numbers: Any = norm.inputs[1:]
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch.no_grad():
        scale, shift, mean, variance = (contents.of(v).load().double() for v in numbers)
        start = torch.zeros_like(mean) if bias is None else contents.of(bias).load().double()
        factor = scale / torch.sqrt(variance + norm.attributes.get("epsilon", 1e-5))
        offset = (start - mean) * factor + shift
        factor, offset = factor.to(weight.dtype), offset.to(weight.dtype)
        if offset.shape != mean.shape or not (factor.isfinite() & offset.isfinite()).all():
            return None
        product = Scaled(contents.of(weight), _spread(layer, weight.shape, factor))
        name = folded_name(weight.name)
        weights = [
            Absent(weight.tensor, product, name=name),
            Constant(offset, name=name.replace(".weight.", ".bias.")),
        ]
    return _instead(layer, norm, weights)


def folded_name(name: str) -> str:
    """The name of a weight that differs from the model's weight of that name."""
    return name and f"{name}.folded"


def _instead(layer: Node, norm: Node, weights: Sequence[Value | None]) -> Node:
    inputs = [layer.inputs[0], *weights]
    made = Node(layer.op, "", inputs, norm.outputs, layer.attributes, layer.origin)
    if norm.origin is not None and norm.origin.scope:
        made.notes["hx.folded"] = norm.origin.scope
    return made


def _made_of(layer: Node, norm: Node) -> Hashable:
    """A key that two such nodes share if their weights are equal."""
    attributes = repr(sorted(layer.attributes.items())), norm.attributes.get("epsilon")
    return (layer.op, *map(id, layer.inputs[1:]), *map(id, norm.inputs[1:]), *attributes)


def _known(values: Sequence[Value | None]) -> bool:
    return all(
        v is None or (isinstance(v, Constant) and not (isinstance(v, Absent) and v.content is None))
        for v in values
    )


def _spread(layer: Node, shape: Sequence[int], factor: torch.Tensor) -> torch.Tensor:
    """The factors of the channels, shaped to be broadcast over the weight."""
    if layer.op == "Gemm":
        return factor.reshape((-1, 1) if layer.attributes.get("transB") else (1, -1))
    rest = [1] * (len(shape) - 2)
    if layer.op == "Conv":
        return factor.reshape(-1, 1, *rest)
    # Transposed: the channels that come, group by group, by those of the group that go.
    groups = layer.attributes.get("group", 1)
    each = factor.reshape(groups, 1, -1).expand(groups, shape[0] // groups, -1)
    return each.reshape(shape[0], -1, *rest)
