"""Calls that write their result into a tensor that is there: `x.add_(y)`, `f(x, out=y)`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from ... import torch_facts
from ...errors import Unsupported
from ...graph.op import Instead, Op
from ...ir.sizes import dims
from ...ir.value import Value
from ..memory.tensor_values import value_of
from ..memory.tensor_writes import write
from ..memory.view_families import step_of
from ..recording import Recording
from ..runs import seeds
from .arguments import Arguments, Spec, retyped
from .ask_converter import asking
from .call import Call, check, measured, run_instead
from .constant_calls import fold
from .lifting import lift
from .real_calls import real_call, run_unrecorded
from .unconverted_calls import run_unconverted
from .written_arguments import uncounted_writes


def in_place(recording: Recording, key, func, args, kwargs, door) -> Any:
    """Handle x.add_(y) like x.add(y), and write the result into x."""
    given = lift(recording, args, kwargs)
    run = real_call(recording, key, func, args, kwargs)
    base = torch_facts.out_of_place(key)
    fixed = seeds.same(recording, key, given)
    if not given.traced and (fixed or torch_facts.is_pure(base, func)):
        return fold(recording, key, None, given, run, uncounted_writes(key, func, args, kwargs))
    choice = recording.choices.pick(base, args, given.complex)
    if choice is None:
        return run_unconverted(recording, key, func, args, kwargs, door, given, asked=True)
    if base in torch_facts.CHANGES_GEOMETRY:
        return write_converted(recording, choice, given, run, [args[0]], turn)
    result = write_converted(recording, choice, given, run, [args[0]], put)
    if isinstance(result, Instead):
        return write_result(
            recording, run_instead(recording.running, result, door, args, kwargs), run, args[0]
        )
    if result is NotImplemented:
        raise Unsupported(
            f"{choice.target} has no ONNX form when called in place with these arguments",
            hint="write the call without its trailing underscore",
        )
    return result


class Written(Call):
    """A call whose result is rounded when it is written: PyTorch may compute in a wider dtype."""

    __slots__ = ("dtype",)

    def __init__(self, choice, given: Arguments, run, dtype: torch.dtype) -> None:
        super().__init__(choice, given, run)
        self.dtype = dtype
        for tensor in () if dtype.is_complex or dtype is torch.bool else given.tensors:
            wider = torch.result_type(torch.empty(1, dtype=self.dtype), tensor)
            if not wider.is_complex and wider.is_floating_point == dtype.is_floating_point:
                self.dtype = wider

    def result(self) -> Any:
        result = super().result()
        return retyped(result, self.dtype) if isinstance(result, Spec) else result


def put(recording: Recording, choice, given: Arguments, tensor: torch.Tensor, value: Value) -> None:
    write(recording, tensor, cast_and_broadcast(recording, tensor, value))


def turn(
    recording: Recording, choice, given: Arguments, tensor: torch.Tensor, value: Value
) -> None:
    entry = recording.memory.live.find(tensor)
    assert entry is not None
    step = step_of(choice, given, entry, (), tensor)
    recording.memory.live.reform(entry, check(choice, tensor, value, ()), step)


def convert_into_out(recording: Recording, choice, given: Arguments, run, out: Any) -> Any:
    """Handle f(x, out=y) like f(x), and write the result into y."""
    plain = {k: v for k, v in given.kwargs.items() if k != "out"}
    without = dataclasses.replace(given, kwargs=plain)
    places = list(out) if isinstance(out, (list, tuple)) else [out]
    return write_converted(recording, choice, without, run, places, put)


def write_converted(
    recording: Recording, choice, given: Arguments, run, places: list[torch.Tensor], put: Callable
) -> Any:
    """Ask a converter, and write its results into tensors that were there before.

    If it declines, or has another function run instead, this only returns that fact.
    """
    call = Written(choice, given, run, places[0].dtype)
    with (
        torch._C.DisableTorchFunction(),
        torch._C._DisableTorchDispatch(),
        asking(recording, call) as ask,
    ):
        outputs = ask()
        if outputs is NotImplemented or isinstance(outputs, Instead):
            ask.undo()
            return outputs
        real = call.real()
        listed = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        for tensor, value in zip(places, listed):
            put(recording, choice, given, tensor, value)
    recording.tallies.count(choice)
    return real


def write_result(recording: Recording, made: Any, run: Callable, out: Any) -> Any:
    """Write the result of the calls inside a call into `out`, as the call itself does."""
    several = isinstance(out, (list, tuple))
    values = [value_of(recording, tensor) for tensor in (made if several else [made])]
    real = run_unrecorded(run)
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        for place, value in zip(out if several else [out], values):
            write(recording, place, cast_and_broadcast(recording, place, value))
    return real


def cast_and_broadcast(recording: Recording, tensor: torch.Tensor, value: Value) -> Value:
    """A value in the dtype and the shape of the tensor that it is written into."""
    value = recording.builder.cast(value, tensor.dtype)
    if _has(value, tensor):
        return value
    old = recording.memory.live.find(tensor)
    if old is not None and _has(old.value, tensor):
        op = Op(recording.builder)
        return op.Expand(value, op.sizes(old.value.shape))
    measured(value, tensor)  # PyTorch has made room in the tensor for what there is
    return value


def _has(value: Value, tensor: torch.Tensor) -> bool:
    """Return True if a value has the sizes of a tensor, as far as they are known."""
    return value.shape is not None and tuple(map(dims.plain, value.shape)) == tuple(tensor.shape)
