"""Numbers that differ at other sizes, computed from the sizes in the graph."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch

from ...budget import BUDGET
from ...errors import Unsupported
from ...findings import FOLLOWED, Finding
from ...graph.blocks import inner_nodes, rewriting
from ...graph.builder import Builder
from ...graph.op import Op
from ...ir import dynamic_axes
from ...ir.node_reads import read_instead
from ...ir.recipe import Recipe, Sizes
from ...ir.sizes import dims
from ...ir.sizes.comparisons import At, Unforeseen
from ...ir.value import Node, Value
from ...recording.trace import Trace
from ..copied_trace import copied
from ..protocol import Merge, NotRecorded, RecordingWanted, Unmerged
from .compare_recordings import Beside, Differing, RecordingsDiffer, sizes_of
from .formula_fit import find, plainest


def merge(first: Trace, at: Sequence[Sizes], others: Sequence[Recipe]) -> Merge[Trace | Unmerged]:
    """Put formulas of sizes in the graph, in place of numbers that differ between recordings.

    `at` has the sizes of each recording, the first included. The second recording shows if there is
    anything to find; the rest are made only then. The last is at sizes so small that a formula like
    max(n - 2, 1) reaches its limit. It is left out if it differs in more than numbers or the model
    refuses it.
    """
    second, *larger, small = others
    all_of = [first]
    try:
        for recipe in (second, *larger):
            found = yield RecordingWanted(recipe, merged=True)
            if isinstance(found, NotRecorded):
                return Unmerged(found.error)
            all_of.append(found)
            if recipe is second and not Beside(all_of).differing:
                raise RecordingsDiffer
        fitted = Fitted(all_of, at)
    except RecordingsDiffer:
        return Unmerged(Unsupported("other sizes change more than numbers"))
    smallest = yield RecordingWanted(small, merged=True)
    if not isinstance(smallest, NotRecorded):
        with contextlib.suppress(RecordingsDiffer):
            fitted = Fitted([*all_of, smallest], at)
    return fitted.written()


class Fitted:
    """Formulas in the first recording for what differs in the others; may raise RecordingsDiffer."""

    def __init__(self, all_of: Sequence[Trace], at: Sequence[Sizes]) -> None:
        self._first, self._at = all_of[0], at[: len(all_of)]
        self._beside = Beside(all_of)
        self._builder = Builder.over(self._first.graph)
        self._op = Op(self._builder)
        self._named = named_sizes(self._first)
        self._instead: dict[int, Value] = {}
        self._turns: dict[str, set[int]] = {}
        self._before = self._computed_all()
        self._sized = [(value, own) for value, others in self._beside.made
                       if (own := self._size(value, others)) is not None]  # fmt: skip

    def _computed_all(self) -> list[Node]:
        builder = self._builder
        with inner_nodes(builder, own_sizes=False) as nodes, rewriting(builder):
            for each in self._beside.differing.values():
                builder.origin = each.origin
                self._instead[id(each.value)] = self._computed(each)
        return nodes

    def written(self) -> Trace:
        for value, own in self._sized:
            value.sized(own)
        made = copied(self._first)
        read_instead(made.nodes, self._instead)
        made.graph.nodes = [*self._before, *made.nodes]
        differing = self._beside.differing.values()
        made.outputs = [(name, self._instead.get(id(v), v)) for name, v in made.outputs]
        lines = sorted({each.where for each in differing if each.where})
        at = f" at {', '.join(lines)}" if lines else ""
        text = (
            f"numbers{at} that Python came to out of sight follow from sizes in the graph, as they "
            f"do in recordings at {len(self._at)} sizes"
        )
        made.findings.append(Finding(FOLLOWED, text))
        made.merged.turns = {word: sorted(sizes) for word, sizes in self._turns.items()}
        return made

    def _formula(self, numbers: Sequence[int | float]) -> Any:
        formula = find(self._at, numbers)
        if formula is None:
            raise RecordingsDiffer
        if formula.word:
            limit = self._first.recipe.request.sizes.limits[formula.word]
            high = BUDGET.sizes.one_by_one
            high = high if limit.high is None else min(limit.high, high)
            turns = formula.turns(limit.least, high)
            self._turns.setdefault(formula.word, set()).update(turns)
        return formula(self._named)

    def _computed(self, each: Differing) -> Value:
        tensors, dtype = each.tensors, each.value.dtype
        shapes = [list(tensor.shape) for tensor in tensors]
        rank = len(shapes[0])
        if any(len(shape) != rank for shape in shapes) or not all(t.numel() for t in tensors):
            raise RecordingsDiffer
        if all(shape == shapes[0] for shape in shapes):
            return self._op.cast(self._listed(tensors, shapes[0]), dtype)
        if all(bool((tensor == tensor.reshape(-1)[0]).all()) for tensor in tensors):
            sizes = [self._formula([shape[axis] for shape in shapes]) for axis in range(rank)]
            filled = self._op.cast(self._listed([t.reshape(-1)[0] for t in tensors], []), dtype)
            return self._op.Expand(filled, self._op.sizes(sizes))
        return self._counted(tensors, dtype)

    def _listed(self, tensors: Sequence[torch.Tensor], shape: list[int]) -> Value:
        """Compute tensors of one shape, each number by a formula."""
        op, numbers = self._op, [tensor.reshape(-1).tolist() for tensor in tensors]
        if len(numbers[0]) > BUDGET.elements.sizes:
            raise RecordingsDiffer
        columns = list(zip(*numbers))
        if not _are_real(tensors) and any(len(set(column)) > 1 for column in columns):
            raise RecordingsDiffer  # truth values have no formula here
        found = [self._formula(column) for column in columns]
        if all(isinstance(each, int) for each in found):
            return op.Reshape(op.sizes(found), op.sizes(shape))
        parts = [op.Reshape(op.constant(each, torch.float64), [1]) for each in found]
        return op.Reshape(op.Concat(*parts, axis=0), op.sizes(shape))

    def _counted(self, tensors: Sequence[torch.Tensor], dtype: torch.dtype) -> Value:
        """Compute an arithmetic sequence whose length, begin and step follow from the sizes."""
        if any(each.dim() != 1 or len(each) < 2 for each in tensors) or not _are_real(tensors):
            raise RecordingsDiffer
        op, wide = self._op, torch.float64 if dtype.is_floating_point else torch.int64
        begins, steps = [], []
        for each in tensors:
            numbers = each.to(wide)
            begin, step = numbers[0].item(), plainest((numbers[1] - numbers[0]).item())
            if not torch.allclose(torch.arange(len(each)).to(wide) * step + begin, numbers):
                raise RecordingsDiffer
            begins.append(begin)
            steps.append(step)
        count = self._formula([len(each) for each in tensors])
        turns = op.cast(op.Range(0, op.constant(count), 1), wide)
        first, step = (op.cast(self._formula(each), wide) for each in (begins, steps))
        return op.cast(op.Add(op.Mul(turns, step), first), dtype)

    def _size(self, value: Value, others: Sequence[Value]) -> list[Any] | None:
        """Return a value's sizes, with formulas for recorded ones that differ; None if unknown."""
        sizes = [sizes_of(each) for each in (value, *others)]
        if value.shape is None or any(each is None for each in sizes):
            return None
        known = [each for each in sizes if each is not None]
        if any(len(each) != len(known[0]) for each in known):
            raise RecordingsDiffer
        own = list(value.shape)
        for axis, numbers in enumerate(zip(*known)):
            if self._follows(own[axis]) not in (None, numbers):
                own[axis] = self._formula(numbers)
        return own

    def _follows(self, size: Any) -> tuple[int, ...] | None:
        """Return a recorded size at each of the sizes; None if it is unknown."""
        if not dims.is_dynamic(size):
            return (size,) * len(self._at)
        try:
            return tuple(At(sizes)(size.poly) for sizes in self._at)
        except Unforeseen:
            return None


def named_sizes(trace: Trace) -> dict[str, Any]:
    """Return the sizes that have a name, as the graph's inputs have them."""
    values = dict(trace.inputs)
    return {
        word: values[name].size(axis)
        for name, axes in trace.recipe.request.sizes.items()
        for axis, word in axes.items()
        if not dynamic_axes.is_sum(word)
    }


def _are_real(tensors: Sequence[torch.Tensor]) -> bool:
    return not any(t.dtype == torch.bool or t.dtype.is_complex or t.is_quantized for t in tensors)
