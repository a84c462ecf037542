"""Rules for the sizes of an ONNX node's outputs, as ints and Dims: one per operator, or per family.

A rule takes the node's inputs, attributes and number of outputs, and returns one shape per output.
An operator without a rule, and a rule that returns None, leave the shape unknown: the engine then
reads it from the real result, and where it may vary, refers to the size of that very value.
"""

from __future__ import annotations

from ..shapes import Shape, Unknown
from ..value import Value
from . import algebra, form, per_element, selection, spatial
from ._rule import RULES
from .per_element import BROADCAST

__all__ = ["BROADCAST", "algebra", "form", "infer", "per_element", "selection", "spatial"]


def infer(op: str, inputs: list[Value | None], attributes: dict, count: int) -> list[Shape | None]:
    """Shapes of the outputs; None for each that is not known."""
    found = RULES.get(op)
    if found is None:
        return [None] * count
    try:
        shapes = found(inputs, attributes, count)
    except (Unknown, TypeError, IndexError, AttributeError):
        # A rule reads sizes without asking whether they are known: not known, then.
        shapes = None
    return shapes if shapes is not None else [None] * count
