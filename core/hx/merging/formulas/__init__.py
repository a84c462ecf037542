"""Numbers that depend on sizes in an unknown way, found by recordings at several sizes.

Python may lose a size on its way to a number: in C code, in a string, in a counter. The recording
is then right at its own sizes only. But if the model makes the same calls at other sizes and only
numbers differ, these show the formula: `n + 1`, `(n + 1) // 2`, `0.9 ** n`. The graph computes the
formula instead, and the proof checks it.
"""

from .fitted_numbers import merge

__all__ = ["merge"]
