"""Files that no further case can make right: onnxruntime refuses inputs near the recorded sizes.

Rounding and ties explain no such case, and a promise holds up to twice the given sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.recipe import Promise
from ...samples.sizes import sizes_of
from ..file_proof import Case
from ..proof import CaseCheck
from ..subject import Subject


def is_surely_wrong(subject: Subject, cases: Sequence[Case], checks: Sequence[CaseCheck]) -> bool:
    """Return True if the file is wrong, whatever further cases show."""
    if subject.recipe.promise is Promise.ANY or subject.recipe.also_proved:
        return False
    return any(
        check.problem and check.name not in subject.beyond and is_near(subject, case)
        for case, check in zip(cases, checks)
    )


def is_near(subject: Subject, case: Case) -> bool:
    """Return True if each size is from the recorded one to twice as large, and values are usual."""
    words, sizes = sizes_of(subject.recipe), sizes_of(subject.recipe, case.feeds)
    unusual = case.far or case.beyond or case.special or case.confirmed is not None
    return not unusual and all(n <= sizes[word] <= 2 * n for word, n in words.items())
