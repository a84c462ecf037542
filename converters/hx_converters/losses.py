"""Losses, for models that compute their own."""

from __future__ import annotations

import math

from hx import case, converter
from hx.lazy import torch

from ._common import as_result, counted
from ._halves import rounded_once
from .arithmetic import xlogy
from .reduction import averaged, reduced

TWO = [case("float32[n,3]", "float32[n,3]", 1), case("float32[n,3]", "float32[n,3]", 2)]


def reduce(op, x, reduction):
    """Reduce losses: 0 leaves them unchanged, 1 is their mean, 2 their sum.

    By default, PyTorch's operators use 1, and functions of the same name in `torch` use 0.
    """
    if reduction == 0:
        return x
    if reduction == 1:
        return averaged(op, x, None, False)
    return reduced(op, "ReduceSum", x, None, False)


@converter("torch.ops.aten.mse_loss", cases=TWO)
@rounded_once
def mse_loss(op, self, target, reduction=1):
    gap = op.Sub(*as_result(op, self, target))
    return reduce(op, op.Mul(gap, gap), reduction)


@converter("torch.ops.aten.l1_loss", cases=TWO)
def l1_loss(op, self, target, reduction=1):
    return reduce(op, op.Abs(op.Sub(*as_result(op, self, target))), reduction)


@converter("torch.ops.aten.smooth_l1_loss", cases=TWO)
@rounded_once
def smooth_l1_loss(op, self, target, reduction=1, beta=1.0):
    gap = op.Abs(op.Sub(*as_result(op, self, target)))
    if beta == 0:
        return reduce(op, gap, reduction)
    near = op.Div(op.Mul(op.Mul(gap, gap), 0.5), beta)
    far = op.Sub(gap, beta * 0.5)
    return reduce(op, op.Where(op.Less(gap, beta), near, far), reduction)


@converter("torch.ops.aten.huber_loss", cases=TWO)
@rounded_once
def huber_loss(op, self, target, reduction=1, delta=1.0):
    gap = op.Abs(op.Sub(*as_result(op, self, target)))
    near, far = op.Mul(op.Mul(gap, gap), 0.5), op.Mul(op.Sub(gap, delta * 0.5), delta)
    return reduce(op, op.Where(op.LessOrEqual(gap, delta), near, far), reduction)


@converter("torch.ops.aten.soft_margin_loss", cases=TWO)
def soft_margin_loss(op, self, target, reduction=1):
    """Compute the same steps as PyTorch: a large exponential is infinite, and so is the loss."""
    x, y = as_result(op, self, target)
    return reduce(op, op.Log(op.Add(op.Exp(op.Neg(op.Mul(x, y))), 1)), reduction)


@converter("torch.ops.aten.binary_cross_entropy",
           cases=[case(lambda: torch.rand(4, 3), lambda: torch.rand(4, 3))])  # fmt: skip
@rounded_once
def binary_cross_entropy(op, self, target, weight=None, reduction=1):
    """Compute the loss with logarithms of at least -100, as PyTorch does: it stays finite."""
    x, y = as_result(op, self, target)
    yes = op.Max(op.Log(x), op.constant(-100, x.dtype))
    no = op.Max(op.Log(op.Sub(1, x)), op.constant(-100, x.dtype))
    loss = op.Sub(op.Mul(op.Sub(y, 1), no), op.Mul(y, yes))
    return reduce(op, _weighted(op, loss, weight), reduction)


def _weighted(op, loss, weight):
    return loss if weight is None else op.Mul(loss, op.cast(weight, loss.dtype))


@converter("torch.binary_cross_entropy_with_logits", cases=[
    case("float32[n,3]", "float32[n,3]<1", None, "float32[3]<1"),
    case("float32[n,3]", "float32[n,3]<1", "int64[3]<5", "int64[3]<5"),
])  # fmt: skip
@rounded_once
def binary_cross_entropy_with_logits(op, input, target, weight=None, pos_weight=None, reduction=0):
    x, y = as_result(op, input, target)
    soft = op.Softplus(op.Neg(x))  # -log(sigmoid(x))
    if pos_weight is not None:
        more = op.cast(op.Sub(pos_weight, 1), x.dtype)
        soft = op.Mul(soft, op.Add(op.Mul(more, y), 1))
    loss = op.Add(op.Mul(op.Sub(1, y), x), soft)
    return reduce(op, _weighted(op, loss, weight), reduction)


@converter("torch.kl_div", cases=[case("float32[n,3]", "float32[n,3]<1"),
                                  case("float32[n,3]", "float32[n,3]", log_target=True)])  # fmt: skip
