"""Calls without a converter: the calls in their body are converted, or the ATen operators.

If those have no converters either, they are noted, and the recording goes on: one run finds them
all.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Mapping
from typing import Any

from ... import torch_facts
from ...graph import complex_pairs
from ...torchworld import patching, torch_bodies
from ...torchworld.spelling import respelling
from ..memory.constants import constant_of
from ..memory.tensor_writes import write
from ..memory.view_families import is_view_in_memory
from ..reads.note_escapes import note_escape
from ..recording import Recording
from .arguments import Arguments, tensors_in
from .constant_calls import fold
from .lifting import lift
from .missing_converters import bind_stand_in, note_missing
from .real_calls import call_unrecorded, real_call, run_unrecorded
from .written_arguments import uncounted_writes


def run_opened(recording: Recording, key, func, args, kwargs, door) -> Any:
    """Run the body of a Python function of torch; the calls inside arrive at the doors."""
    running = recording.running
    if func in running.opened:
        # It called super(), or itself by its public name: PyTorch's own code does the rest.
        return run_unconverted(recording, key, func, args, kwargs, door)
    running.opened.append(func)
    running.busy = False
    try:
        with door:
            return torch_bodies.opened(func)(*args, **kwargs)
    finally:
        running.busy = True
        running.opened.pop()


def run_unconverted(
    recording: Recording, key, func, args, kwargs, door, given=None, asked=False
) -> Any:
    """Run a call that has no converter and no Python body; the ATen operators inside are asked."""
    given = given or lift(recording, args, kwargs)
    if not given.traced and not asked:
        if torch_facts.is_random(key):
            return run_random(recording, key, func, args, kwargs)
        if not isinstance(func, types.FunctionType):  # else it may draw, further down
            run = real_call(recording, key, func, args, kwargs)
            # A converter may know a view, though all is known.
            choice = recording.choices.pick(key, args, given.complex)
            written = uncounted_writes(key, func, args, kwargs)
            return fold(recording, key, choice, given, run, written)
    if door.level == "operator":
        return run_operator(recording, key, func, args, kwargs, given)
    operator = torch_bodies.composed(func)
    kernel = None if operator is None else torch_bodies.kernel(operator, given.tensors)
    if kernel is not None:
        return run_python_kernel(recording, operator, args, kwargs, given, kernel)
    result = run_decomposed(recording, func, args, kwargs, given)
    if result is None:
        result = _by_operators(recording, key, func, args, kwargs, door, given)
    return result


def _by_operators(recording: Recording, key, func, args, kwargs, door, given: Arguments) -> Any:
    """Return the result of a call that is converted operator by operator; note what gets lost in it."""
    result, reached = _with_operators_asked(recording, key, func, args, kwargs, given)
    live, running = recording.memory.live, recording.running
    tensors = [tensor for _, tensor in tensors_in(result)]
    loose = [tensor for tensor in tensors if live.find(tensor) is None]
    if running.operators:
        for tensor, value in zip(given.tensors, given.values):
            if not value.fixed and id(tensor) not in reached:
                how = f"{torch_facts.public_name(func, key)} looks at the contents of a tensor by itself"
                note_escape(recording, "baked", how)
    # An operator of the same name saw plain numbers, too: torch.empty_strided((n, 2), ...).
    plain = given.has_sizes and tensors and not loose
    sized = given.has_sizes or any(v.dynamic for v in given.values)
    if plain or (running.operators and sized):
        how = f"{torch_facts.public_name(func, key)} computes sizes outside of Python"
        note_escape(recording, "baked", how, asked=given.baked())
    if loose and given.traced:
        note_missing(recording, torch_facts.public_name(func, key), given, "")
        for tensor in loose:
            bind_stand_in(recording, tensor)
    elif loose:
        for tensor in loose:
            live.bind(tensor, constant_of(recording, tensor))
    elif not running.operators and not tensors:
        running.actions[key, door.level] = run_without_tensors
    return result


def _with_operators_asked(
    recording: Recording, key, func, args, kwargs, given: Arguments
) -> tuple[Any, set[int]]:
    """The result of a call whose ATen operators are asked, and the ids of the tensors they got."""
    running = recording.running
    outer = running.asked_function, running.given_sizes, running.reached
    running.asked_function, running.operators, running.reached = (func, key), 0, set()
    running.given_sizes = given.has_sizes
    running.busy = False
    try:
        result = func(*args, **kwargs)
    finally:
        reached = running.reached
        running.busy = True
        running.asked_function, running.given_sizes, running.reached = outer
    return result, reached


def run_random(recording: Recording, key, func, args, kwargs) -> Any:
    """Note a call that draws random numbers as missing, and run it."""
    name = torch_facts.public_name(func, key)
    note_missing(recording, name, lift(recording, args, kwargs), "it draws random numbers")
    result = call_unrecorded(recording, func, args, kwargs)
    for _, tensor in tensors_in(result):
        if recording.memory.live.find(tensor) is None:
            bind_stand_in(recording, tensor)
    return result


def run_without_tensors(recording: Recording, key, func, args, kwargs, door) -> Any:
    """Run a call that has returned no tensor so far, unrecorded."""
    result = call_unrecorded(recording, func, args, kwargs)
    if any(True for _ in tensors_in(result)):
        return run_unconverted(recording, key, func, args, kwargs, door, asked=True)
    return result


def run_operator(recording: Recording, key, func, args, kwargs, given: Arguments) -> Any:
    """Note an ATen operator without a converter, and run it."""
    running = recording.running
    kernel = torch_bodies.kernel(func, given.tensors)
    if kernel is not None and given.traced and not func._schema.is_mutable:
        return run_python_kernel(recording, func, args, kwargs, given, kernel)
    result = run_decomposed(recording, func, args, kwargs, given)
    if result is not None:
        return result
    run = real_call(recording, key, func, args, kwargs)
    result = run_unrecorded(run)
    written = torch_facts.mutated(func, args, kwargs)
    fresh = [t for _, t in tensors_in(result) if recording.memory.live.find(t) is None]
    if fresh and not written:
        views = [t for t in fresh if is_view_in_memory(recording, t)]
        if len(views) == len(fresh):
            return result
    if not fresh and not written:
        if key in torch_facts.READS and given.traced:
            note_escape(
                recording, torch_facts.READS[key], "a value was read outside of Python's sight"
            )
        return result
    name = torch_facts.public_name(*(running.asked_function or (func, key)))
    note_missing(recording, name, given, "" if running.asked_function is None else str(key))
    for tensor in fresh:
        bind_stand_in(recording, tensor)
    for tensor in written:
        write(
            recording, tensor, complex_pairs.stand_in(recording.builder, tensor.dtype, tensor.shape)
        )
    return result


def run_python_kernel(recording: Recording, func, args, kwargs, given: Arguments, kernel) -> Any:
    """Run an operator whose kernel is Python; the calls inside are asked like those of the model.

    The operator itself is missing if its kernel hands memory to NumPy or to compiled code.
    """
    running = recording.running
    name = torch_facts.public_name(*(running.asked_function or (func, func.name())))
    escapes, outer = dict(recording.findings.escapes), running.asked_function
    running.asked_function, running.busy = None, False
    try:
        with contextlib.ExitStack() as doors:
            for door in running.doors:
                doors.enter_context(door)
            result = kernel(*args, **kwargs)
    finally:
        running.busy, running.asked_function = True, outer
    loose = [t for _, t in tensors_in(result) if recording.memory.live.find(t) is None]
    handed = {
        kind for kind, *_ in recording.findings.escapes.keys() - escapes.keys()
    } & torch_facts.GIVES_MEMORY
    if loose or handed:
        _put_back(recording.findings.escapes, escapes)
        detail = (
            "its kernel in Python is not followed: it hands memory to other code" if handed else ""
        )
        note_missing(recording, name, given, detail)
        for _, tensor in tensors_in(result):
            bind_stand_in(recording, tensor)
    running.operators = 0
    return result


def run_decomposed(recording: Recording, func, args, kwargs, given: Arguments) -> Any:
    """The result of an operator by its decomposition in PyTorch; None if not all of that is converted."""
    running = recording.running
    how = torch_bodies.decomposition(func) if given.traced else None
    if how is None or func in running.decomposing:  # or it is made up of others that it makes up
        return None
    missing = {target: each.copy() for target, each in recording.findings.missing.items()}
    escapes, outer = dict(recording.findings.escapes), running.asked_function
    running.asked_function, running.busy = None, False
    running.decomposing.append(func)
    try:
        with contextlib.ExitStack() as doors:
            if given.has_sizes or any(v.dynamic for v in given.values):
                doors.enter_context(patching.hooks(respelling.beside(how), beneath=True))
            for door in running.doors:
                doors.enter_context(door)
            result = how(*args, **kwargs)
    except Exception:
        # It is for other dtypes, or a call in it cannot be said: the operator is missing itself.
        result = None
    finally:
        running.busy, running.asked_function = True, outer
        running.decomposing.pop()
    known_all = all(
        t in missing and missing[t].count == m.count for t, m in recording.findings.missing.items()
    )
    if result is None or not known_all:
        _put_back(recording.findings.missing, missing)
        _put_back(recording.findings.escapes, escapes)
        return None
    return result


def _put_back(held: dict[Any, Any], before: Mapping[Any, Any]) -> None:
    """Restore the contents of a dict that others hold, too."""
    held.clear()
    held.update(before)
