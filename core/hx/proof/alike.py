"""Names of sizes that want to be one: where the file is right as long as they are the same.

Attention takes as many keys as values, and where PyTorch does not ask whether that is so, a model
whose axes all have names of their own is called with what it was not made for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import HxError
from ..recording.capture import Capture
from .cases.asking import case_of
from .cases.othersizes import Sizes, at, limits_of, sizes_of, told
from .verify import prove

MOST = 6  # names of one size that are looked at
LARGE = 1 << 28  # bytes of weights that are not loaded again and again for a hint


def alike(captured: Capture, path: Path, custom_ops: Sequence[Any] = ()) -> list[list[str]]:
    """Names whose sizes are recorded as the same one, and have to stay the same."""
    words, limits = sizes_of(captured.prepared), limits_of(captured.prepared)
    if captured.prepared.hollow or captured.prepared.size > LARGE:
        return []

    def right(sizes: Sizes) -> bool:
        moved = {**words, **sizes}
        if not all(limits[word].hold(n) for word, n in moved.items()):
            return False
        try:
            cases, _ = case_of(captured, told(sizes), at(captured.prepared, moved))
        except HxError:  # a layer that was asked for does not run there
            return False
        return bool(cases) and prove(path, cases, checker=False, custom_ops=custom_ops).ok

    def together(group: list[str], other: str = "") -> bool:
        """Whether it is right where these have another size, and one more yet another."""
        step = max(limits[word].step for word in group)
        sizes = {word: words[word] + step for word in group}
        return right({**sizes, other: words[other] + 2 * step} if other else sizes)

    found = []
    for size in dict.fromkeys(words.values()):
        group = [word for word, n in words.items() if n == size]
        if not 1 < len(group) <= MOST or not together(group):
            continue
        for word in list(group):
            rest = [other for other in group if other != word]
            if len(rest) > 1 and together(rest, word):
                group = rest
        if not together(group[:-1], group[-1]):
            found.append(group)
    return found