@rounded_once
def kl_div(op, input, target, reduction=0, *, log_target=False):
    x, y = as_result(op, input, target)
    if log_target:
        return reduce(op, op.Mul(op.Exp(y), op.Sub(y, x)), reduction)
    return reduce(op, op.Sub(xlogy(op, y, y), op.Mul(y, x)), reduction)


@converter("torch.hinge_embedding_loss",
           cases=[case("float32[n,3]", lambda: torch.tensor([1.0, -1, 1]), 0.5, 1)])  # fmt: skip
@rounded_once
def hinge_embedding_loss(op, input, target, margin=1.0, reduction=0):
    x, y = as_result(op, input, target)
    apart = op.Relu(op.Sub(op.constant(float(margin), x.dtype), x))
    apart = op.Where(op.Equal(y, 1), 0, apart)
    return reduce(op, op.Add(apart, op.Where(op.Equal(y, -1), 0, x)), reduction)


@converter("torch.poisson_nll_loss", cases=[
    case("float32[n,3]", "float32[n,3]<1", True, True, 1e-8, 1),
    case("float32[n,3]<1", "float32[n,3]<1", False, False, 1e-3, 2),
])  # fmt: skip
@rounded_once
def poisson_nll_loss(op, input, target, log_input, full, eps, reduction):
    x, y = as_result(op, input, target)
    if log_input:
        loss = op.Sub(op.Exp(x), op.Mul(y, x))
    else:
        loss = op.Sub(x, op.Mul(y, op.Log(op.Add(x, eps))))
    if full:
        stirling = op.Add(
            op.Sub(op.Mul(y, op.Log(y)), y), op.Mul(op.Log(op.Mul(y, 2 * math.pi)), 0.5)
        )
        loss = op.Add(loss, op.Where(op.Greater(y, 1), stirling, 0))
    return reduce(op, loss, reduction)


# Classes.


def _picked(op, x, target, axis, ignore_index, weight):
    """Return x at the target's class, its weight (0 if ignored), and a valid target."""
    keep = op.Not(op.Equal(target, ignore_index))
    safe = op.Where(keep, target, 0)
    at = op.GatherElements(x, op.Unsqueeze(safe, [axis]), axis=axis)
    kept = op.cast(keep, x.dtype)
    scale = kept if weight is None else op.Mul(op.Gather(weight, safe, axis=0), kept)
    return op.Squeeze(at, [axis]), scale, keep


def _class_loss(op, losses, scale, reduction):
    """Reduce losses that are already weighted; their mean is weighted, too."""
    if reduction != 1:
        return reduce(op, losses, reduction)
    return op.Div(reduce(op, losses, 2), reduce(op, scale, 2))


def _nll(op, x, target, weight, reduction, ignore_index):
    axis = 1 if x.rank > 1 else 0
    at, scale, keep = _picked(op, x, target, axis, ignore_index, weight)
    losses = op.Where(keep, op.Neg(op.Mul(at, scale)), 0)
    return _class_loss(op, losses, scale, reduction), scale


@converter("torch.ops.aten.nll_loss2d",
           cases=[case("float32[n,3,2,h]", "int64[n,2,h]<3")])  # fmt: skip
@converter("torch.ops.aten.nll_loss", "torch.ops.aten.nll_loss_nd",
           cases=[case("float32[n,3]", "int64[n]<3")])  # fmt: skip
@rounded_once
def nll_loss(op, self, target, weight=None, reduction=1, ignore_index=-100):
    return _nll(op, self, target, weight, reduction, ignore_index)[0]


@converter("torch.ops.aten.nll_loss2d_forward",
           cases=[case("float32[n,3,2,2]", "int64[n,2,2]<3", "float32[3]<1", 1, 1)])  # fmt: skip
@converter("torch.ops.aten.nll_loss_forward",
           cases=[case("float32[n,3]", "int64[n]<3", None, 2, -100)])  # fmt: skip
@rounded_once
def nll_loss_forward(op, self, target, weight=None, reduction=1, ignore_index=-100):
    loss, scale = _nll(op, self, target, weight, reduction, ignore_index)
    total = reduce(op, scale, 2)
    return loss, op.Mul(total, 0) if reduction == 0 else total


@converter("torch.ops.aten.cross_entropy_loss",
           cases=[case("float32[n,3]", "int64[n]<3"), case("float32[n,3,5]", "int64[n,5]<3")])  # fmt: skip
