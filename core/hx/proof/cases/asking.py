"""Cases made by running the model on other inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...budget import BUDGET
from ...findings import CHECKED, Finding
from ...recording.runs.expected_memory import expected_memory
from ...recording.runs.known_results import Raised, Unfinished
from ...samples.like_recorded import more_like_recorded
from ...text import first_line
from ..file_proof import Case
from ..subject import Subject

BEYOND_INT64 = "the model returns a whole number beyond int64"


def case_of(
    subject: Subject, name: str, tensors: dict[str, torch.Tensor], again: bool = True
) -> tuple[list[Case], list[str]]:
    """Run the model for a case; return no case, and a note, if the model refuses the inputs.

    Before that, it tries `again` with inputs that are more like the recorded ones.

    There is no case, either, if the outputs are far larger than the recorded ones because the data
    decide their size: computing and comparing them again and again proves nothing new.
    """
    room = expected_memory(subject.trace, subject.escapes.values(), tensors)
    if room > BUDGET.bytes.results:
        return [], [f"not run on {name} inputs: it may take {room / 1e9:.0f} GB of memory"]
    ran = subject.runner.known(tensors)
    if isinstance(ran, Unfinished):
        text = f"not compared on {name} inputs: the model was not through in time"
        subject.notes.append(Finding(CHECKED, text))
        return [], []
    if isinstance(ran, Raised):
        others = more_like_recorded(subject.recipe.inputs, tensors) if again else None
        found = case_of(subject, name, others, again=False)[0] if others else []
        return (found, []) if found else ([], [_refusal(name, ran.error)])
    if any(type(x) is int and not -(2**63) <= x < 2**63 for x in ran.results):
        if not any(BEYOND_INT64 in each.text for each in subject.notes):
            subject.notes.append(
                Finding(CHECKED, f"at {name}, {BEYOND_INT64}, and the file does not")
            )
        return [], [f"at {name}, {BEYOND_INT64}"]
    count = _numbers(ran.results)
    limits = BUDGET.elements
    if count > max(limits.outputs_factor * _numbers(subject.results), limits.outputs):
        return [], [f"not compared at {name}: {count / 1e6:.0f} million numbers come out"]
    return [Case(name, tensors, ran.results, lines=ran.lines)], []


def _refusal(name: str, error: Exception) -> str:
    first = first_line(error)
    if str(error).strip() and isinstance(error, KeyError):  # its text is the key alone
        first = f"KeyError: {first}"
    return f"the model itself refuses {name} inputs: {first}"


def _numbers(results: Sequence[Any]) -> int:
    return sum(x.numel() for x in results if isinstance(x, torch.Tensor))
