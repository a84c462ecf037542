"""What spconv's layers do, whichever operators say it.

A *form* is a module with the parts that they are made of: `beside` and `strided` work out which
points a layer reads, `convolve` and `largest` read them, `dense` lays them out.
"""

import weakref
from dataclasses import dataclass
from typing import Any

from hx.lazy import lazy, torch
from hx_spconv.container import replaced
from hx_spconv.geometry import Geometry

spconv: Any = lazy("spconv.pytorch")


@dataclass(frozen=True)
class Rules:
    """For each place of the kernel and each point, the row that is read there, or -1.

    `pairs` is for the points that come out, `back` for those that went in: an inverse convolution
    reads the other way.
    """

    pairs: Any  # [places, points out]
    back: Any = None  # [places, points in]


# What spconv keeps under an indice_key -> the same as values of the graph.
_kept: Any = weakref.WeakKeyDictionary()


def convolution(op, form, self, x, add_input=None):
    if self.conv1x1:
        return NotImplemented  # a product of matrices, which spconv leaves to PyTorch
    activation = getattr(self, "act_type", None)  # since spconv 2.2
    if add_input is not None or (activation is not None and activation.name != "None_"):
        op.refuse(
            "a sparse convolution with an activation or a sum inside is not converted",
            "make the activation and the sum layers of their own",
        )
    result = op.result  # what spconv itself objects to comes first
    record = x.find_indice_pair(self.indice_key)
    if record is None:
        indices, rules = _rules(op, form, self, x, self.subm, self.transposed)
    else:
        rules = _recorded(op, self, record)
        indices = op.value(record.indices if self.inverse else record.out_indices)
    pairs = rules.back if self.inverse else rules.pairs
    features = form.convolve(op, x.features, self.weight, self.bias, pairs)
    return _made(self, x, result, features, indices, rules)


def max_pool(op, form, self, x):
    # spconv's own algorithm makes no difference for submanifolds, and starts from zeros, so that
    # nothing below comes out of it.
    own = self.algo.name == "Native"
    indices, rules = _rules(op, form, self, x, self.subm and not own)
    features = form.largest(op, x.features, rules.pairs, from_zero=own)
    return _made(self, x, op.result, features, indices, rules)


def _rules(op, form, self, x, subm, transposed=False):
    """The points that come out, and what each of them reads."""
    geometry = Geometry(
        list(x.spatial_shape), list(op.result.spatial_shape), self.kernel_size, self.stride,
        self.padding, self.dilation, transposed,
    )  # fmt: skip
    if subm:
        return x.indices, Rules(form.beside(op, x.indices, geometry))
    indices, pairs, back = form.strided(op, x.indices, geometry)
    return indices, Rules(pairs, back)


def _recorded(op, self, record):
    """The rules of an earlier layer with the same indice_key."""
    rules = _kept.get(record)
    if rules is None:
        op.refuse(
            f"the points of the indice_key {self.indice_key!r} were worked out before the export",
            "pass a sparse tensor that no layer has seen yet",
        )
    return rules


def _made(self, x, result, features, indices, rules):
    """The sparse tensor that comes out; what spconv keeps of how it was made is remembered."""
    record = result.find_indice_pair(self.indice_key)
    if record is not None:
        _kept.setdefault(record, rules)
    features.sized((indices.shape[0], features.shape[1]))
    return replaced(x, features, indices, result.spatial_shape)


def from_dense(op, cls, x):
    """A point is where any channel is not zero, in the order of memory."""
    there = op.ReduceMax(op.cast(op.Not(op.Equal(x, 0)), torch.int32), [-1], keepdims=0)
    at = op.Transpose(op.NonZero(there), perm=[1, 0])
    return replaced(op.result, op.GatherND(x, at), op.cast(at, torch.int32))


def sequential(op, self, input):
    """Its own body asks whether there are points at all, before each layer that is PyTorch's."""
    return op.instead(_one_after_the_other)


def _one_after_the_other(self, input):
    for layer in self._modules.values():
        sparse = isinstance(input, spconv.SparseConvTensor)
        if sparse and not spconv.modules.is_spconv_module(layer):
            input = input.replace_feature(layer(input.features))
        else:
            input = layer(input)
    return input
