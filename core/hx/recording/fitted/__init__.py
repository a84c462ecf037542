"""Numbers that follow from sizes where nobody saw how: found by recording at several sizes.

Python may lose a size on its way to a number: in code of C, in a text, counted round by round. What
was recorded is right at its own sizes alone then. But where the same calls are made at other sizes,
too, and only numbers differ, it can be seen what these numbers follow: `n + 1`, `(n + 1) // 2`,
`0.9 ** n`. The graph computes that in their place, and the proof says whether it was so.
"""

from .numbers import record

__all__ = ["record"]
