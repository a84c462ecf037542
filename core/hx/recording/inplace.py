"""Calls that write their result into a tensor that is there: `x.add_(y)`, `f(x, out=y)`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..errors import Unsupported
from ..graph.op import Op
from ..sizes import dims
from ..tensors import accounts
from ..tensors.values import Value
from ..tensors.views import step_of, write
from . import known, seeds
from .call import Arguments, Call, Instead, Spec, check, lift, measured, quietly, retyped
from .conversion import asking
from .folding import fold
from .leaves import leaf

if TYPE_CHECKING:
    from .recording import Recording


def in_place(recording: Recording, key, func, args, kwargs, door) -> Any:
    """x.add_(y) is x.add(y), written into x."""
    given = lift(recording, args, kwargs)
    run = recording.runner(key, func, args, kwargs, given)
    base = known.in_place_base(key)
    fixed = seeds.same(recording, key, given)
    if not given.traced and (fixed or known.is_pure(base, func)):
        return fold(recording, key, None, given, run, accounts.uncounted(key, func, args, kwargs))
    choice = recording.choices.pick(base, args, given.complex)
    if choice is None:
        return leaf(recording, key, func, args, kwargs, door, given, asked=True)
    if base in known.TURNS:
        return written(recording, choice, given, run, [args[0]], turn)
    result = written(recording, choice, given, run, [args[0]], put)
    if isinstance(result, Instead):
        return copied(recording, result.run(recording, door, args, kwargs), run, args[0])
    if result is NotImplemented:
        raise Unsupported(
            f"{choice.target} has no ONNX form for this call written in place",
            hint="write the call without its trailing underscore",
        )
    return result


class Written(Call):
    """Its result is rounded as it is written: before that it is what PyTorch computes in."""

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
    write(recording, tensor, shaped_like(recording, tensor, value))


def turn(
    recording: Recording, choice, given: Arguments, tensor: torch.Tensor, value: Value
) -> None:
    entry = recording.live.find(tensor)
    assert entry is not None
    step = step_of(choice, given, entry, (), tensor)
    recording.live.reform(entry, check(choice, tensor, value, ()), step)


def into_out(recording: Recording, choice, given: Arguments, run, out: Any) -> Any:
    """f(x, out=y) is f(x), written into y, if a converter says what f(x) is."""
    plain = {k: v for k, v in given.kwargs.items() if k != "out"}
    without = dataclasses.replace(given, kwargs=plain)
    places = list(out) if isinstance(out, (list, tuple)) else [out]
    return written(recording, choice, without, run, places, put)


def written(
    recording: Recording, choice, given: Arguments, run, places: list[torch.Tensor], put: Callable
) -> Any:
    """Calls a converter, and writes what it returns into tensors that were there before.

    If it declines, or has another function run instead, nothing is done but to say so.
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
    recording.tally(choice)
    return real


def copied(recording: Recording, made: Any, run: Callable, out: Any) -> Any:
    """What the calls inside of a call made is what the call itself writes into `out`."""
    several = isinstance(out, (list, tuple))
    values = [recording.value_of(tensor) for tensor in (made if several else [made])]
    real = quietly(run)
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        for place, value in zip(out if several else [out], values):
            write(recording, place, shaped_like(recording, place, value))
    return real


def shaped_like(recording: Recording, tensor: torch.Tensor, value: Value) -> Value:
    """A result as it is after having been written into a tensor: cast and broadcast."""
    value = recording.builder.cast(value, tensor.dtype)
    if _has(value, tensor):
        return value
    old = recording.live.find(tensor)
    if old is not None and _has(old.value, tensor):
        op = Op(recording.builder)
        return op.Expand(value, op.sizes(old.value.shape))
    measured(value, tensor)  # PyTorch has made room in the tensor for what there is
    return value


def _has(value: Value, tensor: torch.Tensor) -> bool:
    """Whether a value has the sizes of a tensor, as far as they are known."""
    return value.shape is not None and tuple(map(dims.plain, value.shape)) == tuple(tensor.shape)
