"""Names of sizes that must be equal.

Attention takes as many keys as values. PyTorch does not always check that: if all axes of a model
have names of their own, it runs on inputs that it was not made for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...budget import BUDGET
from ...errors import HxError
from ...ir.recipe import Sizes
from ...samples.sizes import at, limits_of, sizes_of, told
from ...torchworld.state import shallow
from ..cases.asking import case_of
from ..file_proof import prove
from ..subject import Subject


def names_of_one_size(
    subject: Subject, path: Path, custom_ops: Sequence[Any] = ()
) -> list[list[str]]:
    """Return groups of names with one size in the recording, if the file is right only for that."""
    words, limits = sizes_of(subject.recipe), limits_of(subject.recipe)
    if (
        subject.recipe.request.weights.hollow
        or shallow.weight_bytes(subject.recipe.call.root) > BUDGET.bytes.light_weights
    ):
        return []

    def right(sizes: Sizes) -> bool:
        moved = {**words, **sizes}
        if not limits.hold(moved):
            return False
        try:
            cases, _ = case_of(subject, told(sizes), at(subject.recipe, moved))
        except HxError:  # a module whose output was requested does not run there
            return False
        return bool(cases) and prove(path, cases, checker=False, custom_ops=custom_ops).ok

    def together(group: list[str], other: str = "") -> bool:
        """Return True if the file is right at larger sizes of these, and a yet larger `other`."""
        step = max(limits[word].step for word in group)
        sizes = {word: words[word] + step for word in group}
        return right({**sizes, other: words[other] + 2 * step} if other else sizes)

    found = []
    for size in dict.fromkeys(words.values()):
        group = [word for word, n in words.items() if n == size]
        if not 1 < len(group) <= BUDGET.sizes.names_of_one_size or not together(group):
            continue
        for word in list(group):
            rest = [other for other in group if other != word]
            if len(rest) > 1 and together(rest, word):
                group = rest
        if not together(group[:-1], group[-1]):
            found.append(group)
    return found
