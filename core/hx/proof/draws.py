"""Random numbers in a proof: the file gets those that the model drew, and is held to its results.

No two runs agree on what they draw. So the model is recorded once more on the inputs of a case, and
what it drew there goes into a copy of the file, in place of what that would draw: what it computes
from these numbers can be compared. Where the file draws in a loop or in a branch, or other numbers
than the model does on these inputs, both get equal ones instead: see `equal_numbers`. And a model
that gives the same whatever it draws has said what is right. So has one that draws nothing: where
the file does, a converter is wrong, and the model's numbers in place of that would hide it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..errors import HxError
from ..runtime import Refused
from ..saving import wire
from ..saving.claims import Hidden
from ..surely import inside
from .cases.asking import run
from .equal_numbers import Drawn, OfDraws, replaced
from .nodes import BUDGET, again
from .proof import CaseCheck
from .randomness import drawing, given, within
from .verify import Case, prove

if TYPE_CHECKING:
    from ..recording.capture import Capture

LARGEST = 1 << 29  # bytes of a file that is copied in memory
DRAWN = "::drawn"  # what the file itself draws, and gives back as it is
ALONE = "the graph draws random numbers, and the model draws none"
MANY = 5  # runs that are not alike by chance, should the model draw from what nobody can ask


def checked(
    captured: Capture, path: Path, target: Path, case: Case, custom_ops: Sequence[Any]
) -> CaseCheck | None:
    """What is seen of a case with the same random numbers in both; None where nobody can say."""

    def proved(source: Path | bytes, theirs: Case) -> CaseCheck | None:
        def run(hidden: Hidden) -> list[CaseCheck]:
            if isinstance(source, Path):
                return prove(source, [theirs], checker=False, custom_ops=custom_ops).cases
            copy = hidden.create(target).path
            copy.write_bytes(source)
            return prove(copy, [theirs], checker=False, custom_ops=custom_ops).cases

        return next(iter(inside(Hidden(), run)), None)

    if captured.still and _steady(captured, case, MANY):
        found = proved(path, dataclasses.replace(case, steady=True))
        if found is not None and not found.ok:
            found.note = ALONE
            return found
    # What it gives, and not what it gave to what it was told while it was recorded.
    captured = dataclasses.replace(captured, prepared=captured.prepared.truly)
    if path.stat().st_size <= LARGEST and captured.prepared.slim is None:
        ways = [_on_its_draws, _on_equal_numbers]
        for way in reversed(ways) if within(wire.skeleton(path)) else ways:
            made = way(captured, path, case)
            found = None if made is None else proved(*made)
            if found is not None:
                found.equal_draws = way is _on_equal_numbers
                found.same_draws = not found.equal_draws and any(
                    not output.random for output in found.outputs
                )
                for output in found.outputs:
                    output.name = output.name.removesuffix(DRAWN)
                return found
    if _steady(captured, case):
        return proved(path, dataclasses.replace(case, steady=True))
    return None


def _on_its_draws(captured: Capture, path: Path, case: Case) -> tuple[bytes, Case] | None:
    """A copy of the file that gets what the model draws, and what it gives then; None where the file
    draws anything else."""
    import onnx

    from ..tensors import dtypes

    if captured.prepared.laid_out:
        return None  # by their names, its values are not those of a recording
    kept = OfDraws(BUDGET)
    try:
        recorded, parts, names = again(captured, case, kept)
    except (HxError, Refused):  # what is not recorded again proves nothing
        return None
    model = onnx.load(path, load_external_data=False)
    if kept.full or kept.unseen or drawing(model.graph) != drawing(parts.graph):
        return None
    values = {names[id(v)]: tensor for v, tensor in kept.pairs if id(v) in names}
    draws = given(model, values.keys())
    if not draws:
        return None
    for node in model.graph.node:
        node.output[:] = [name + DRAWN if name in draws else name for name in node.output]
    for output in model.graph.output:
        output.name += DRAWN if output.name in draws else ""
    known = [info for info in model.graph.value_info if info.name not in draws]
    del model.graph.value_info[:]
    model.graph.value_info.extend(known)
    model.graph.input.extend(
        onnx.helper.make_tensor_value_info(name, dtypes.number(values[name].dtype), None)
        for name in sorted(draws)
    )
    feeds = {**case.feeds, **{name: values[name] for name in sorted(draws)}}
    return model.SerializeToString(), _expecting(case, feeds, recorded.real)


def _on_equal_numbers(captured: Capture, path: Path, case: Case) -> tuple[bytes, Case] | None:
    """A copy of the file that makes what it would draw, and what the model gives with the same."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    if not replaced(model):
        return None
    kept = Drawn(BUDGET, captured.opset)
    try:
        recorded = again(captured, case, kept)[0]
    except (HxError, Refused):
        return None
    if kept.lost or kept.size > BUDGET or kept.unseen:
        return None
    return model.SerializeToString(), _expecting(case, case.feeds, recorded.real)


def _expecting(case: Case, feeds: Mapping[str, Any], real: Sequence[Any]) -> Case:
    return dataclasses.replace(case, feeds=feeds, expected=real, noise=(), exact=())


def _steady(captured: Capture, case: Case, runs: int = 2) -> bool:
    """Whether the model gives the same bits, whatever it draws."""
    first, *others = (run(captured, dict(case.feeds), seed) for seed in range(1, runs + 1))
    return all(len(first) == len(each) and all(map(_same, first, each)) for each in others)


def _same(a: Any, b: Any) -> bool:
    a, b = torch.as_tensor(a), torch.as_tensor(b)
    return a.dtype == b.dtype and a.shape == b.shape and bool(((a == b) | (a != a)).all())
