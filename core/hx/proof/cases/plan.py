"""All cases of a proof, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from ..differences.float64 import InFloat64
from ..file_proof import Case
from ..subject import Subject
from .case_source import CaseSource, Planned
from .counted import more_counted, oftener
from .crossing import far_off, other_answers
from .either_way import tell_either_way
from .extremes import beyond_the_range, equal_masks
from .far_rows import far_rows
from .far_sizes import at_large
from .farther import at_turns, between, farther
from .given_inputs import at_equal_sizes, given_inputs
from .other_ways import along_members, led_otherwise, repeated, tell_unled
from .othersizes import other_sizes, round_sizes
from .recorded_sizes import also_proved, other_values, recorded
from .special_values import equal_elements, special_values
from .together import together, where_others_failed
from .whole_numbers import whole_numbers

SOURCES = (
    CaseSource(recorded),
    CaseSource(also_proved),
    CaseSource(given_inputs, at_other_sizes=True),
    CaseSource(other_values),
    CaseSource(oftener, needs_trace=True),
    CaseSource(at_equal_sizes, at_other_sizes=True),
    CaseSource(other_sizes, at_other_sizes=True),
    CaseSource(far_off, needs_trace=True, at_other_sizes=True),
    CaseSource(other_answers, needs_trace=True, at_other_sizes=True),
    CaseSource(repeated, needs_trace=True, at_other_sizes=True),
    CaseSource(together, needs_trace=True, at_other_sizes=True),
    CaseSource(where_others_failed, at_other_sizes=True),
    CaseSource(round_sizes, if_right=True),
    CaseSource(at_large, needs_trace=True, if_right=True),
    CaseSource(far_rows, needs_trace=True, if_right=True),
    CaseSource(between, needs_trace=True, if_right=True),
    CaseSource(at_turns, needs_trace=True, if_right=True),
    CaseSource(farther, needs_trace=True, if_right=True),
    CaseSource(more_counted, needs_trace=True, if_right=True),
    CaseSource(led_otherwise, needs_trace=True, if_right=True),
    CaseSource(along_members, needs_trace=True, if_right=True),
    CaseSource(beyond_the_range, if_right=True),
    CaseSource(equal_masks, if_right=True),
    CaseSource(whole_numbers, needs_trace=True, if_right=True),
    CaseSource(special_values, if_right=True),
    CaseSource(equal_elements, needs_trace=True, if_right=True),
)


def planned_cases(
    subject: Subject,
    exact: InFloat64,
    file: Path | bytes,
    watch: AbstractContextManager | None = None,
    found: Callable[[Case], None] = lambda case: None,
    is_wrong: Callable[[Sequence[Case]], bool] = lambda cases: False,
) -> list[Case]:
    """Return the cases of all sources with the model's own outputs; `found` gets each at once.

    If the file `is_wrong` in the cases at other sizes, no further ones are made.
    """
    planned = Planned(exact, file) if watch is None else Planned(exact, file, watch)
    wrong: bool | None = None
    for source in SOURCES:
        if source.if_right and wrong is None:
            wrong = is_wrong(planned.cases)
        if source.applies(subject) and not (source.if_right and wrong):
            planned.found[source] = list(source.cases(subject, planned))
            for case in planned.found[source]:
                found(case)
    tell_unled(subject)
    tell_either_way(subject)
    return planned.cases
