"""Whether two tensors are the same, or nearly: `torch.equal` and `torch.allclose`."""

from __future__ import annotations

from builtins import len  # its own: `world` hooks that of the model

import torch

from ..sizes import shapes
from . import known
from .call import Instead, tensors_in


def compared(recording, key, func, args, kwargs, door):
    """Whether two tensors are the same, or nearly: a question of values, as any that is a tensor's."""
    tensors = [t for _, t in tensors_in([list(args), kwargs])]
    if len(tensors) == 2 and tensors[0] is not tensors[1] and tensors[0].dtype == tensors[1].dtype:
        a, b = map(recording.value_of, tensors)
        sized = a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape)
        if not (a.fixed and b.fixed) and sized and all(map(shapes.same, a.shape, b.shape)):
            asked = _all_equal if key == "aten::equal" else _all_close
            return Instead(asked).run(recording, door, args, kwargs)
    return known.reads(recording, key, func, args, kwargs, door)


def _all_equal(input, other):
    return bool((input == other).all())


def _all_close(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return bool(torch.isclose(input, other, rtol, atol, equal_nan).all())
