"""Views of one memory in a recording: how each came about, and what a write does to the others."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import torch

from ..errors import Unaccounted
from ..graph.op import Op
from ..recording.call import Arguments, Numbers, Replayed, Step, describe, pick, retyped, substitute
from . import pairs
from .alone import alone
from .liveness import Entry, Family, geometry
from .values import Value
from .writing import Declined, by_positions, positions, read_again, write_back

if TYPE_CHECKING:
    from ..recording.recording import Recording


def parent_of(recording: Recording, storage: int, given: Arguments) -> Entry | None:
    """The argument that has the memory of a result."""
    family = recording.live.families.get(storage)
    if family is None:
        return None
    for argument in given.tensors:
        entry = recording.live.find(argument)
        if entry is not None and entry.family is family:
            return entry
    return None


def step_of(choice, given: Arguments, parent: Entry, path: tuple, real) -> Step:
    """How a result came to be a view of `parent`."""
    value = next(v for t, v in zip(given.tensors, given.values) if t is parent())
    fixed = not given.sized and all(v is value or v.fixed for v in given.values)
    numbers = Numbers.among(given, value)
    return Step(choice, given.args, given.kwargs, value, path, describe(real), fixed, numbers)


def replay(recording: Recording, step: Step, value: Value) -> Value:
    """The same view of other contents."""
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
        outputs = choice.function(Op(recording.builder, call, recording), *args, **kwargs)  # type: ignore[arg-type]
    if outputs is NotImplemented:
        raise Declined
    return pick(outputs, output)


def read_family(recording: Recording, family: Family, entry: Entry) -> Value:
    """What a tensor holds, after its memory was written to by another name."""
    try:
        return read_again(recording.builder, family, entry, functools.partial(replay, recording))
    except Unaccounted:
        if not recording.missing:
            raise
        # It follows from something that has no converter, and that is what is going to be told.
        return pairs.stand_in(recording.builder, entry.value.dtype, entry.value.shape)


def is_view_in_memory(recording: Recording, tensor: torch.Tensor) -> bool:
    """Whether it is a view of memory that is known, at sizes that cannot vary."""
    family = recording.live.family_of(tensor)
    if (
        recording.sized
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
        recording.origin("a view in memory", "hx"),
    )
    try:
        value = by_positions(recording.builder, family.root, places, tensor)
    finally:
        recording.builder.origin = outer
    recording.live.bind(tensor, value)
    return True


def write(recording: Recording, tensor: torch.Tensor, value: Value) -> None:
    """A tensor holds something else from now on, and so does whatever shares its memory."""
    entry = recording.live.find(tensor)
    if entry is None:
        entry = recording.account(tensor)
    recording.written.append(entry.family)
    recording.copies.written(recording, entry)
    if any(type(n) is int and n == 0 for n in value.shape or ()):  # there is nothing in it
        recording.live.write(entry, value, lambda f, e, v: f.root)
    elif not any(m is not entry for m in entry.family.alive()):
        recording.live.write(entry, value, lambda f, e, v: v)
    else:
        again = functools.partial(replay, recording)
        recording.live.write(
            entry, value, lambda f, e, v: write_back(recording.builder, f, e, v, again)
        )
