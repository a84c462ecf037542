"""Random numbers in a proof, where those of the model cannot be given to the file: equal ones in both.

A draw in the body of a Loop or an If has no one value, and a file may draw where the model does not.
So each place that draws gets numbers of its own, the same at every run: in a copy of the file, nodes
that make them stand where it would draw; in a recording of the case, what a call drew is written over
with what the nodes of its converter give with these. Then the results can be compared, whoever drew
how often.
"""

from __future__ import annotations

import zlib
from collections.abc import Container
from typing import TYPE_CHECKING, Any

from ..errors import HxError
from ..runtime import Refused, Session
from .nodes import Kept
from .randomness import OPERATORS

if TYPE_CHECKING:
    import onnx
    import torch

DOMAIN = "hx.equal"
# Numbers that fill a line evenly, and those of a normal distribution made of two such.
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
    """Whether all that a file would draw is made by nodes now."""
    import onnx

    opset = max(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
    types: dict[str, int] = {}
    _note_types(model.graph, types)
    if not all(_replaced(holder, types) for holder in (model.graph, *model.functions)):
        return False
    allowzero = "<allowzero = 1>" if opset >= 14 else ""
    for text in _FUNCTIONS.format(opset=opset, allowzero=allowzero).split("---"):
        model.functions.append(onnx.parser.parse_function(text))
    model.ir_version = max(model.ir_version, 8)  # from there on, a file has functions
    for holder in (model, *model.functions):
        holder.opset_import.add(domain=DOMAIN, version=1)
    return True


def _note_types(graph: onnx.GraphProto, types: dict[str, int]) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        types[value.name] = value.type.tensor_type.elem_type
    types.update((tensor.name, tensor.data_type) for tensor in graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _note_types(attribute.g, types)


def _replaced(holder: Any, types: dict[str, int]) -> bool:
    """The same for the nodes of a graph or a function, and those of their bodies."""
    nodes: list[onnx.NodeProto] = []
    for node in holder.node:
        for attribute in node.attribute:
            if attribute.HasField("g") and not _replaced(attribute.g, types):
                return False
        if node.op_type not in OPERATORS or node.domain not in ("", "ai.onnx"):
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
    """Nodes that give the same kind of numbers, of this place alone; none where nobody knows how."""
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
    """Where its numbers begin: by the call of the model that it is of, in whatever graph it is."""
    about = {entry.key: entry.value for entry in node.metadata_props}
    place = (node.op_type, about.get("hx.target", ""), about.get("hx.source", ""))
    return (zlib.crc32("\n".join(place).encode()) + 0.5) / 2**32


def leading_to(value: Any, known: Container[int], but: Container[int] = ()) -> list[Any]:
    """The nodes of a recording between what is known and a value, in their order."""
    from ..recording.both.rows import reads

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
    """Contents of what a recording binds; of more than there is room for, what draws lead to."""

    def __init__(self, budget: int) -> None:
        super().__init__(budget, 0)
        self.full = False  # whether that alone is too much
        self._bound: dict[int, Any] = {}  # what was bound so far, by its id
        self._of_draws = 0  # bytes
        self._budget = budget

    def room_for(self, value: Any, tensor: torch.Tensor) -> bool:
        kept = super().room_for(value, tensor)
        if not kept and any(map(_draws, leading_to(value, self._bound))):
            self._of_draws += tensor.numel() * tensor.element_size()
            kept = self._of_draws <= self._budget
            self.full |= not kept
        self._bound[id(value)] = value
        return kept


class Drawn(Kept):
    """Contents of what a recording binds, with equal numbers in place of what calls draw."""

    def __init__(self, budget: int, opset: int) -> None:
        super().__init__(budget, 0)
        self.lost = ""  # why it is not known what a call would give
        self._opset = opset
        self._without: dict[int, Any] = {}  # nodes that no draw leads to

    def add(self, value: Any, tensor: torch.Tensor) -> None:
        known = tensor.is_complex() or value.is_constant or tensor.is_meta
        if not (known or self.lost) and self._follows(value):
            try:
                numbers = self._computed(leading_to(value, self._of), value)
                # On the data: what the model sees as written to was written by nobody else.
                tensor.data.copy_(numbers)
            except (Refused, HxError, RuntimeError, AssertionError) as problem:
                self.lost = str(problem)
        super().add(value, tensor)

    def _follows(self, value: Any) -> bool:
        """Whether a value follows from draws that are not known yet."""
        nodes = leading_to(value, self._of, self._without)
        if any(map(_draws, nodes)):
            return True
        self._without.update((id(node), node) for node in nodes)
        return False

    def _computed(self, nodes: list[Any], value: Any) -> torch.Tensor:
        """What nodes give, with equal numbers for what they draw."""
        import onnx

        from ..graph.assembly import Assembly
        from ..recording.both.rows import reads
        from ..saving import wire

        made = {id(v) for node in nodes for v in node.outputs}
        given = {id(v): v for node in nodes for _, v in reads(node) if not v.is_constant}
        given = {key: v for key, v in given.items() if key not in made}
        if not self._of.keys() >= given.keys():
            raise Refused(RuntimeError("what a call reads is not known"))
        domains = {node.domain: 1 for node in nodes if node.domain}
        assembly = Assembly(list(given.values()), self._opset, domains, {})
        parts = assembly.parts(nodes, [("numbers", value)], "numbers")
        pieces = [wire.start(parts, parts.graph_size)]
        wire.write_inline(parts, lambda piece: pieces.append(bytes(piece)))
        model = onnx.ModelProto.FromString(b"".join(pieces))
        if not replaced(model):
            raise Refused(RuntimeError("numbers of a kind that is not known"))
        feeds = {assembly.called[key]: self._of[key] for key in given}
        return Session(model.SerializeToString(), optimized=False).run(feeds)[0]


def _draws(node: Any) -> bool:
    """Whether a node of a recording draws, or one in its bodies."""
    from ..tensors.values import Body

    if node.op in OPERATORS and not node.domain:
        return True
    bodies = (v for v in node.attributes.values() if isinstance(v, Body))
    return any(_draws(inner) for body in bodies for inner in body.nodes)
