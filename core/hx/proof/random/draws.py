"""Proof of a file with random numbers: it gets the numbers that the model drew.

No two runs draw the same numbers. So the model is recorded once more on the inputs of a case, and
the numbers that it drew there replace the draws in a copy of the file: then the results can be
compared. If the file draws in a loop or in a branch, or other numbers than the model on these
inputs, both get equal numbers instead: see `equal_numbers`. If the model's results do not depend on
its draws, the file must give these results without any replacement. The same holds for a model that
draws nothing: if its file draws, a converter is wrong, and the model's numbers would hide that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ...budget import BUDGET
from ...cleanup import run_inside
from ...errors import HxError
from ...runtime import Refused
from ...saving.claims import Hidden
from ...tensor_bytes import same_numbers
from ..differences.nodes import Recorded, again
from ..differences.parts import Parts
from ..file_proof import Case, prove
from ..proof import CaseCheck
from ..sessions.open_file import OpenFile
from .equal_numbers import Drawn, OfDraws, replaced
from .randomness import drawing, given, within

if TYPE_CHECKING:
    from ..subject import Subject

DRAWN = "::drawn"  # suffix for the file's own draws, which it returns unchanged
ALONE = "the graph draws random numbers, and the model draws none"


def checked(subject: Subject, file: OpenFile, target: Path, case: Case) -> CaseCheck | None:
    """Check a case with the same random numbers in both; return None if that is not possible."""

    assert isinstance(file.source, Path)
    path = file.source

    def steadily() -> CaseCheck | None:
        steady = dataclasses.replace(case, steady=True)
        return next(iter(prove(file, [steady], checker=False).cases), None)

    def proved(changed: bytes, theirs: Case, recorded: Recorded | None) -> CaseCheck | None:
        def run(hidden: Hidden) -> list[CaseCheck]:
            path = hidden.create(target).path
            path.write_bytes(changed)
            copy = OpenFile(path, file.custom_ops)
            found = prove(copy, [theirs], checker=False).cases
            for check in found:
                if recorded is not None and not check.ok and not check.problem:
                    parts = Parts(subject, copy, target)
                    check.by_parts = parts.tied(theirs, recorded)
            return found

        return next(iter(run_inside(Hidden(), run)), None)

    if subject.trace.effects.still and _steady(subject, case, BUDGET.runs.hidden_randomness):
        found = steadily()
        if found is not None and not found.ok:
            found.note = ALONE
            return found
    # Use the model's results after true answers, not those from a recording with others.
    subject = subject.with_recipe(subject.recipe.truthful)
    if (
        path.stat().st_size <= BUDGET.bytes.copied_weights
        and not subject.recipe.request.weights.streamed
    ):
        ways = [_on_its_draws, _on_equal_numbers]
        for way in reversed(ways) if within(file.model) else ways:
            made = way(subject, path, case)
            found = None if made is None else proved(*made)
            if found is not None:
                found.equal_draws = way is _on_equal_numbers
                found.same_draws = not found.equal_draws and any(
                    not output.random for output in found.outputs
                )
                for output in found.outputs:
                    output.name = output.name.removesuffix(DRAWN)
                return found
    if _steady(subject, case):
        return steadily()
    return None


def _on_its_draws(
    subject: Subject, path: Path, case: Case
) -> tuple[bytes, Case, Recorded | None] | None:
    """Return a copy of the file with the model's draws, the model's results, and the recording.

    None if the file draws anything else.
    """
    import onnx

    from ... import dtypes

    if subject.recipe.flow.reorders:
        return None  # its values have other names than those of a recording
    kept = OfDraws(BUDGET.bytes.kept_tensors)
    try:
        recorded, parts, names = again(subject, case, kept)
    except (HxError, Refused):  # a case that cannot be recorded again proves nothing
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
    theirs = _expecting(case, feeds, recorded.results)
    return model.SerializeToString(), theirs, Recorded(parts, names, kept)


def _on_equal_numbers(
    subject: Subject, path: Path, case: Case
) -> tuple[bytes, Case, Recorded | None] | None:
    """Return a copy of the file with equal numbers for its draws, and the model's results."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    if not replaced(model):
        return None
    kept = Drawn(BUDGET.bytes.kept_tensors, subject.recorder.opset)
    try:
        recorded = again(subject, case, kept)[0]
    except (HxError, Refused):
        return None
    if kept.lost or kept.size > BUDGET.bytes.kept_tensors or kept.unseen:
        return None
    return model.SerializeToString(), _expecting(case, case.feeds, recorded.results), None


def _expecting(case: Case, feeds: Mapping[str, Any], results: Sequence[Any]) -> Case:
    return dataclasses.replace(case, feeds=feeds, expected=results, noise=(), exact=())


def _steady(subject: Subject, case: Case, runs: int = 2) -> bool:
    """Return True if the model gives the same bits, whatever it draws."""
    first, *others = (subject.runner.results(dict(case.feeds), seed) for seed in range(1, runs + 1))
    return all(len(first) == len(each) and all(map(_same, first, each)) for each in others)


def _same(a: Any, b: Any) -> bool:
    return same_numbers(torch.as_tensor(a), torch.as_tensor(b))
