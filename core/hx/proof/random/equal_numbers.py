"""Equal random numbers for file and model in a proof, where the file cannot get the model's own.

A draw in the body of a Loop or an If has several values, and a file may draw where the model does
not. So each place that draws gets numbers of its own, the same in every run. In a copy of the file,
nodes that make these numbers replace the draws. In a recording of the case, the result of each call
that draws is replaced by what the nodes of its converter give with these numbers. Then the results
can be compared, no matter how often either of them draws.
"""

from __future__ import annotations

import zlib
from collections.abc import Container
from typing import TYPE_CHECKING, Any

from ...errors import HxError
from ...graph.file_nodes import bodies_of, metadata_of
from ...ir.node_reads import reads
from ...ir.random_draws import draws
from ...runtime import Refused, Session
from ..differences.nodes import Kept
from .randomness import is_draw

if TYPE_CHECKING:
    import onnx
    import torch

DOMAIN = "hx.equal"
# Numbers that are evenly distributed, and normal ones made of two of these.
_FUNCTIONS = """
<domain: "hx.equal", opset_import: ["" : {opset}]>
Uniform (like, first) => (numbers) {{
  zero = Constant <value = double {{0.0}}> ()
  one = Constant <value = double {{1.0}}> ()
  step = Constant <value = double {{0.6180339887498949}}> ()
  size = Size (like)
  count = Cast <to = 11> (size)
  turn = Range (zero, count, one)
  far = Mul (turn, step)
  on = Add (far, first)
  whole = Floor (on)
  each = Sub (on, whole)
  shape = Shape (like)
  numbers = Reshape {allowzero} (each, shape)
}}
---
<domain: "hx.equal", opset_import: ["" : {opset}]>
Normal (like, first) => (numbers) {{
  zero = Constant <value = double {{0.0}}> ()
  one = Constant <value = double {{1.0}}> ()
  step = Constant <value = double {{0.6180339887498949}}> ()
  other = Constant <value = double {{0.7548776662466927}}> ()
  round = Constant <value = double {{6.283185307179586}}> ()
  two = Constant <value = double {{-2.0}}> ()
  size = Size (like)
  count = Cast <to = 11> (size)
  turn = Range (zero, count, one)
  far = Mul (turn, step)
  on = Add (far, first)
  whole = Floor (on)
  each = Sub (on, whole)
  rest = Sub (one, each)
  depth = Log (rest)
  twice = Mul (two, depth)
  radius = Sqrt (twice)
  away = Mul (turn, other)
  further = Add (away, first)
  angle = Mul (further, round)
  beside = Cos (angle)
  flat = Mul (radius, beside)
  shape = Shape (like)
  numbers = Reshape {allowzero} (flat, shape)
}}
"""


