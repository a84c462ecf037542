"""Reads of a tensor's elements by Python: they leave the graph, or are followed as sizes."""

from __future__ import annotations

from typing import Any

import torch

from ... import torch_facts
from ...budget import BUDGET
from ...ir.sizes import departures, dims, size_lists
from ...ir.sizes.size_polynomials import Atom, Poly
from ..calls.arguments import tensors_in
from ..calls.real_calls import call_unrecorded
from ..memory import numpy_arrays
from ..memory.exposed_memory import expose
from ..memory.tensor_values import hand_to_numpy, value_of
from . import size_questions
from .note_escapes import note_escape


def item(recording, key, func, args, kwargs, door):
    """The number in a tensor: it leaves the graph, and comes back where it is used as a number."""
    tensor = args[0]
    result = call_unrecorded(recording, func, args, kwargs)
    value = value_of(recording, tensor)
    if value.fixed:
        return result
    if isinstance(result, bool):
        return tell_read(recording, "item", [tensor], result)
    known = size_questions.counted(value, result)
    if known is not None:
        return known
    number = not isinstance(result, complex)
    detail = f"{key.rpartition('::')[2]} of {shaped(tensor)}"
    note_escape(recording, "item", detail, calculated=number)
    if isinstance(result, complex):
        return result
    atom = Atom("item", (value,), result)
    return dims.Dim(Poly.of(atom)) if isinstance(result, int) else dims.DimFloat(atom)


def listed(recording, key, func, args, kwargs, door):
    """The numbers in a tensor, which may come back: counts per expert as the sizes of a split, a
    row of a table as the corners of a box, a list of means as a tensor.
    """
    tensor = args[0]
    value = value_of(recording, tensor)
    if recording.model.blend is not None:
        return reads(recording, key, func, args, kwargs, door)
    few = tensor.numel() <= BUDGET.elements.listed
    varies = value.shape is not None and any(map(dims.is_dynamic, value.shape))
    real = tensor.dtype is not torch.bool and not tensor.is_complex()
    rows = value.shape is not None and tensor.dim() and dims.is_dynamic(value.shape[0])
    if value.fixed or not tensor.dim() or not real or not (few or rows):
        return reads(recording, key, func, args, kwargs, door)
    told = f"tolist of {list(tensor.shape)}"
    result = call_unrecorded(recording, func, args, kwargs)
    if not varies:
        note_escape(recording, "tolist", told, calculated=few)
    return _numbers(recording.builder, value, result, told, few)


def _numbers(builder, value, result, told, few):
    """List the elements along the first axis: numbers, or lists of them."""
    if value.rank == 0:
        atom = Atom("item", (value,), result)
        return dims.DimFloat(atom) if isinstance(result, float) else dims.Dim(Poly.of(atom))

    def part(i: int) -> Any:
        inner = builder.emit("Gather", [value, i], {"axis": 0})[0]
        return _numbers(builder, inner, result[i], told, few)

    def each(i: int) -> Any:
        departures.begins()
        return part(i)

    def whole(op):
        return op.cast(value, torch.float64 if value.dtype.is_floating_point else torch.int64)

    length = value.shape[0]
    if dims.is_dynamic(length):  # a list of where something is, more often than one of numbers
        left, over = ("tolist", told, ()), None
        if few:  # each number is followed, however many there are
            kind, why = "range", f"{told}, over {dims.spelled(length)}"
            if not Poly.of(length).named():
                kind, why = "rounds", f"{told}, once for each that was found"
            over = (kind, why, (dims.asked(int, length),))
        return size_lists.Whole(result, whole, length, left, each if few else None, over)
    return [part(i) for i in range(len(result))] if few else result


def reads(recording, key, func, args, kwargs, door):
    tensors = [t for _, t in tensors_in(list(args))]
    if recording.model.blend is not None:
        recording.model.blend.require(tensors, torch_facts.public_name(func, key))
    name = getattr(func, "__name__", str(key)).strip("_")
    if name in torch_facts.GIVES_ADDRESS:
        for tensor in tensors:
            expose(recording, tensor, name)
    if name in ("numpy", "array"):
        hand_to_numpy(recording, tensors[0])
    result = call_unrecorded(recording, func, args, kwargs)
    if name == "equal" and tensors[0] is tensors[-1]:
        return result  # whatever is in it
    if any(not value_of(recording, t).fixed for t in tensors):
        result = tell_read(recording, name, tensors, result)
    if name == "numpy" and result.base is not None and not value_of(recording, tensors[0]).fixed:
        return numpy_arrays.follow(recording, tensors[0], result)
    return result


def shaped(tensor) -> str:
    """A description of the elements that were read."""
    return str(list(tensor.shape)) if tensor.dim() else "one value"


def tell_read(recording, name, tensors, result):
    """Note what leaves: for a truth value of sizes, with the sizes that it depends on.

    Returns the answer for the model.
    """
    if recording.position.frames.checking():
        return result
    values = [value_of(recording, t) for t in tensors]
    truth = name in ("bool", "item", "is_nonzero", "nonzero")
    found = size_questions.answer(values[0]) if truth else None
    asked: Any = ()
    if found is not None and found.yes is result:
        if not found.asked:
            return result
        asked, sizes = found.asked, True
        where = note_escape(recording, "branch", found.text, asked=asked)
    else:
        each = ", ".join(map(shaped, tensors))
        sizes = all(map(size_questions.alone, values))
        asked = [size_questions.taken(value, result) for value in values] if sizes else []
        where = note_escape(recording, name, f"{name} of {each}", asked=asked)
    if truth and isinstance(result, bool):
        return recording.questions.value(
            recording.builder.nodes, where, result, values[0], not sizes, tuple(asked), name
        )
    return result
