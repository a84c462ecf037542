"""What is done with a call that arrives at a door of torch, decided once for each function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..tensors import accounts
from ..tensors.values import Constant, Value
from . import autocast, known, opening, seeds
from .call import Arguments, Instead, has_complex, lift
from .conversion import DECLINED, convert
from .folding import fold
from .inplace import copied, in_place, into_out
from .leaves import leaf, opened

if TYPE_CHECKING:
    from .recording import Recording


def of(recording: Recording, key: Any, func: Callable, door: Any) -> Callable:
    """The action for every call of a function."""
    if recording.guard is not None and known.is_random(key):
        recording.guard.draws.seen = True
    special = known.SPECIAL.get(key)
    if special is not None:
        return special
    if recording.choices.of(key):
        return converted
    if known.in_place_base(key) is not None:
        return in_place
    if door.level == "function" and opening.can_open(func):
        return opened
    return leaf


def converted(recording: Recording, key, func, args, kwargs, door) -> Any:
    """Somebody converts it, unless it is known without."""
    given = lift(recording, args, kwargs, key in known.TAKE_LISTS, key in known.JOIN)
    if recording.builder.lengths is not None and key in known.JOIN:
        recording.builder.lengths.repeats(given)
    complex_ = given.complex and _reads_complex(args, kwargs)
    choice = recording.choices.pick(key, args, complex_)
    run = recording.runner(key, func, args, kwargs, given)
    if recording.unfilled and key not in known.VIEWS:
        writes = accounts.written(key, func, args, kwargs)
        accounts.require_filled(recording, given.tensors, writes)
    if (recording.seeded or "generator" in given.kwargs) and seeds.same(recording, key, given):
        return fold(recording, key, None, given, run)
    if not given.traced and door.level != "callable" and known.is_pure(key, func):
        if getattr(choice and choice.function, "composed", False):
            pass  # what it calls is folded: each of its views has a converter of its own
        elif choice is not None and any(map(_in_few_bits, given.values)):
            pass  # folded, it would take several times the room
        elif not getattr(choice, "kept", False) and not _views_of_weights(key, given):
            written = accounts.uncounted(key, func, args, kwargs)
            return fold(recording, key, choice, given, run, written)
    elif not given.traced and door.level == "function" and opening.can_open(func):
        return opened(recording, key, func, args, kwargs, door)  # the calls inside are folded
    if choice is None:  # its converters are for real numbers only
        return _beneath(recording, key, func, args, kwargs, door, given)
    if kwargs.get("out") is not None:
        return _into_out(recording, key, func, choice, given, run, args, kwargs, door)
    if autocast.enabled():
        given = autocast.cast(recording, key, given)
    result = convert(recording, choice, given, run)
    if isinstance(result, Instead):
        return result.run(recording, door, args, kwargs)
    if result is not DECLINED:
        return result
    recording.decliners[known.spelled(func, key)] = choice
    return _beneath(recording, key, func, args, kwargs, door, given)


def _reads_complex(args, kwargs) -> bool:
    """Whether complex numbers are among the arguments, but for where the result is to go."""
    if kwargs.get("out") is None:
        return True
    read = [*args, *(x for name, x in kwargs.items() if name != "out")]
    return has_complex(read, {}) or any(type(x) is complex for x in read)


def _into_out(recording: Recording, key, func, choice, given, run, args, kwargs, door) -> Any:
    out = kwargs["out"]
    kwargs = {k: v for k, v in kwargs.items() if k != "out"}
    result = into_out(recording, choice, given, run, out)
    if isinstance(result, Instead):
        return copied(recording, result.run(recording, door, args, kwargs), run, out)
    if result is not NotImplemented:
        return result
    given = lift(recording, args, kwargs)
    return copied(recording, _beneath(recording, key, func, args, kwargs, door, given), run, out)


def _beneath(recording: Recording, key, func, args, kwargs, door, given: Arguments) -> Any:
    if door.level == "function" and opening.can_open(func):
        return opened(recording, key, func, args, kwargs, door)
    return leaf(recording, key, func, args, kwargs, door, given, asked=True)


def _views_of_weights(key, given: Arguments) -> bool:
    """A view of a weight stays a node: folded, it would be stored a second time."""
    return key in known.VIEWS and any(
        (v.name or v.dtype in BITS) and v.sparse is None and v.tensor.numel() > 256
        if isinstance(v, Constant)
        else v.fixed
        for v in given.values
    )


BITS = frozenset({torch.int8, torch.uint8})


def _in_few_bits(value: Value) -> bool:
    """Whether numbers of eight bits, made of constants alone, are here in more: a weight that is
    about to be scaled."""
    while value.fixed and value.node is not None and value.node.inputs:
        before = value.node.inputs[0]
        if before is None:
            return False
        if before.dtype in BITS and value.dtype not in BITS:
            return True
        value = before
    return False
