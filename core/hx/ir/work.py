"""Estimates of a graph's work at other sizes than it was recorded at, as far as shapes tell.

A graph has many nodes and few shapes: the products are collected once, and evaluated for other
sizes as often as needed.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .sizes import dims
from .sizes.comparisons import Asked, At, Unforeseen
from .sizes.size_polynomials import Poly

if TYPE_CHECKING:
    from .value import Node, Value

TOUCHED = 16  # products that take as long as an element takes that is written,
CALLED = 1 << 14  # or as a node takes that is run, in each round of a loop

Product = tuple[tuple[Poly, ...], float]  # of sizes with names, and of plain numbers


class Work:
    """Estimate of the work of nodes at any sizes.

    Sizes known only at run time are scaled by the growth of the inputs over their `recorded` sizes,
    if these are given: a speech model makes more frames of a longer text.
    """

    def __init__(self, nodes: Sequence[Node], recorded: Mapping[str, int] | None = None) -> None:
        self._nodes, self._recorded = nodes, recorded or {}
        self._products = _added(_products(nodes))
        self._bytes: dict[tuple[Poly, ...], float] | None = None

    def beside(self, recorded: Mapping[str, int]) -> Work:
        """Return the same work, with sizes known only at run time scaled from these recorded sizes."""
        other = copy.copy(self)
        other._recorded = recorded
        return other

    def at(self, at: At) -> float:
        """Count products, and elements written."""
        grown = max((at.sizes[w] / (n or 1) for w, n in self._recorded.items()), default=1.0)
        return _total(self._products, at, grown=grown)

    def memory(self, at: At, times: float = 1) -> float:
        """Bytes of results, where numbers read from tensors are larger by the given factor."""
        if self._bytes is None:
            outputs = (value for node in self._nodes for value in node.outputs)
            self._bytes = _added(
                _times(_product(v.shape or ()), v.dtype.itemsize if v.dtype else 1) for v in outputs
            )
        return _total(self._bytes, at, times)


def _products(nodes: Iterable[Node]) -> Iterator[Product]:
    for node in nodes:
        inputs = [value for value in node.inputs if value is not None]
        if bodies := node.bodies:
            rounds = _rounds(node, inputs)
            for body in bodies:
                for product in _products(body.nodes):
                    yield _times(product, *rounds)
            continue
        reach = _reach(node, [value.shape for value in inputs if value.shape])
        for value in node.outputs:
            written = _product(value.shape or ())
            yield _times(written, TOUCHED)
            yield _times(written, *reach)
        yield (), CALLED


def _reach(node: Node, shapes: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Return the sizes whose product is the number of multiplications per output element."""
    if node.op in ("MatMul", "Gemm") and shapes:
        return shapes[0][-1:]
    if node.op in ("Conv", "ConvTranspose", "LSTM", "GRU", "RNN") and len(shapes) > 1:
        return shapes[1][1:]
    return ()


def _rounds(node: Node, inputs: Sequence[Value]) -> Sequence[Any]:
    """Return how often the body of a loop runs, as far as known; the body of an If runs once."""
    known = inputs[0].elements if node.op == "Loop" and inputs else None
    if node.op == "Scan":
        given = inputs[-node.attributes["num_scan_inputs"] :]
        axes = node.attributes.get("scan_input_axes") or [0]
        known = given[0].shape[axes[0] :] if given[0].shape else None
    return known[:1] if known else ()


def _product(sizes: Iterable[Any]) -> Product:
    return _times(((), 1.0), *sizes)


def _times(product: Product, *sizes: Any) -> Product:
    named, number = product
    for size in sizes:
        if type(size) is dims.Dim:
            named = (*named, size.poly)
        else:
            number *= int(size)
    return named, number


def _added(products: Iterable[Product]) -> dict[tuple[Poly, ...], float]:
    found: dict[tuple[Poly, ...], float] = defaultdict(float)
    for named, number in products:
        found[named] += number
    return found


def _total(
    products: dict[tuple[Poly, ...], float], at: At, times: float = 1, grown: float = 1
) -> float:
    known: dict[Poly, float] = {}
    total = 0.0
    for named, number in products.items():
        for poly in named:
            if poly not in known:
                known[poly] = _number(poly, at, times, grown)
            number *= known[poly]
        total += number
    return total


def _number(poly: Poly, at: At, times: float, grown: float) -> float:
    try:
        return at(poly)
    except Unforeseen:
        read = times != 1 and Asked(int, (poly,)).read()
        return poly.hint * (times if read else grown)
