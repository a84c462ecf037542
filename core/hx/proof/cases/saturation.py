"""Cases on which kernels of quantized tensors saturate: the model's numbers are wrong there.

Values beyond the recorded range use all 8 bits of the activations. On processors without VNNI the
sums of products do not fit then, and no file gives what the model gives. A case is compared only
where each kernel gives the numbers of its float64 version.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...findings import CHECKED, Finding

if TYPE_CHECKING:
    from ..differences.float64 import InFloat64
    from ..file_proof import Case
    from ..subject import Subject


def unsaturated(subject: Subject, exact: InFloat64, cases: Iterable[Case]) -> list[Case]:
    """Return the cases on which no kernel saturates, and note the others."""
    found: list[Case] = []
    for case in cases:
        if why := saturated(subject, exact, case):
            note_saturated(subject, case.name, why)
        else:
            found.append(case)
    return found


def saturated(subject: Subject, exact: InFloat64, case: Case) -> str:
    """Return which kernel saturates on a case, in words; "" if none does, or if it is not known."""
    if not _has_quantized_kernels(subject):
        return ""
    apart = exact.run(case).apart
    of = " and ".join(apart)
    return f"on this processor, results of {of} differ from their float64 versions" if apart else ""


def note_saturated(subject: Subject, name: str, why: str) -> None:
    subject.notes.append(Finding(CHECKED, f"not compared on {name} inputs: {why}"))


def _has_quantized_kernels(subject: Subject) -> bool:
    return not subject.trace.is_recorded or any(
        node.origin is not None and node.origin.target.startswith("quantized::")
        for each in (subject, *subject.members)
        for node in each.trace.nodes
    )
