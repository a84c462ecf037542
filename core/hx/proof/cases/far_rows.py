"""A far batch of a heavy model, where one of its calls is wrong there.

A row may be a picture, and a run of 251 of them takes too long. So the nodes of one call of each kind
run by themselves, on small pieces of the rows: many rows give what few rows give, over and over. The
model runs at the smallest size at which they do not, which tells who is right.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx
import torch

from ...budget import BUDGET
from ...graph import graph
from ...ir.random_draws import RANDOM
from ...ir.sizes.comparisons import At, Unforeseen
from ...ir.sizes.dims import spelled
from ...ir.value import Node, Value
from ...ir.work import Work
from ...runtime import Refused, Session
from ...samples.sizes import Sizes, limits_of, sizes_of, told
from ..differences.compare import Tolerance, difference
from .far_sizes import LEAST_FAR
from .othersizes import case_at
from .small_sizes import is_heavy

if TYPE_CHECKING:
    from ..file_proof import Case
    from ..subject import Subject
    from .case_source import Planned

FEW, SOME = 2, 5  # rows; of a call that mixes rows, some do not give what few give over and over
# Axes that are cut, and their elements then. A convolution takes small pictures, a product few rows.
PIECES = ((slice(2, None), 4), (slice(2, None), 16), (slice(1, -1), 4), (slice(0), 0))


def far_rows(subject: Subject, planned: Planned) -> Iterator[Case]:
    """Yield a case at the smallest size at which many rows of a call are not like few rows."""
    if not is_heavy(subject):
        return
    recipe, limits, words = subject.recipe, limits_of(subject.recipe), sizes_of(subject.recipe)
    tried = [sizes_of(recipe, case.feeds) for case in planned.cases]
    for word in words:
        (low, high), limit = LEAST_FAR[0], limits[word]
        far = low + zlib.crc32(word.encode()) % (high - low + 1)
        if any(sizes[word] >= far for sizes in tried) or limit.step > 1 or not limit.hold(far):
            continue
        wrong = [n for call in _calls(subject, word, far) if (n := call.least_wrong(far))]
        if wrong:
            made, _ = case_at(subject, {**words, word: min(wrong)}, told({word: min(wrong)}))
            for case in made:
                case.far = True
            yield from made


def _calls(subject: Subject, word: str, far: int) -> Iterator[_Call]:
    """Yield the call with the least work of each kind that grows with a size."""
    words, least = sizes_of(subject.recipe), dict[Any, tuple[float, list[Node]]]()
    for nodes in _by_call(subject.trace.nodes):
        if any(node.bodies or node.op in RANDOM for node in nodes):
            continue
        kind = tuple((n.op, n.domain, repr(sorted(n.attributes.items(), key=str))) for n in nodes)
        work = Work(nodes).at(At(words))
        if kind not in least or work < least[kind][0]:
            least[kind] = work, nodes
    for _, nodes in least.values():
        call = _Call.of(subject, nodes, word)
        if call is not None and Work(nodes).at(At({**words, word: far})) > 0:
            yield call


def _by_call(nodes: Iterable[Node]) -> list[list[Node]]:
    found: dict[int, list[Node]] = {}
    for node in nodes:
        if node.origin is not None:
            found.setdefault(id(node.origin), []).append(node)
    return [*found.values()]


@dataclass
class _Call:
    """The nodes of one call, as a model of their own."""

    session: Session
    inputs: dict[str, Value]
    outputs: list[Value]
    word: str
    words: Sizes

    @classmethod
    def of(cls, subject: Subject, nodes: Sequence[Node], word: str) -> _Call | None:
        made = dict.fromkeys(value for node in nodes for value in node.outputs)
        read = dict.fromkeys(v for node in nodes for v in node.inputs if v is not None)
        inputs = [v for v in read if v not in made and not v.is_constant]
        outputs = [v for v in made if v not in read and v.shape is not None]
        if any(v.dtype is None or v.dtype.is_complex for v in (*inputs, *outputs)):
            return None
        words = sizes_of(subject.recipe)
        grown = any(_grows(value, word, words) for value in inputs)
        if not outputs or not grown or any(v.shape is None for v in inputs):
            return None
        dialect, names = subject.trace.graph.dialect, dict[int, str]()
        parts = graph.build(
            [*nodes], inputs, [(f"result{i}", v) for i, v in enumerate(outputs)],
            opset=dialect.opset, domains=dialect.domains, classes={}, name="call", names=names,
        )  # fmt: skip
        try:
            session = Session(_of_any_size(parts))
        except Refused:
            return None
        return cls(session, {names[id(v)]: v for v in inputs}, outputs, word, words)

    def least_wrong(self, far: int) -> int:
        """Return the smallest number of rows up to `far` that are not like few rows; 0 for none."""
        for piece in PIECES:
            try:
                if not self._repeats(SOME, piece):
                    return 0
                if self._repeats(far, piece):
                    return 0
                right, wrong = SOME, far
                while wrong - right > 1:
                    n = (right + wrong) // 2
                    right, wrong = (n, wrong) if self._repeats(n, piece) else (right, n)
                return wrong
            except (Refused, Unforeseen, ArithmeticError, ValueError):
                continue  # it takes no piece of a row
        return 0

    def _repeats(self, rows: int, piece: tuple[slice, int]) -> bool:
        """Return True if a call on few rows over and over gives their results over and over."""
        few = {name: self._few(value, piece) for name, value in self.inputs.items()}
        many = {name: self._over(value, few[name], rows) for name, value in self.inputs.items()}
        if sum(tensor.numel() for tensor in many.values()) > BUDGET.elements.compared_at_once:
            raise ValueError  # the whole rows are too large
        once, often = self.session.run(few), self.session.run(many)
        for value, one, other in zip(self.outputs, once, often):
            want = self._over(value, one, rows)
            if difference(other, want, Tolerance.for_dtype(want.dtype, 8)).problem:
                return False
        return True

    def _few(self, value: Value, piece: tuple[slice, int]) -> torch.Tensor:
        at = At({**self.words, self.word: FEW})
        if value.elements is not None:
            return torch.tensor([at(spelled(n)) for n in value.elements]).reshape(
                [at(spelled(n)) for n in value.shape or ()]
            )
        shape = [at(spelled(n)) for n in value.shape or ()]
        axes, most = piece
        if value.dtype.is_floating_point:
            shape[axes] = [min(n, most) for n in shape[axes]]
        if not value.dtype.is_floating_point:
            return torch.zeros(shape, dtype=value.dtype)
        drawn = torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))
        return drawn.to(value.dtype)

    def _over(self, value: Value, few: torch.Tensor, rows: int) -> torch.Tensor:
        """Return values of few rows, repeated along each axis that grows with the rows."""
        at = At({**self.words, self.word: rows})
        if value.elements is not None:
            return torch.tensor([at(spelled(n)) for n in value.elements]).reshape(few.shape)
        for axis in _grows(value, self.word, self.words):
            n = at(spelled((value.shape or ())[axis]))
            few = few.index_select(axis, torch.arange(n) % few.shape[axis])
        return few


def _grows(value: Value, word: str, words: Sizes) -> list[int]:
    """Return the axes whose size is a multiple of the rows."""
    some, more = (At({**words, word: n}) for n in (FEW, 3 * FEW))
    try:
        sizes = [(some(spelled(n)), more(spelled(n))) for n in value.shape or ()]
    except (Unforeseen, ArithmeticError):
        return []
    return [axis for axis, (a, b) in enumerate(sizes) if b == 3 * a and a]


def _of_any_size(parts: Any) -> bytes:
    """Return a model whose inputs and outputs may have any sizes."""
    model, made = onnx.ModelProto(), parts.graph
    model.CopyFrom(parts.model)
    model.ir_version = parts.ir_version
    for value in (*made.input, *made.output):
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    del made.value_info[:]
    for weight in parts.weights:
        tensor = made.initializer.add()
        tensor.CopyFrom(weight.proto)
        tensor.raw_data = b"".join(weight.chunks())
    model.graph.CopyFrom(made)
    return model.SerializeToString()
