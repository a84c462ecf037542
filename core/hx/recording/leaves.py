"""Calls that have no converter: their body is opened, or what runs beneath them is asked.

What nobody converts is noted, and the recording goes on, so that all of it is found in one run.
"""

from __future__ import annotations

import contextlib
import types
from builtins import len  # their own: `world` hooks those of the model
from typing import TYPE_CHECKING, Any

import torch

from ..report import Missing
from ..tensors import accounts, pairs, sparse
from ..tensors.views import is_view_in_memory, write
from ..world import patching, respelling
from . import known, opening
from .call import Arguments, lift, quietly, tensors_in
from .folding import fold

if TYPE_CHECKING:
    from .recording import Recording


def opened(recording: Recording, key, func, args, kwargs, door) -> Any:
    """A Python function of torch: its body runs, and the calls inside arrive here again."""
    if func in recording.opening:
        # It called super(), or itself by its public name: PyTorch's own code does the rest.
        return leaf(recording, key, func, args, kwargs, door)
    recording.opening.append(func)
    recording.busy = False
    try:
        with door:
            return opening.opened(func)(*args, **kwargs)
    finally:
        recording.busy = True
        recording.opening.pop()


def leaf(recording: Recording, key, func, args, kwargs, door, given=None, asked=False) -> Any:
    """No converter, and no Python body: the ATen operators beneath are asked."""
    given = given or lift(recording, args, kwargs)
    if not given.traced and not asked:
        if known.is_random(key):
            return random(recording, key, func, args, kwargs)
        if not isinstance(func, types.FunctionType):  # else it may draw, further down
            run = recording.runner(key, func, args, kwargs, given)
            # A converter may know a view, though all is known.
            choice = recording.choices.pick(key, args, given.complex)
            written = accounts.uncounted(key, func, args, kwargs)
            return fold(recording, key, choice, given, run, written)
    if door.level == "operator":
        return absent(recording, key, func, args, kwargs, given)
    operator = opening.composed(func)
    kernel = None if operator is None else opening.kernel(operator, given.tensors)
    if kernel is not None:
        return within(recording, operator, args, kwargs, given, kernel)
    result = by_others(recording, func, args, kwargs, given)
    if result is not None:
        return result
    outer = recording.beneath, recording.sized, recording.reached
    recording.beneath, recording.operators, recording.reached = (func, key), 0, set()
    recording.sized = given.sized
    recording.busy = False
    try:
        result = func(*args, **kwargs)
    finally:
        reached = recording.reached
        recording.busy = True
        recording.beneath, recording.sized, recording.reached = outer
    for tensor, value in zip(given.tensors, given.values):
        if recording.operators and not value.fixed and id(tensor) not in reached:
            how = f"{known.spelled(func, key)} looks at the contents of a tensor by itself"
            recording.escape("baked", how)
    loose = [t for _, t in tensors_in(result) if recording.live.find(t) is None]
    # What stands beneath under the same name saw plain numbers, too: torch.empty_strided((n, 2), ...).
    plain = given.sized and not loose and any(True for _ in tensors_in(result))
    told = given.sized or any(v.dynamic for v in given.values)
    if plain or (recording.operators and told):
        how = f"{known.spelled(func, key)} computes sizes outside of Python"
        recording.escape("baked", how, asked=given.baked())
    if loose and not given.traced:
        for tensor in loose:
            recording.live.bind(tensor, recording.constant(tensor))
    elif loose:
        note_missing(recording, known.spelled(func, key), given, "")
        for tensor in loose:
            opaque(recording, tensor)
    elif not recording.operators and not any(True for _ in tensors_in(result)):
        recording.actions[key, door.level] = no_tensor
    return result


def random(recording: Recording, key, func, args, kwargs) -> Any:
    name = known.spelled(func, key)
    note_missing(recording, name, lift(recording, args, kwargs), "it draws random numbers")
    result = recording.quietly(func, args, kwargs)
    for _, tensor in tensors_in(result):
        if recording.live.find(tensor) is None:
            opaque(recording, tensor)
    return result


def no_tensor(recording: Recording, key, func, args, kwargs, door) -> Any:
    """It told something about a tensor, and returned none."""
    result = recording.quietly(func, args, kwargs)
    if any(True for _ in tensors_in(result)):
        return leaf(recording, key, func, args, kwargs, door, asked=True)
    return result


