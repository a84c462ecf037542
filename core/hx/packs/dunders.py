"""Python's own names for operators, and the operator of PyTorch that each is: `__iadd__`, `add_`."""

from __future__ import annotations

# Method descriptors that arrive under their own dunder name, or that a target may be spelled with,
# and the operator that they are. Measured by calling every dunder of torch.Tensor under a
# TorchFunctionMode (torch 2.13): most arrive renamed (`1 + x` as `add`), these do not.
_OPERATORS = {
    "add": "add", "radd": "add", "sub": "sub", "mul": "mul", "rmul": "mul", "div": "div",
    "truediv": "div", "mod": "remainder", "matmul": "matmul", "and": "bitwise_and",
    "rand": "bitwise_and", "or": "bitwise_or", "ror": "bitwise_or", "xor": "bitwise_xor",
    "rxor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
    "invert": "bitwise_not", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
    "iadd": "add_", "isub": "sub_", "imul": "mul_", "idiv": "div_", "itruediv": "div_",
    "ifloordiv": "floor_divide_", "imod": "remainder_", "iand": "bitwise_and_",
    "ior": "bitwise_or_", "ixor": "bitwise_xor_", "ilshift": "bitwise_left_shift_",
    "irshift": "bitwise_right_shift_", "long": "__int__", "nonzero": "__bool__",
}  # fmt: skip
CANONICAL = {f"__{name}__": operator for name, operator in _OPERATORS.items()}
