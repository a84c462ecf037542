"""acme's `Masked` as the two tensors that it holds, and back."""

from hx.lazy import acme_nn


def flatten(batch):
    return {"numbers": batch.numbers, "counts": batch.counts}, None


def unflatten(parts, context):
    return acme_nn.Masked(parts["numbers"], parts["counts"])
