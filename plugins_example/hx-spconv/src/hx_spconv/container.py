"""spconv's `SparseConvTensor` as the two tensors that it holds, and back.

Its records of earlier layers (`indice_dict`), its sizes and the rest go along as they are.
"""

import copy

from hx import Container


def flatten(x):
    return {"features": x.features, "indices": x.indices}, x


def unflatten(parts, x):
    return replaced(x, parts["features"], parts["indices"])


def replaced(x, features, indices, spatial_shape=None):
    """A sparse tensor like another, with other contents."""
    made = copy.copy(x)
    made._features, made.indices = features, indices  # `features` itself refuses to be set
    if spatial_shape is not None:
        made.spatial_shape = spatial_shape
    return made


CONTAINER = Container("spconv.pytorch.core.SparseConvTensor", flatten, unflatten)
