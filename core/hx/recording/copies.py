"""Calls that copy or not as sizes have it: `reshape`, `flatten`, `ravel`, `contiguous`.

What such a call returns shares the memory of its argument, or has its own: PyTorch looks at strides,
and those follow from sizes. The graph has what happened in the recording. That matters only when
one of the two is written to and the other is read afterwards, which is told like a branch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..errors import Where
from ..sizes import dims, shapes
from ..tensors.liveness import Entry, storage_key
from ..tensors.values import Value
from ..tensors.writing import keeps_order

if TYPE_CHECKING:
    from .recording import Recording

_MAYBE = ("reshape", "reshape_as", "flatten", "ravel", "contiguous")


@dataclass(slots=True)
class _Pair:
    """Both sides of a call, and what its argument was: looked at when one of them is written to."""

    source: Entry
    result: Entry
    value: Value
    path: tuple | None
    shape: torch.Size
    stride: tuple[int, ...]
    together: bool  # whether both have the same memory


class Copies:
    """Of one recording: the calls that might have copied, and tensors that may hold another thing."""

    def __init__(self) -> None:
        self._pairs: list[_Pair] = []
        self.doubted: dict[int, tuple[Entry, Where]] = {}

    def made(
        self, recording: Recording, target: str, source: torch.Tensor, result: torch.Tensor
    ) -> None:
        """A call of `target` returned `result`.

        That may be the source itself, where `contiguous` has nothing to do: at other sizes it is a
        copy, which has nothing to do with what the source was a part of.
        """
        if not target.endswith(_MAYBE):
            return
        if source.shape == result.shape and not target.endswith("contiguous"):
            return  # a view, whatever the strides
        one, other = recording.live.find(source), recording.live.find(result)
        if one is None or other is None:
            return
        value: Value = one.value
        if value.shape is not None and (value.dynamic or one.family.root.dynamic):
            together = storage_key(source) == storage_key(result)
            shape, stride = source.shape, source.stride()
            self._pairs.append(_Pair(one, other, value, one.path, shape, stride, together))

    def written(self, recording: Recording, entry: Entry) -> None:
        """A tensor is written to: what it has in common with the other side is in doubt."""
        self._pairs = [p for p in self._pairs if p.source.family.alive() and p.result() is not None]
        for pair in self._pairs:
            if entry.family is pair.source.family is pair.result.family:
                side = _from(entry, pair.result)
                others = [m for m in entry.family.alive() if _from(m, pair.result) is not side]
            elif entry.family is pair.source.family:
                others = pair.result.family.alive()
            elif entry.family is pair.result.family:
                others = pair.source.family.alive()
            else:
                continue
            if not _varies(pair):
                continue
            for each in others:
                self.doubted[each.key] = each, recording.where()

    def read(self, recording: Recording, entry: Entry) -> None:
        found, where = self.doubted.pop(entry.key, (None, None))
        if found is entry:
            recording.escape(
                "layout", "whether this write reaches a tensor that is read later on", where
            )


def _varies(pair: _Pair) -> bool:
    """Whether other sizes may copy where the recorded ones did not, or the other way round."""
    sizes = pair.value.shape or ()
    if pair.together:
        # Any strides will do for an axis of 1: others may not do where it is longer.
        short = any(n == 1 and dims.is_dynamic(d) for n, d in zip(pair.shape, sizes))
        path = pair.path or ()
        return (short and not all(map(keeps_order, path))) or _has_gaps(path, pair.value)
    # With the axes gone that may be 1, it would be in order: only then may it be a view.
    fixed = [
        stride
        for size, stride, dim in zip(pair.shape, pair.stride, sizes)
        if size > 1 and not dims.is_dynamic(dim)
    ]
    return fixed == sorted(fixed, reverse=True)


def _has_gaps(path: tuple, value: Value) -> bool:
    """Whether a view that is all of its base in the recording is a part of it at other sizes."""
    if None in path:
        return False
    bases = [step.parent for step in path]
    return any(map(_skips, bases, [*bases[1:], value]))


def _skips(base: Value, view: Value) -> bool:
    before, after = base.shape, view.shape
    if before is None or after is None or len(before) != len(after):
        return False
    whole = all(dims.plain(m) == dims.plain(n) for m, n in zip(before, after))
    cut = [axis for axis, (m, n) in enumerate(zip(before, after)) if not shapes.same(m, n)]
    # The slowest axis may be cut: what is left of it lies together.
    return whole and any(type(n) is not int or n != 1 for axis in cut for n in after[:axis])


def _from(entry: Entry, result: Entry) -> bool:
    """Whether a tensor is what such a call returned, or a view of it."""
    if entry.path is None or result.path is None:
        return entry is result
    return entry.path[: len(result.path)] == result.path
