"""How much a graph computes at other sizes than it was recorded at, as far as shapes tell.

A graph has many nodes and few shapes: what is multiplied is put together once, and worked out anew for
other sizes as often as somebody asks.
"""

from __future__ import annotations

from builtins import int, len  # their own: `world` hooks those of the model
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...sizes import dims
from ...sizes.asked import Asked, At, Unforeseen
from ...sizes.polynomials import Poly
from ...tensors.values import Body

if TYPE_CHECKING:
    from ...tensors.values import Node, Value

TOUCHED = 16  # products that take as long as an element takes that is written,
CALLED = 1 << 14  # or as a node takes that is run, in each round of a loop

Product = tuple[tuple[Poly, ...], float]  # of sizes with names, and of plain numbers


class Work:
    """Of nodes, at any sizes; what only a run tells grows as the sizes beside the `recorded` ones, where
    these are given: as many more frames are drawn for a text that is longer."""

    def __init__(self, nodes: Sequence[Node], recorded: Mapping[str, int] | None = None) -> None:
        self._recorded = recorded or {}
        self._products = _added(_products(nodes))
        outputs = (value for node in nodes for value in node.outputs)
        self._bytes = _added(
            _times(_product(v.shape or ()), v.dtype.itemsize if v.dtype else 1) for v in outputs
        )

    def at(self, at: At) -> float:
        """Products, and elements written."""
        grown = max((at.sizes[w] / (n or 1) for w, n in self._recorded.items()), default=1.0)
        return _total(self._products, at, grown=grown)

    def memory(self, at: At, times: float = 1) -> float:
        """Bytes of results, where each number that is read from a tensor is so many times as large."""
        return _total(self._bytes, at, times)


def _products(nodes: Iterable[Node]) -> Iterator[Product]:
    for node in nodes:
        inputs = [value for value in node.inputs if value is not None]
        inside = [body for body in node.attributes.values() if isinstance(body, Body)]
        if inside:
            rounds = _rounds(node, inputs)
            for body in inside:
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
    """What is multiplied for each element that is written."""
    if node.op in ("MatMul", "Gemm") and shapes:
        return shapes[0][-1:]
    if node.op in ("Conv", "ConvTranspose", "LSTM", "GRU", "RNN") and len(shapes) > 1:
        return shapes[1][1:]
    return ()


def _rounds(node: Node, inputs: Sequence[Value]) -> Sequence[Any]:
    """How often the body of a loop is run, as far as that is known; that of an If is run once."""
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
