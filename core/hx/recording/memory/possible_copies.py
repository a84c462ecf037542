"""Calls that copy or not, depending on sizes: `reshape`, `flatten`, `ravel`, `contiguous`.

The result of such a call shares the memory of its argument, or has its own: PyTorch looks at
strides, which follow from sizes. The graph does what happened in the recording. That matters only
when one of the two is written to and the other is read afterwards, which is noted like a branch.
"""

from __future__ import annotations

import torch

from ...ir import shapes
from ...ir.sizes import dims
from ...ir.value import Value
from ...tensor_bytes import storage_key
from ..reads.note_escapes import note_escape
from ..recording import Recording
from .live_tensors import Entry, PossibleCopy
from .replayed_writes import keeps_order

_MAYBE = ("reshape", "reshape_as", "flatten", "ravel", "contiguous")


def note_possible_copy(
    recording: Recording, target: str, source: torch.Tensor, result: torch.Tensor
) -> None:
    """Remember a call of `target` that may copy at other sizes, or may not.

    The result may be the source itself, where `contiguous` has nothing to do: at other sizes it is
    a copy, which shares nothing with what the source was a part of.
    """
    if not target.endswith(_MAYBE):
        return
    if source.shape == result.shape and not target.endswith("contiguous"):
        return  # a view, whatever the strides
    one, other = recording.memory.live.find(source), recording.memory.live.find(result)
    if one is None or other is None:
        return
    value: Value = one.value
    memory = recording.memory
    if value.shape is not None and (value.dynamic or one.family.root.dynamic):
        together = storage_key(source) == storage_key(result)
        shape, stride = source.shape, source.stride()
        memory.possible_copies.append(
            PossibleCopy(one, other, value, one.path, shape, stride, together)
        )


def doubt_others(recording: Recording, entry: Entry) -> None:
    """Mark as doubtful what a written tensor shares with the other side of such a call."""
    memory = recording.memory
    memory.possible_copies = [
        p for p in memory.possible_copies if p.source.family.alive() and p.result() is not None
    ]
    for pair in memory.possible_copies:
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
            memory.doubted[each.key] = each, recording.position.where()


def note_doubt(recording: Recording, entry: Entry) -> None:
    """Note that a tensor in doubt is read."""
    found, where = recording.memory.doubted.pop(entry.key, (None, None))
    if found is entry:
        note_escape(
            recording, "layout", "whether this write reaches a tensor that is read later on", where
        )


def _varies(pair: PossibleCopy) -> bool:
    """Return True if other sizes may copy where the recorded ones did not, or the other way round."""
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
    """Return True if a view of all of its base in the recording is a part of it at other sizes."""
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
    """Return True if a tensor is the result of such a call, or a view of it."""
    if entry.path is None or result.path is None:
        return entry is result
    return entry.path[: len(result.path)] == result.path
