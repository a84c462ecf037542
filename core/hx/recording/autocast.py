"""What PyTorch casts by itself under `torch.autocast`, below the calls that a recording sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .call import Arguments, substitute

if TYPE_CHECKING:
    from .recording import Recording

# PyTorch's own lists for the CPU: what runs in the shorter dtype, in float32, in the widest given.
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
WIDEST = frozenset({"aten::cat", "aten::stack"})


def cast(recording: Recording, key: Any, given: Arguments) -> Arguments:
    """The arguments in the dtype that the call is going to run in."""
    if not torch.is_autocast_enabled("cpu"):
        return given
    dtype = _dtype(key, given)
    if dtype is None:
        return given
    args, kwargs, values = given.args, given.kwargs, []
    for value in given.values:
        new = value
        if value.dtype.is_floating_point and value.dtype not in (dtype, torch.float64):
            new = recording.builder.cast(value, dtype)
            args, kwargs = substitute(args, value, new), substitute(kwargs, value, new)
        values.append(new)
    return Arguments(args, kwargs, given.tensors, values, given.traced, given.sized)


def _dtype(key: Any, given: Arguments) -> torch.dtype | None:
    if key in SHORTER:
        return torch.get_autocast_dtype("cpu")
    if key in FULL:
        return torch.float32
    if key in WIDEST and any(v.dtype == torch.float32 for v in given.values):
        return torch.float32
    return None