@rounded_once
def cross_entropy_loss(op, self, target, weight=None, reduction=1, ignore_index=-100,
                       label_smoothing=0.0):  # fmt: skip
    axis = 1 if self.rank > 1 else 0
    logs = op.LogSoftmax(self, axis=axis)
    if target.dtype.is_floating_point:
        return _soft_cross_entropy(op, logs, target, weight, axis, reduction, label_smoothing)
    loss, scale = _nll(op, logs, target, weight, reduction, ignore_index)
    if label_smoothing == 0:
        return loss
    weighed = logs if weight is None else op.Mul(logs, _beside(op, weight, axis, logs.rank))
    spread = op.Neg(op.ReduceSum(weighed, [axis], keepdims=0))
    spread = op.Where(op.Equal(target, ignore_index), 0, spread)
    share = op.constant(1 / self.shape[axis] * label_smoothing, logs.dtype)
    smooth = op.Mul(_class_loss(op, spread, scale, reduction), share)
    return op.Add(op.Mul(loss, 1 - label_smoothing), smooth)


def _beside(op, weight, axis, rank):
    return op.Reshape(weight, [-1] + [1] * (rank - 1 - axis))


def _soft_cross_entropy(op, logs, target, weight, axis, reduction, label_smoothing):
    """Compute cross entropy for a target that is a probability for each class."""
    logs, target = as_result(op, logs, target)
    if label_smoothing:
        share = op.constant(1 / logs.shape[axis] * label_smoothing, logs.dtype)
        target = op.Add(op.Mul(target, 1 - label_smoothing), share)
    losses = op.Mul(logs, target)
    if weight is not None:
        losses = op.Mul(losses, _beside(op, weight, axis, logs.rank))
    losses = op.Neg(op.ReduceSum(losses, [axis], keepdims=0))
    if reduction != 1:
        return reduce(op, losses, reduction)
    count = 1
    for a, n in enumerate(logs.shape):
        count = count if a == axis else n * count
    return op.Div(reduce(op, losses, 2), op.constant(count, logs.dtype))


@converter("torch.ops.aten.multi_margin_loss", cases=[case("float32[n,3]", "int64[n]<3")])
@rounded_once
def multi_margin_loss(op, self, target, p=1, margin=1, weight=None, reduction=1):
    x = self if self.rank == 2 else op.Reshape(self, [1, -1])
    y = op.Reshape(target, [-1])
    right = op.GatherElements(x, op.Unsqueeze(y, [1]), axis=1)
    gap = op.Relu(op.Add(op.Sub(x, right), op.constant(margin, x.dtype)))
    gap = gap if p == 1 else op.Mul(gap, gap)
    if weight is not None:
        gap = op.Mul(gap, op.Unsqueeze(op.Gather(weight, y, axis=0), [1]))
    others = op.Not(op.Equal(counted(op, x.shape[1]), op.Unsqueeze(y, [1])))
    total = op.ReduceSum(op.Mul(gap, op.cast(others, x.dtype)), [1], keepdims=0)
    losses = op.Div(total, op.constant(x.shape[1], x.dtype))
    return reduce(op, losses if target.rank or reduction else op.Squeeze(losses, [0]), reduction)


@converter("torch.ops.aten.multilabel_margin_loss",
           cases=[case("float32[2,3]", lambda: torch.tensor([[0, 2, -1], [1, -1, 0]]))])  # fmt: skip
@rounded_once
def multilabel_margin_loss(op, self, target, reduction=1):
    x = self if self.rank == 2 else op.Reshape(self, [1, -1])
    y = target if target.rank == 2 else op.Reshape(target, [1, -1])
    size = x.shape[1]
    # Classes count up to the first -1.
    ended = op.CumSum(op.cast(op.Less(y, 0), torch.int64), op.constant(1))
    real = op.Equal(ended, 0)
    safe = op.Where(real, y, 0)
    is_class = op.And(op.Equal(op.Unsqueeze(safe, [2]), counted(op, size)), op.Unsqueeze(real, [2]))
    is_class = op.ReduceMax(op.cast(is_class, x.dtype), [1], keepdims=1)
    right = op.Unsqueeze(op.GatherElements(x, safe, axis=1), [2])
    gap = op.Relu(op.Sub(1, op.Sub(right, op.Unsqueeze(x, [1]))))
    counts = op.Mul(op.Unsqueeze(op.cast(real, x.dtype), [2]), op.Sub(1, is_class))
    losses = op.Div(
        op.ReduceSum(op.Mul(gap, counts), [1, 2], keepdims=0), op.constant(size, x.dtype)
    )
    return reduce(op, losses if self.rank == 2 or reduction else op.Squeeze(losses, [0]), reduction)
