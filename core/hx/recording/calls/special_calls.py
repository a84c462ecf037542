"""Calls that hx answers itself, before any converter is asked."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ... import torch_facts
from ...errors import Unsupported
from ...packs.targets import identify
from .. import higher
from ..memory import unrecorded_tensors
from ..memory.constants import constant_of, freeze_before_write, frozen_constant
from ..memory.tensor_values import tensor_of_numpy, value_of
from ..reads import tensor_equality, tensor_reads, tensor_sizes
from .arguments import tensors_in
from .real_calls import call_unrecorded


def fresh(recording, key, func, args, kwargs, door):
    """A tensor made from Python's or numpy's data."""
    result = call_unrecorded(recording, func, args, kwargs)
    for _, tensor in tensors_in(result):
        if recording.memory.live.find(tensor) is None:
            value = tensor_of_numpy(recording, tensor)
            if value is None:
                unrecorded_tensors.tell_outside(recording, tensor)
                value = constant_of(recording, tensor)
            recording.memory.live.bind(tensor, value)
    return result


def data_set(recording, key, func, args, kwargs, door):
    """Handle x.data = y: from now on x is another name for y's memory."""
    tensor, other = args
    value_of(recording, other)
    result = call_unrecorded(recording, func, args, kwargs)
    recording.memory.live.alias(tensor, recording.memory.live.find(other))
    return result


def relaid(recording, key, func, args, kwargs, door):
    """Handle resize_, set_, as_strided_: the new elements depend on the layout of memory."""
    tensors = [t for _, t in tensors_in([list(args), kwargs])]
    family = recording.memory.live.family_of(tensors[0])
    if any(not value_of(recording, t).fixed for t in tensors) or (
        family is not None and any(m() is not tensors[0] for m in family.alive())
    ):
        raise Unsupported(
            f"{torch_facts.public_name(func, key)} gives a tensor other memory, or other places in it",
            where=recording.position.where(),
            why="a graph has values and no memory",
            hint="make a new tensor: torch.cat, F.pad, indexing or .clone() say what is meant",
        )
    freeze_before_write(recording, args, kwargs)
    result = call_unrecorded(recording, func, args, kwargs)
    recording.memory.live.bind(tensors[0], frozen_constant(recording, tensors[0]))
    return result


@functools.cache
def table() -> dict[Any, Any]:
    """The handlers by the key of what arrives; built when first asked, as it takes a while."""
    table: dict[Any, Any] = {
        "Tensor.shape.__get__": tensor_sizes.shape,
        "aten::size": tensor_sizes.size,
        "aten::sym_size": tensor_sizes.size,
        "aten::sym_numel": tensor_sizes.numel,
        "aten::sym_stride": tensor_sizes.layout,
        "aten::numel": tensor_sizes.numel,
        "aten::nelement": tensor_sizes.numel,
        "Tensor.nbytes.__get__": tensor_sizes.nbytes,
        "aten::stride": tensor_sizes.layout,
        "aten::storage_offset": tensor_sizes.layout,
        "aten::item": tensor_reads.item,
        "aten::lift_fresh": fresh,
        "aten::equal": tensor_equality.compare,
        "aten::allclose": tensor_equality.compare,
        "Tensor.device.__get__": tensor_sizes.device,
        "Tensor.is_meta.__get__": tensor_sizes.device,
        "Tensor.is_cpu.__get__": tensor_sizes.device,
        "Tensor.data.__set__": data_set,
        "aten::resize_": relaid,
        "aten::resize_as_": relaid,
        "aten::set_": relaid,
        "aten::as_strided_": relaid,
        identify(torch.Tensor.__len__): tensor_sizes.length,
    }
    table.update({key: higher.arrived(do) for key, do in higher.OPERATORS.items()})
    table[identify(torch.Tensor.tolist)] = tensor_reads.listed
    for name in torch_facts.READING_METHODS:
        method = getattr(torch.Tensor, name, None)
        if method is not None:
            table.setdefault(identify(method), tensor_reads.reads)
    for function in (torch.equal, torch.allclose, torch.is_nonzero, torch.numel):
        table.setdefault(
            identify(function),
            tensor_reads.reads if function is not torch.numel else tensor_sizes.numel,
        )
    return table
