"""Detection of values that come back from NumPy and would differ in another run.

A dry run of the model finds them. No export with such values baked in is right: the function that
computes them needs a converter, and is reported like any other that lacks one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from ...errors import is_environment_error
from ...findings import Missing
from ...ir.escapes import DETOURS
from ...ir.value import Constant, Value
from ...samples.variations import fresh
from ...tensor_bytes import same_numbers
from ..calls import compiled_calls

if TYPE_CHECKING:
    from ..recorder import Recorder
    from ..trace import Trace


def missing(trace: Trace, recorder: Recorder) -> list[Missing]:
    """Return the functions that bring back results of the inputs, and that have no converter."""

    left = [each for each in trace.escapes.values() if each.kind in DETOURS]
    if not trace.effects.outside_tensors or not left or trace.recipe.request.weights.hollow:
        return []
    tensors = fresh(trace.recipe.inputs, seed=1)
    recipe = dataclasses.replace(trace.recipe, inputs=tensors)
    try:
        other = recorder.record(recipe, dry=True)
    except Exception as problem:  # the model's own, or ours: only the first recording has to work
        if is_environment_error(problem):
            raise
        return []
    brought, again = (
        trace.effects.outside_tensors,
        other.effects.outside_tensors,
    )
    apart = [
        where for (where, x), (_, y) in zip(brought, again, strict=False) if not same_numbers(x, y)
    ]
    same = _all_alike(list(_constants(trace)), list(_constants(other)))
    if same or not (apart or len(brought) != len(again)):
        return []
    places = apart or [where for where, _ in brought]
    found: dict[str, Missing] = {}
    for where in dict.fromkeys(places):
        through = next((each.through for each in left if each.where == where), None)
        target = compiled_calls.target_at(through or where)
        if target:
            detail = "what it gives follows from inputs, and is computed where nobody sees it"
            found.setdefault(target, Missing(target, detail)).add(where, [])
    return list(found.values())


def _constants(trace: Trace) -> Iterator[torch.Tensor]:
    """Yield the unnamed constants that the outputs depend on, in an order that another recording of
    the same calls shares.
    """
    waiting: list[Any] = [value for _, value in trace.outputs]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if not isinstance(value, Value) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Constant) and not value.name:
            yield value.tensor
        if value.node is not None:
            waiting += value.node.inputs
        waiting += value.parts or ()


def _all_alike(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return len(some) == len(others) and all(map(same_numbers, some, others))
