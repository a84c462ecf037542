"""What PyTorch casts by itself under `torch.autocast`, below the calls that a recording sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..tensors.values import Value
from .call import Arguments, substitute

if TYPE_CHECKING:
    from .recording import Recording

# PyTorch's own lists for the CPU: what runs in the shorter dtype, and what in float32.
SHORTER = frozenset(
    f"aten::{name}"
    for name in """conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
    convolution bmm mm mv baddbmm addmm addbmm linear matmul linalg_matmul linalg_vecdot
    scaled_dot_product_attention""".split()
)
FULL = frozenset(
    f"aten::{name}"
    for name in """avg_pool3d adaptive_avg_pool3d max_pool3d binary_cross_entropy grid_sampler
    polar prod quantile nanquantile stft cdist trace cholesky inverse pinverse reflection_pad1d
    reflection_pad2d replication_pad1d replication_pad2d replication_pad3d mse_loss
    cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss poisson_nll_loss smooth_l1_loss
    cross_entropy_loss l1_loss huber_loss margin_ranking_loss soft_margin_loss triplet_margin_loss
    multi_margin_loss ctc_loss kl_div multilabel_margin_loss
    binary_cross_entropy_with_logits""".split()
)
# Made of the former: what they compute is no more exact than the shorter dtype.
ROUNDED = frozenset(
    f"aten::{name}"
    for name in """lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell einsum
    bilinear tensordot inner chain_matmul linalg_multi_dot""".split()
)


def enabled() -> bool:
    return torch.is_autocast_enabled("cpu")


def cast(recording: Recording, key: Any, given: Arguments) -> Arguments:
    """The arguments in the dtype that the call is going to run in.

    What is made of several operators runs in the widest dtype that it was given, of numbers that
    were rounded as autocast rounds them: one node of the graph has one dtype.
    """
    if not enabled():
        return given
    dtype = _dtype(key, given)
    rounded = torch.get_autocast_dtype("cpu") if key in ROUNDED else None
    if dtype is None and rounded is None:
        return given
    args, kwargs, values = given.args, given.kwargs, []
    for value in given.values:
        new = value
        if value.dtype.is_floating_point and value.dtype != torch.float64:
            for step in (rounded, dtype):
                new = new if step is None else recording.builder.cast(new, step)
            args, kwargs = substitute(args, value, new), substitute(kwargs, value, new)
        values.append(new)
    return Arguments(args, kwargs, given.tensors, values, given.traced, given.sized)


def result(recording: Recording, real: torch.Tensor, out: Value) -> Value:
    """What a converter gave, in the dtype that autocast gave the result."""
    if out.dtype is None or not enabled():
        return out
    floats = out.dtype.is_floating_point and real.dtype.is_floating_point
    return recording.builder.cast(out, real.dtype) if floats else out


def _dtype(key: Any, given: Arguments) -> torch.dtype | None:
    if key in SHORTER:
        return torch.get_autocast_dtype("cpu")
    if key in FULL:
        return torch.float32
    floats = {v.dtype for v in given.values if v.dtype.is_floating_point}
    if torch.float64 in floats:
        return None
    if key in ROUNDED or len(floats) > 1:
        return torch.float32
    return None
