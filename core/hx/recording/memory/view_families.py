"""Views of one memory in a recording: their making, and the effect of a write on the others."""

from __future__ import annotations

import functools

import torch

from ...errors import Unaccounted
from ...graph import complex_pairs
from ...graph.op import Op
from ...ir.value import Value
from ...tensor_bytes import geometry
from ..calls.arguments import (
    Arguments,
    Numbers,
    Replayed,
    Step,
    describe,
    pick,
    retyped,
    substitute,
)
from ..recording import Recording
from .live_tensors import Entry, Family
from .replayed_writes import Declined, by_positions, positions, read_again
from .single_views import alone


def parent_of(recording: Recording, storage: int, given: Arguments) -> Entry | None:
    """The argument whose memory a result shares."""
    family = recording.memory.live.families.get(storage)
    if family is None:
        return None
    for argument in given.tensors:
        entry = recording.memory.live.find(argument)
        if entry is not None and entry.family is family:
            return entry
    return None


def step_of(choice, given: Arguments, parent: Entry, path: tuple, real) -> Step:
    """The step that made a result a view of `parent`."""
    value = next(v for t, v in zip(given.tensors, given.values) if t is parent())
    fixed = not given.has_sizes and all(v is value or v.fixed for v in given.values)
    numbers = Numbers.among(given, value)
    return Step(choice, given.args, given.kwargs, value, path, describe(real), fixed, numbers)


def replay(recording: Recording, step: Step, value: Value) -> Value:
    """The value of the same view of other contents."""
    if step is None:
        raise Unaccounted("a view was made by a call that has no converter")
    choice, output, spec = step.choice, step.output, step.spec
    args, kwargs = step.args, step.kwargs
    if (one := alone(choice.target, args, kwargs, output)) is not None:
        found = recording.choices.pick(one[0])
        if found is not None:
            choice, args, kwargs, spec, output = found, one[1], {}, pick(spec, output), ()
    given = Arguments(
        substitute(args, step.parent, value), substitute(kwargs, step.parent, value), [], [], True
    )
    call = Replayed(retyped(spec, value.dtype), step.numbers)
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        args, kwargs = recording.choices.fit(choice, given)
        outputs = choice.function(Op(recording.builder, call), *args, **kwargs)  # type: ignore[arg-type]
    if outputs is NotImplemented:
        raise Declined
    return pick(outputs, output)


def read_family(recording: Recording, family: Family, entry: Entry) -> Value:
    """The value of a tensor after its memory was written to under another name."""
    try:
        return read_again(recording.builder, family, entry, functools.partial(replay, recording))
    except Unaccounted:
        if not recording.findings.missing:
            raise
        # It follows from something that has no converter, and that is what is going to be told.
        return complex_pairs.stand_in(recording.builder, entry.value.dtype, entry.value.shape)


def is_view_in_memory(recording: Recording, tensor: torch.Tensor) -> bool:
    """Bind a tensor that is a view of known memory at fixed sizes; return False for any other."""
    family = recording.memory.live.family_of(tensor)
    if (
        recording.running.given_sizes
        or family is None
        or family.root.dynamic
        or family.root.dtype != tensor.dtype
    ):
        return False
    if tensor.is_conj() or tensor.is_neg():
        return False
    places = positions(family.geometry, geometry(tensor))
    if (places < 0).any():
        return False
    outer, recording.builder.origin = (
        recording.builder.origin,
        recording.position.origin("a view in memory", "hx"),
    )
    try:
        value = by_positions(recording.builder, family.root, places, tensor)
    finally:
        recording.builder.origin = outer
    recording.memory.live.bind(tensor, value)
    return True
