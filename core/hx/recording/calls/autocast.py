"""Casts that PyTorch does by itself under `torch.autocast`, below the calls that a recording sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ...ir.value import Value
from ..recording import Recording
from .arguments import Arguments, substitute


class Lists(NamedTuple):
    """PyTorch's own lists of functions, for one kind of device."""

    shorter: frozenset[str]  # runs in the shorter dtype
    full: frozenset[str]  # runs in float32
    rounded: frozenset[str]  # made of the first: no more exact than the shorter dtype


def _operators(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


CPU = Lists(
    shorter=_operators(
        """conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
        convolution bmm mm mv baddbmm addmm addbmm linear matmul linalg_matmul linalg_vecdot
        scaled_dot_product_attention"""
    ),
    full=_operators(
        """avg_pool3d adaptive_avg_pool3d max_pool3d binary_cross_entropy grid_sampler
        polar prod quantile nanquantile stft cdist trace cholesky inverse pinverse reflection_pad1d
        reflection_pad2d replication_pad1d replication_pad2d replication_pad3d mse_loss
        cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss poisson_nll_loss
        smooth_l1_loss cross_entropy_loss l1_loss huber_loss margin_ranking_loss soft_margin_loss
        triplet_margin_loss multi_margin_loss ctc_loss kl_div multilabel_margin_loss
        binary_cross_entropy_with_logits"""
    ),
    rounded=_operators(
        """lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell einsum
        bilinear tensordot inner chain_matmul linalg_multi_dot"""
    ),
)
ACCELERATOR = Lists(
    shorter=CPU.shorter | _operators("prelu addmv addr"),
    full=_operators(
        """acos arccos asin arcsin cosh erfinv special_erfinv exp expm1 special_expm1 log log10 log2
        log1p special_log1p reciprocal rsqrt sinh tan pow float_power softplus layer_norm
        native_layer_norm rms_norm group_norm frobenius_norm nuclear_norm cosine_similarity norm
        poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss
        smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss
        soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits
        cross_entropy_loss dist pdist cdist renorm logsumexp special_logsumexp upsample_nearest1d
        _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d
        _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa
        upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa prod softmax special_softmax
        log_softmax special_log_softmax cumprod cumsum linalg_vector_norm linalg_matrix_norm
        linalg_norm sum"""
    ),
    rounded=CPU.rounded - _operators("bilinear tensordot"),
)


# True if autocast is on for any device.
enabled: Callable[[], bool] = torch._C._is_any_autocast_enabled


def cast(recording: Recording, key: Any, given: Arguments) -> Arguments:
    """The arguments in the dtype that the call is going to run in.

    A function made of several operators runs in the widest dtype that it was given, on numbers that
    were rounded as autocast rounds them: one node of the graph has one dtype.
    """
    if (device := _device(given)) is None:
        return given
    lists = CPU if device == "cpu" else ACCELERATOR
    if callable(key):  # torch.nn.functional's: F.softmax is aten::softmax
        key = f"aten::{getattr(key, '__name__', '')}"
    dtype = _dtype(key, given, lists, device)
    rounded = torch.get_autocast_dtype(device) if key in lists.rounded else None
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
    return Arguments(
        args,
        kwargs,
        given.tensors,
        values,
        given.traced,
        given.has_sizes,
        repeat_note=given.repeat_note,
    )


def result(recording: Recording, real: torch.Tensor, out: Value) -> Value:
    """The result of a converter, in the dtype that autocast gave the real one."""
    if out.dtype is None or not enabled() or not _on(real.device.type):
        return out
    floats = out.dtype.is_floating_point and real.dtype.is_floating_point
    return recording.builder.cast(out, real.dtype) if floats else out


def _on(kind: str) -> bool:
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def _device(given: Arguments) -> str | None:
    """The kind of device whose lists hold for a call; a number may lie on the CPU beside them."""
    kinds = dict.fromkeys(tensor.device.type for tensor in given.tensors)
    on = [kind for kind in kinds if _on(kind)]
    return next((kind for kind in on if kind != "cpu"), "cpu" if on else None)


def _dtype(key: Any, given: Arguments, lists: Lists, device: str) -> torch.dtype | None:
    if key in lists.shorter:
        return torch.get_autocast_dtype(device)
    if key in lists.full:
        return torch.float32
    floats = {v.dtype for v in given.values if v.dtype.is_floating_point}
    if torch.float64 in floats:
        return None
    if key in lists.rounded or len(floats) > 1:
        return torch.float32
    return None