def absent(recording: Recording, key, func, args, kwargs, given: Arguments) -> Any:
    """An operator that nobody converts: noted, and the recording goes on to find the rest."""
    kernel = opening.kernel(func, given.tensors)
    if kernel is not None and given.traced and not func._schema.is_mutable:
        return within(recording, func, args, kwargs, given, kernel)
    result = by_others(recording, func, args, kwargs, given)
    if result is not None:
        return result
    run = recording.runner(key, func, args, kwargs, given)
    result = quietly(run)
    written = known.mutated(func, args, kwargs)
    fresh = [t for _, t in tensors_in(result) if recording.live.find(t) is None]
    if fresh and not written:
        views = [t for t in fresh if is_view_in_memory(recording, t)]
        if len(views) == len(fresh):
            return result
    if not fresh and not written:
        if key in known.READS and given.traced:
            recording.escape(known.READS[key], "a value was read outside of Python's sight")
        return result
    name = known.spelled(*(recording.beneath or (func, key)))
    note_missing(recording, name, given, "" if recording.beneath is None else str(key))
    for tensor in fresh:
        opaque(recording, tensor)
    for tensor in written:
        write(recording, tensor, pairs.stand_in(recording.builder, tensor.dtype, tensor.shape))
    return result


def within(recording: Recording, func, args, kwargs, given: Arguments, kernel) -> Any:
    """An operator with a Python kernel: the calls inside are asked, as those of the model are.

    One that hands memory to NumPy or to compiled code is missing by its own name.
    """
    name = known.spelled(*(recording.beneath or (func, func.name())))
    escapes, outer = dict(recording.escapes), recording.beneath
    recording.beneath, recording.busy = None, False
    try:
        with contextlib.ExitStack() as doors:
            for door in recording.doors:
                doors.enter_context(door)
            result = kernel(*args, **kwargs)
    finally:
        recording.busy, recording.beneath = True, outer
    loose = [t for _, t in tensors_in(result) if recording.live.find(t) is None]
    handed = {kind for kind, *_ in recording.escapes.keys() - escapes.keys()} & known.HANDS_MEMORY
    if loose or handed:
        recording.escapes = escapes
        detail = (
            "its kernel in Python is not followed: it hands memory to other code" if handed else ""
        )
        note_missing(recording, name, given, detail)
        for _, tensor in tensors_in(result):
            opaque(recording, tensor)
    recording.operators = 0
    return result


def by_others(recording: Recording, func, args, kwargs, given: Arguments) -> Any:
    """An operator by those that PyTorch says make it up; None where not all of them are known."""
    how = opening.decomposition(func) if given.traced else None
    if how is None or func in recording.made_up:  # or it is made up of others that it makes up
        return None
    missing = {target: each.copy() for target, each in recording.missing.items()}
    escapes, outer = dict(recording.escapes), recording.beneath
    recording.beneath, recording.busy = None, False
    recording.made_up.append(func)
    try:
        with contextlib.ExitStack() as doors:
            if given.sized or any(v.dynamic for v in given.values):
                doors.enter_context(patching.hooks(respelling.beside(how), beneath=True))
            for door in recording.doors:
                doors.enter_context(door)
            result = how(*args, **kwargs)
    except Exception:
        # It is for other dtypes, or a call in it cannot be said: the operator is missing itself.
        result = None
    finally:
        recording.busy, recording.beneath = True, outer
        recording.made_up.pop()
    known_all = all(
        t in missing and missing[t].count == m.count for t, m in recording.missing.items()
    )
    if result is None or not known_all:
        recording.missing, recording.escapes = missing, escapes
        return None
    return result


def opaque(recording: Recording, tensor: torch.Tensor) -> None:
    """A stand-in, so that everything missing is found in one run; it never is written out."""
    sparse.require_known("the call gives", tensor, recording.where())
    recording.live.bind(tensor, pairs.stand_in(recording.builder, tensor.dtype, tensor.shape))


def note_missing(recording: Recording, target: str, given: Arguments, detail: str) -> None:
    sparse.require_answered(target, given.tensors, recording.where())
    if given.complex:
        detail = ", ".join(filter(None, [detail, "for complex numbers"]))
    found = recording.missing.get(target)
    if found is None:
        found = recording.missing[target] = Missing(target, detail)
        if (choice := recording.decliners.get(target)) is not None:
            found.declined = f"{choice.pack}, {choice.file}:{choice.line}"
    found.add(recording.where(), [(t.dtype, tuple(t.shape)) for t in given.tensors], detail)
