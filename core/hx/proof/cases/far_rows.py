"""A far batch of a heavy model, where a part of its file is wrong there.

A row may be a picture, and a run of 251 of them takes too long. So each kind of part of the file runs
by itself, on small pieces of the rows: many rows give what few rows give, over and over. The model
runs at the smallest size at which they do not, which tells who is right.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import torch

from ... import dtypes
from ...budget import BUDGET
from ...graph.file_nodes import bodies_of
from ...ir.random_draws import RANDOM
from ...runtime import Refused, Session
from ...samples.sizes import Sizes, limits_of, sizes_of, told
from ...saving import model_file
from ..declared import Unknown, evaluate
from ..differences.compare import Tolerance, difference
from .far_sizes import LEAST_FAR
from .othersizes import case_at
from .small_sizes import is_heavy

if TYPE_CHECKING:
    from ..file_proof import Case
    from ..subject import Subject
    from .case_source import Planned

FEW, SOME = 2, 5  # rows; of a part that mixes rows, some do not give what few give over and over
# Axes that are cut, and their elements then. A convolution takes small pictures, a product few rows.
PIECES = (
    (slice(2, None), 2),
    (slice(2, None), 4),
    (slice(2, None), 16),
    (slice(1, -1), 4),
    (slice(0), 0),
)


def far_rows(subject: Subject, planned: Planned) -> Iterator[Case]:
    """Yield a case at the smallest size at which many rows of a part are not like few rows."""
    if not is_heavy(subject) or not isinstance(planned.file, Path):
        return
    recipe, limits, words = subject.recipe, limits_of(subject.recipe), sizes_of(subject.recipe)
    tried = [sizes_of(recipe, case.feeds) for case in planned.cases]
    for word in words:
        (low, high), limit = LEAST_FAR[0], limits[word]
        far = low + zlib.crc32(word.encode()) % (high - low + 1)
        if any(sizes[word] >= far for sizes in tried) or limit.step > 1 or not limit.hold(far):
            continue
        rows = _Rows.of(planned.file, word, words)
        wrong = [n for part in rows.parts() if (n := part.least_wrong(far))]
        if wrong:
            made, _ = case_at(subject, {**words, word: min(wrong)}, told({word: min(wrong)}))
            for case in made:
                case.far = True
            yield from made


@dataclass(frozen=True)
class _Rows:
    """Values of a file that consist of rows: floats that follow from its inputs."""

    model: onnx.ModelProto  # its large weights are inputs
    values: dict[str, _Value]  # inputs, and values that consist of rows
    makers: dict[str, int]  # places of the nodes that make them, and all others

    @classmethod
    def of(cls, path: Path, word: str, words: Sizes) -> _Rows:
        model = model_file.outline(path) or onnx.load(path, load_external_data=False)
        graph = model.graph
        weights = [each for each in graph.initializer if each.external_data]
        kept = [each for each in graph.initializer if not each.external_data]
        del graph.initializer[:]
        graph.initializer.extend(kept)
        graph.input.extend(
            onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims)
            for each in weights
        )
        given = {each.name: _Value.of(each, word, words) for each in graph.input}
        data = {name for name, value in given.items() if value.grows}
        for node in graph.node:
            if node.op_type not in ("Shape", "Size") and not data.isdisjoint(node.input):
                data.update(filter(None, node.output))
        declared = (_Value.of(each, word, words) for each in (*graph.value_info, *graph.output))
        made = {v.name: v for v in declared if v.name in data and v.grows and v.is_float}
        makers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
        return cls(model, {**made, **given}, makers)

    def parts(self) -> Iterator[_Part]:
        """Yield the part with the least work of each kind: the nodes between rows and next rows."""
        least: dict[Any, tuple[float, list[onnx.NodeProto], str]] = {}
        for name in self.values.keys() & self.makers.keys():
            nodes = self._nodes_of(name)
            if any(bodies_of(node) or node.op_type in RANDOM for node in nodes):
                continue
            kind = tuple((n.op_type, n.domain, *map(str, n.attribute)) for n in nodes)
            read = {each for node in nodes for each in (*node.input, name)}
            work = sum(math.prod(v.shape(FEW)) for v in map(self.values.get, read) if v and v.dims)
            if kind not in least or (work, name) < (least[kind][0], least[kind][2]):
                least[kind] = work, nodes, name
        for _, nodes, name in least.values():
            part = _Part.of(self, nodes, name)
            if part is not None:
                yield part

    def _nodes_of(self, name: str) -> list[onnx.NodeProto]:
        """Return the nodes that make some rows of others."""
        graph, found, waiting = self.model.graph, set[int](), [name]
        while waiting:
            place = self.makers.get(waiting.pop())
            if place is not None and place not in found:
                found.add(place)
                waiting += (each for each in graph.node[place].input if each not in self.values)
        return [graph.node[place] for place in sorted(found)]


@dataclass(frozen=True)
class _Part:
    """Nodes of a file that make some rows of others, as a model of their own."""

    session: Session
    inputs: list[_Value]
    output: _Value

    @classmethod
    def of(cls, rows: _Rows, nodes: list[onnx.NodeProto], name: str) -> _Part | None:
        read = dict.fromkeys(each for node in nodes for each in node.input)
        inputs = [rows.values[each] for each in read if each in rows.values and each != name]
        if not any(value.grows for value in inputs) or any(value.dims is None for value in inputs):
            return None
        graph = onnx.helper.make_graph(
            nodes, "part",
            [onnx.helper.make_tensor_value_info(v.name, v.kind, None) for v in inputs],
            [onnx.ValueInfoProto(name=name)],
            [each for each in rows.model.graph.initializer if each.name in read],
        )  # fmt: skip
        made = onnx.helper.make_model(
            graph, opset_imports=rows.model.opset_import, functions=rows.model.functions,
            ir_version=rows.model.ir_version,
        )  # fmt: skip
        try:
            return cls(Session(made.SerializeToString()), inputs, rows.values[name])
        except Refused:
            return None

    def least_wrong(self, far: int) -> int:
        """Return the smallest number of rows up to `far` that are not like few rows; 0 for none."""
        for piece in PIECES:
            try:
                if not self._repeats(SOME, piece) or self._repeats(far, piece):
                    return 0
                right, wrong = SOME, far
                while wrong - right > 1:
                    n = (right + wrong) // 2
                    right, wrong = (n, wrong) if self._repeats(n, piece) else (right, n)
                return wrong
            except (Refused, ValueError):
                continue  # it takes no piece of a row
        return 0

    def _repeats(self, rows: int, piece: tuple[slice, int]) -> bool:
        """Return True if a part gives for few rows, over and over, its results over and over."""
        few = {value.name: value.few(piece) for value in self.inputs}
        many = {value.name: value.over(few[value.name], rows) for value in self.inputs}
        if sum(tensor.numel() for tensor in many.values()) > BUDGET.elements.compared_at_once:
            raise ValueError  # the whole rows are too large
        (once,), (often,) = self.session.run(few), self.session.run(many)
        want = self.output.over(once, rows)
        return not difference(often, want, Tolerance.for_dtype(want.dtype, 8)).problem


@dataclass(frozen=True)
class _Value:
    """A value of a file, and its sizes at some numbers of rows, as far as the file declares them."""

    name: str
    kind: int
    dims: Sequence[str | int] | None
    grows: list[int]  # the axes whose size is a multiple of the rows
    word: str
    words: Sizes

    @classmethod
    def of(cls, declared: onnx.ValueInfoProto, word: str, words: Sizes) -> _Value:
        tensor = declared.type.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in tensor.shape.dim]
        made = cls(declared.name, tensor.elem_type, dims, [], word, words)
        try:
            pairs = [*zip(made.shape(FEW), made.shape(3 * FEW))]
        except Unknown:
            return cls(declared.name, tensor.elem_type, None, [], word, words)
        grows = [axis for axis, (a, b) in enumerate(pairs) if b == 3 * a and a]
        return cls(declared.name, tensor.elem_type, dims, grows, word, words)

    @property
    def is_float(self) -> bool:
        dtype = dtypes.FROM_NUMBER.get(self.kind)
        return dtype is not None and dtype.is_floating_point

    def shape(self, rows: int) -> list[int]:
        at: Mapping[str, int] = {**self.words, self.word: rows}
        return [n if isinstance(n, int) else evaluate(n, at) for n in self.dims or ()]

    def few(self, piece: tuple[slice, int]) -> torch.Tensor:
        """Return a piece of few rows, or a weight."""
        dtype, shape = dtypes.FROM_NUMBER[self.kind], self.shape(FEW)
        if not dtype.is_floating_point:
            return torch.zeros(shape, dtype=dtype)
        axes, most = piece
        if self.grows:
            shape[axes] = [min(n, most) for n in shape[axes]]
        drawn = torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))
        return drawn.to(dtype)

    def over(self, few: torch.Tensor, rows: int) -> torch.Tensor:
        """Return values of few rows, repeated along each axis that grows with the rows."""
        for axis in self.grows:
            few = few.index_select(axis, torch.arange(self.shape(rows)[axis]) % few.shape[axis])
        return few
