"""The route of each function's calls at the doors of torch, decided once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ... import torch_facts
from ...graph.op import Instead
from ...ir.value import Constant, Value
from ...torchworld import torch_bodies
from ..calls import autocast, special_calls
from ..calls.arguments import Arguments, has_complex
from ..calls.ask_converter import DECLINED, convert
from ..calls.call import run_instead
from ..calls.constant_calls import fold
from ..calls.guarded_calls import guarded
from ..calls.in_place_calls import convert_into_out, in_place, write_result
from ..calls.lifting import lift
from ..calls.real_calls import real_call
from ..calls.unconverted_calls import run_opened, run_unconverted
from ..calls.written_arguments import uncounted_writes, written_arguments
from ..memory import unrecorded_tensors
from ..recording import Recording
from ..runs import seeds


def of(recording: Recording, key: Any, func: Callable, door: Any) -> Callable:
    """The action for every call of a function."""
    return guarded(key, _unguarded(recording, key, func, door))


def _unguarded(recording: Recording, key: Any, func: Callable, door: Any) -> Callable:
    if recording.model.guard is not None and torch_facts.is_random(key):
        recording.model.guard.draws.seen = True
    special = special_calls.table().get(key)
    if special is not None:
        return special
    if recording.choices.of(key):
        return converted
    if torch_facts.out_of_place(key) is not None:
        return in_place
    if door.level == "function" and torch_bodies.can_open(func):
        return run_opened
    return run_unconverted


def converted(recording: Recording, key, func, args, kwargs, door) -> Any:
    """Handle a call with a converter: fold it, ask the converter, or ask for the calls inside."""
    joins = key in torch_facts.JOINS
    given = lift(recording, args, kwargs, key in torch_facts.TAKES_LISTS, joins)
    if joins and recording.builder.lengths is not None:
        recording.builder.lengths.repeats(given)
    complex_ = given.complex and _reads_complex(args, kwargs)
    choice = recording.choices.pick(key, args, complex_)
    run = real_call(recording, key, func, args, kwargs)
    if recording.memory.unfilled and key not in torch_facts.VIEWS:
        writes = written_arguments(key, func, args, kwargs)
        unrecorded_tensors.require_filled(recording, given.tensors, writes)
    if (recording.draws.seeded or "generator" in given.kwargs) and seeds.same(
        recording, key, given
    ):
        return fold(recording, key, None, given, run)
    if not given.traced and door.level != "callable" and torch_facts.is_pure(key, func):
        if _may_fold(choice, key, given):
            written = uncounted_writes(key, func, args, kwargs)
            return fold(recording, key, choice, given, run, written)
    elif not given.traced and door.level == "function" and torch_bodies.can_open(func):
        return run_opened(recording, key, func, args, kwargs, door)  # the calls inside are folded
    if choice is None:  # its converters are for real numbers only
        return _beneath(recording, key, func, args, kwargs, door, given)
    if kwargs.get("out") is not None:
        return _into_out(recording, key, func, choice, given, run, args, kwargs, door)
    if autocast.enabled():
        given = autocast.cast(recording, key, given)
    result = convert(recording, choice, given, run)
    if isinstance(result, Instead):
        return run_instead(recording.running, result, door, args, kwargs)
    if result is not DECLINED:
        return result
    recording.tallies.decliners[torch_facts.public_name(func, key)] = choice
    return _beneath(recording, key, func, args, kwargs, door, given)


def _may_fold(choice, key, given: Arguments) -> bool:
    """Return True if a call of constants becomes one constant, and no nodes."""
    if getattr(choice and choice.function, "composed", False):
        return False  # the calls inside are folded: each of its views has a converter of its own
    if choice is not None and any(map(_in_few_bits, given.values)):
        return False  # folded, it would take several times the room
    return not getattr(choice, "kept", False) and not _views_of_weights(key, given)


def _reads_complex(args, kwargs) -> bool:
    """Return True if complex numbers are among the arguments, except for `out`."""
    if kwargs.get("out") is None:
        return True
    read = [*args, *(x for name, x in kwargs.items() if name != "out")]
    return has_complex(read, {}) or any(type(x) is complex for x in read)


def _into_out(recording: Recording, key, func, choice, given, run, args, kwargs, door) -> Any:
    out = kwargs["out"]
    kwargs = {k: v for k, v in kwargs.items() if k != "out"}
    result = convert_into_out(recording, choice, given, run, out)
    if isinstance(result, Instead):
        return write_result(
            recording, run_instead(recording.running, result, door, args, kwargs), run, out
        )
    if result is not NotImplemented:
        return result
    given = lift(recording, args, kwargs)
    return write_result(
        recording, _beneath(recording, key, func, args, kwargs, door, given), run, out
    )


def _beneath(recording: Recording, key, func, args, kwargs, door, given: Arguments) -> Any:
    if door.level == "function" and torch_bodies.can_open(func):
        return run_opened(recording, key, func, args, kwargs, door)
    return run_unconverted(recording, key, func, args, kwargs, door, given, asked=True)


def _views_of_weights(key, given: Arguments) -> bool:
    """Return True for a view of a weight: folded, the weight would be stored a second time."""
    return key in torch_facts.VIEWS and any(
        (v.name or v.dtype in BITS) and v.sparse is None and v.tensor.numel() > 256
        if isinstance(v, Constant)
        else v.fixed
        for v in given.values
    )


BITS = frozenset({torch.int8, torch.uint8})


def _in_few_bits(value: Value) -> bool:
    """Return True for numbers of eight bits in a wider dtype: a weight that is about to be scaled."""
    while value.fixed and value.node is not None and value.node.inputs:
        before = value.node.inputs[0]
        if before is None:
            return False
        if before.dtype in BITS and value.dtype not in BITS:
            return True
        value = before
    return False
