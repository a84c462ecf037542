"""Float64 versions of PyTorch's kernels that add products of 8-bit integers.

On processors without VNNI these kernels add pairs of products in 16 bits. Such a sum saturates
where activations use all 8 bits, and the result is off by any number of steps. A float64 version
computes with the numbers that the integers stand for. Where the kernel picks one of the steps
nearest to that, its choice stands, since a number halfway between two steps may become either.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

WITH_VERSION = re.compile(
    r"quantized::(linear|conv(?:_transpose)?[123]d)(_relu|_leaky_relu|_tanh|)(_dynamic|)"
)
CONVOLUTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "conv1d": F.conv1d,
    "conv2d": F.conv2d,
    "conv3d": F.conv3d,
    "conv_transpose1d": F.conv_transpose1d,
    "conv_transpose2d": F.conv_transpose2d,
    "conv_transpose3d": F.conv_transpose3d,
}
ACTIVATIONS: dict[str, Callable[..., torch.Tensor]] = {
    "": lambda x: x,
    "_relu": torch.relu,
    "_leaky_relu": F.leaky_relu,
    "_tanh": torch.tanh,
}


class QuantizedKernels:
    """Calls kernels of quantized tensors in float64, and keeps the names of those that saturate."""

    def __init__(self) -> None:
        # Kernels whose result is not that of their float64 version.
        self.apart: dict[str, None] = {}

    def serves(self, func: Callable[..., Any]) -> bool:
        """Return True if a function is PyTorch's own and takes or gives quantized tensors."""
        return _is_quantizing(func) or _name(func).startswith("quantized::")

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of such a function; kernels that compute in floats run as they are."""
        args, kwargs = _narrow(args), _narrow(kwargs)
        given = func(*args, **kwargs)
        if not isinstance(given, torch.Tensor):
            return given
        wanted = _exact(func, (*args, *kwargs.values()))
        if wanted is None:
            return given
        found, differs = (_on_steps if given.is_quantized else _in_floats)(given, wanted)
        if differs:
            self.apart[_name(func) or func.__name__] = None
        return found


def _name(func: Callable[..., Any]) -> str:
    """Return the name of an operator, as in `quantized::conv2d`; "" for any other function."""
    return getattr(getattr(func, "overloadpacket", func), "_qualified_op_name", "")


def _is_quantizing(func: Callable[..., Any]) -> bool:
    return getattr(func, "__name__", "") in ("quantize_per_tensor", "quantize_per_channel")


def _narrow(it: Any) -> Any:
    """Return arguments with float32 in place of float64, as the kernels take them."""
    if isinstance(it, torch.Tensor):
        return it.float() if it.dtype == torch.float64 else it
    if type(it) is dict:
        return {key: _narrow(value) for key, value in it.items()}
    return type(it)(map(_narrow, it)) if type(it) in (list, tuple) else it


def _exact(func: Callable[..., Any], args: tuple[Any, ...]) -> torch.Tensor | None:
    """Return the numbers in float64 that a kernel rounds; None for kernels without a version."""
    if _is_quantizing(func):
        return args[0].double() if isinstance(args[0], torch.Tensor) else None
    found = WITH_VERSION.fullmatch(_name(func))
    if found is None:
        return None
    kind, activation, dynamic = found.groups()
    after = ACTIVATIONS[activation]
    if kind == "linear":
        x = _on_own_steps(args[0], *args[2:]) if dynamic else numbers(args[0])
        weight, bias = args[1].unpack()
        sums = F.linear(x, numbers(weight), None if bias is None else bias.double())
        return after(sums, *args[4:])
    return None if dynamic else after(_convolution(kind, args[0], args[1]))


def _convolution(kind: str, x: torch.Tensor, packed: Any) -> torch.Tensor:
    if kind.endswith("1d"):  # packed as if it were one of two dimensions
        weight, bias = torch.ops.quantized.conv1d_unpack(packed)
    else:
        weight, bias = packed.unpack()
    axes = x.dim() - 2
    stride, padding, dilation, more = (
        list(sizes)[-axes:]
        for sizes in (packed.stride(), packed.padding(), packed.dilation(), packed.output_padding())
    )
    places: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation}
    if packed.transpose():
        places["output_padding"] = more
    double = None if bias is None else bias.double()
    return CONVOLUTIONS[kind](numbers(x), numbers(weight), double, groups=packed.groups(), **places)


def numbers(tensor: torch.Tensor) -> torch.Tensor:
    """Return the numbers that a quantized tensor represents, in float64."""
    scale, zero = _steps(tensor)
    return (tensor.int_repr().double() - zero) * scale


def _steps(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scale and zero point in float64, in a shape that goes with the tensor's."""
    if tensor.qscheme() == torch.per_tensor_affine:
        found = torch.tensor([tensor.q_scale(), tensor.q_zero_point()], dtype=torch.float64)
        return found[0], found[1]
    shape = [1] * tensor.dim()
    shape[tensor.q_per_channel_axis()] = -1
    scales, zeros = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return scales.double().reshape(shape), zeros.double().reshape(shape)


def _on_own_steps(x: torch.Tensor, reduce_range: bool = False) -> torch.Tensor:
    """Round to the steps that a dynamic kernel derives from its input; QNNPACK takes all of them."""
    reduced = reduce_range and torch.backends.quantized.engine != "qnnpack"
    scale, zero = torch._choose_qparams_per_tensor(x, reduced)
    return numbers(torch.quantize_per_tensor(x, scale, zero, torch.quint8))


def _on_steps(given: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Return the kernel's result, with the nearest step where it is not one of the nearest.

    The second value is True if there is such a place.
    """
    kept = given.int_repr()
    scale, zero = _steps(given)
    limits = torch.iinfo(kept.dtype)
    places = (wanted / scale + zero).clamp(limits.min, limits.max)
    # Halfway between two steps it may round either way, and a little beside it: kernels multiply
    # sums by a float32, and QNNPACK rounds biases to integers.
    wrong = (places - kept.double()).abs() > 0.5 + 2**-6
    if not wrong.any():
        return given, False
    right = torch.where(wrong, places.round(), kept.double())
    return _quantized((right - zero) * scale, given), True


def _quantized(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return numbers quantized with the steps of another tensor."""
    if like.qscheme() == torch.per_tensor_affine:
        return torch.quantize_per_tensor(x.float(), like.q_scale(), like.q_zero_point(), like.dtype)
    scales, zeros = like.q_per_channel_scales(), like.q_per_channel_zero_points()
    return torch.quantize_per_channel(
        x.float(), scales, zeros, like.q_per_channel_axis(), like.dtype
    )


def _in_floats(given: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Return the result in float64, and True if the kernel's own is off by more than rounding."""
    if not wanted.numel():
        return wanted, False
    limit = (
        2**-16 * wanted.abs().max()
    )  # of rounding to float32; a saturated sum is off by far more
    return wanted, bool(((given.double() - wanted).abs() > limit).any())