def replaced(model: onnx.ModelProto) -> bool:
    """Replace all draws of a file by nodes; return False if one cannot be replaced."""
    import onnx

    opset = max(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
    types: dict[str, int] = {}
    _note_types(model.graph, types)
    if not all(_replaced(holder, types) for holder in (model.graph, *model.functions)):
        return False
    allowzero = "<allowzero = 1>" if opset >= 14 else ""
    for text in _FUNCTIONS.format(opset=opset, allowzero=allowzero).split("---"):
        model.functions.append(onnx.parser.parse_function(text))
    model.ir_version = max(model.ir_version, 8)  # files have functions from this version on
    for holder in (model, *model.functions):
        holder.opset_import.add(domain=DOMAIN, version=1)
    return True


def _note_types(graph: onnx.GraphProto, types: dict[str, int]) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        types[value.name] = value.type.tensor_type.elem_type
    types.update((tensor.name, tensor.data_type) for tensor in graph.initializer)
    for node in graph.node:
        for body in bodies_of(node):
            _note_types(body, types)


def _replaced(holder: Any, types: dict[str, int]) -> bool:
    """Replace the draws in a graph or a function, and in the bodies of its nodes."""
    nodes: list[onnx.NodeProto] = []
    for node in holder.node:
        if not all(_replaced(body, types) for body in bodies_of(node)):
            return False
        if not is_draw(node):
            nodes.append(node)
            continue
        instead = _instead(node, types)
        if not instead:
            return False
        nodes += instead
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del holder.node[:]
    holder.node.extend(copies)
    return True


def _instead(node: onnx.NodeProto, types: dict[str, int]) -> list[onnx.NodeProto]:
    """Return nodes that give numbers of the same kind, for this place alone; none if unknown."""
    import onnx
    from onnx import helper

    said = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    kind = node.op_type.removeprefix("Random").removesuffix("Like")
    if kind not in ("Uniform", "Normal", "Bernoulli"):
        return []
    out, made = node.output[0], list[Any]()

    def add(op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = f"{out}::{len(made)}"
        made.append(helper.make_node(op, inputs, [name], domain=domain, **attributes))
        return name

    def number(x: float) -> str:
        return add("Constant", value=helper.make_tensor("", onnx.TensorProto.DOUBLE, [], [x]))

    if node.input:
        like, dtype = node.input[0], types.get(node.input[0], onnx.TensorProto.FLOAT)
    else:
        shape = list(said["shape"])
        tensor = helper.make_tensor("", onnx.TensorProto.INT64, [len(shape)], shape)
        like, dtype = add("ConstantOfShape", add("Constant", value=tensor)), onnx.TensorProto.FLOAT
    dtype = said.get("dtype", dtype)
    first = number(_first(node))
    if kind == "Bernoulli":
        chance = add("Cast", like, to=onnx.TensorProto.DOUBLE)
        found = add("Less", add("Uniform", like, first, domain=DOMAIN), chance)
    else:
        found = add(kind, like, first, domain=DOMAIN)
        low, high = said.get("low", 0.0), said.get("high", 1.0)
        times, more = (
            (high - low, low)
            if kind == "Uniform"
            else (said.get("scale", 1.0), said.get("mean", 0.0))
        )
        found = add("Add", add("Mul", found, number(times)), number(more))
    made.append(helper.make_node("Cast", [found], [out], to=dtype))
    return made


def _first(node: onnx.NodeProto) -> float:
    """Return the start of a node's numbers, from the model's call that it came from."""
    about = metadata_of(node)
    place = (node.op_type, about.get("hx.target", ""), about.get("hx.source", ""))
    return (zlib.crc32("\n".join(place).encode()) + 0.5) / 2**32


def leading_to(value: Any, known: Container[int], but: Container[int] = ()) -> list[Any]:
    """Return the nodes of a recording between the known values and this one, in their order."""
    found: list[Any] = []
    seen: set[int] = set()
    waiting: list[tuple[Any, bool]] = [(value.node, False)]
    while waiting:
        node, read = waiting.pop()
        if read:
            found.append(node)
        elif node is not None and id(node) not in seen and id(node) not in but:
            seen.add(id(node))
            waiting.append((node, True))
            waiting += [(v.node, False) for _, v in reads(node) if id(v) not in known]
    return found


class OfDraws(Kept):
    """Tensors of a recording; beyond the budget, only those that follow from draws."""

    def __init__(self, budget: int) -> None:
        super().__init__(budget, 0)
        self.full = False  # whether the draws alone are too large
        self._bound: dict[int, Any] = {}  # values bound so far, by id
        self._of_draws = 0  # bytes
        self._budget = budget

    def room_for(self, value: Any, tensor: torch.Tensor) -> bool:
        kept = super().room_for(value, tensor)
        if not kept and any(map(draws, leading_to(value, self._bound))):
            self._of_draws += tensor.numel() * tensor.element_size()
            kept = self._of_draws <= self._budget
            self.full |= not kept
        self._bound[id(value)] = value
        return kept


class Drawn(Kept):
    """Tensors of a recording, with equal numbers in place of the results of draws."""

    def __init__(self, budget: int, opset: int) -> None:
        super().__init__(budget, 0)
        self.lost = ""  # the reason why the result of a call is not known
        self._opset = opset
        self._without: dict[int, Any] = {}  # nodes that follow from no draw

    def add(self, value: Any, tensor: torch.Tensor) -> None:
        known = tensor.is_complex() or value.is_constant or tensor.is_meta
        if not (known or self.lost) and self._follows(value):
            try:
                numbers = self._computed(leading_to(value, self._of), value)
                # Write through `data`, so that the write changes no version counter.
                tensor.data.copy_(numbers)
            except (Refused, HxError, RuntimeError, AssertionError) as problem:
                self.lost = str(problem)
        super().add(value, tensor)

    def _follows(self, value: Any) -> bool:
        """Return True if a value follows from draws that are not known yet."""
        nodes = leading_to(value, self._of, self._without)
        if any(map(draws, nodes)):
            return True
        self._without.update((id(node), node) for node in nodes)
        return False

    def _computed(self, nodes: list[Any], value: Any) -> torch.Tensor:
        """Compute a value with these nodes, with equal numbers for their draws."""
        import onnx

        from ...graph.assembly import Assembly
        from ...saving import model_file

        made = {id(v) for node in nodes for v in node.outputs}
        given = {id(v): v for node in nodes for _, v in reads(node) if not v.is_constant}
        given = {key: v for key, v in given.items() if key not in made}
        if not self._of.keys() >= given.keys():
            raise Refused(RuntimeError("what a call reads is not known"))
        domains = {node.domain: 1 for node in nodes if node.domain}
        assembly = Assembly(list(given.values()), self._opset, domains, {})
        parts = assembly.parts(nodes, [("numbers", value)], "numbers")
        pieces = [model_file.start(parts, model_file.graph_size(parts))]
        model_file.write_inline(parts, lambda piece: pieces.append(bytes(piece)))
        model = onnx.ModelProto.FromString(b"".join(pieces))
        if not replaced(model):
            raise Refused(RuntimeError("a draw of a kind that hx has no equal numbers for"))
        feeds = {assembly.names[key]: self._of[key] for key in given}
        return Session(model.SerializeToString(), optimized=False).run(feeds)[0]
