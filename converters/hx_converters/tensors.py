"""Calls that change how a tensor is stored, and little or nothing of its contents."""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch


@converter(
    "torch.Tensor.detach", "torch.Tensor.contiguous", "torch.clone", "torch.Tensor.data.__get__",
    "torch.Tensor.requires_grad_", "torch.Tensor.cpu", "torch.positive",
    "torch.resolve_conj", "torch.resolve_neg", "torch.ops.aten.alias",
    "torch.ops.aten.lift_fresh_copy",
    cases=[case("float32[n,3]")],
)  # fmt: skip
@converter("torch.Tensor.__deepcopy__", cases=[case("float32[n,3]", {})])
@converter("torch.Tensor.cuda", cases=[])  # a case would need the device
def same(op, input, *args, **kwargs):
    return input


@converter("torch.ops.aten._to_copy", cases=[case("float32[n,3]", dtype=lambda: torch.int64)])
@converter("torch.Tensor.type", cases=[case("float32[n,3]", "torch.LongTensor")])
@converter("torch.Tensor.to", "torch.Tensor.type_as",
           cases=[case("float32[n,3]", "int64[n,3]", name="other")])  # fmt: skip
def to(op, self, *args, **kwargs):
    if isinstance(op.result, str):
        return op.result
    return op.cast(self, op.result.dtype)


def _cast_to(dtype: str):
    def cast(op, self, *args, **kwargs):
        return op.cast(self, getattr(torch, dtype))

    return cast


for _method, _dtype in {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16",
    "int": "int32", "long": "int64", "short": "int16", "char": "int8", "byte": "uint8",
    "bool": "bool",
}.items():  # fmt: skip
    globals()[f"to_{_method}"] = converter(f"torch.Tensor.{_method}", cases=[case("float32[n,3]")])(
        _cast_to(_dtype)
    )
