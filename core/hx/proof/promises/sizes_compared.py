"""Sizes at which a file was compared with the model."""

from __future__ import annotations

from collections.abc import Sequence

from ...samples.sizes import sizes_of
from ..file_proof import Case
from ..proof import Proof
from ..subject import Subject


def sizes_compared(
    subject: Subject, cases: Sequence[Case], proof: Proof
) -> dict[str, tuple[int, int]]:
    """Return the smallest and the largest size at which the file was right, by name.

    The file may be right at sizes that it is not promised for: these do not count.
    """
    found: dict[str, tuple[int, int]] = {}
    for case, check in zip(cases, proof.cases):
        sizes = sizes_of(subject.recipe, case.feeds)
        counts = check.equal and subject.promised.hold(sizes)
        for word, n in sizes.items() if counts else ():
            least, most = found.get(word, (n, n))
            found[word] = min(least, n), max(most, n)
    return found
