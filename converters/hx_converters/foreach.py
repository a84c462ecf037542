"""Functions that treat each tensor of a list in one call, such as `_foreach_mul`.

Other arguments are lists with one tensor or number for each, or a single one for all of them.
"""

from __future__ import annotations

from hx import case, converter
from hx.lazy import torch

LIST = ["float32[n,3]", "float32[2]"]
SEVERAL = (list, tuple)
UNARY = """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2
    neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc""".split()
CONVERTERS: list = []


def _for_each(name, function, *cases, forms=("", "_")):
    """Replace PyTorch's functions: one that returns a list, and one that writes to each tensor."""

    def made(*given, **more):
        # The factors after two lists may be in one vector.
        several = [
            isinstance(x, SEVERAL if at < 3 else (*SEVERAL, torch.Tensor))
            for at, x in enumerate(given)
        ]
        count = max(len(x) for x in given if isinstance(x, SEVERAL))
        for i in range(count):
            yield function(*(x[i] if many else x for x, many in zip(given, several)), **more)

    def each(*given, **more):
        return list(made(*given, **more))

    def written(self, *given, **more):
        for tensor, new in zip(self, made(self, *given, **more)):  # the next may read this one
            tensor.copy_(new)
        return self

    for form in forms:
        for complex in (False, True):
            own = () if complex or form else cases
            register = converter(f"torch._foreach_{name}{form}", complex=complex, cases=own)
            CONVERTERS.append(register(_instead(written if form else each)))


def _instead(function):
    def convert(op, *args, **kwargs):
        return op.instead(function)

    convert.composed = True  # hx then expects no value from it
    return convert


for _name in UNARY:
    _for_each(_name, lambda x, name=_name: getattr(torch, name)(x), case(LIST))

for _name in "add sub mul div pow lerp clamp_min clamp_max".split():
    _for_each(
        _name, lambda x, *others, name=_name, **more: getattr(torch, name)(x, *others, **more)
    )


def _larger(x, other):
    return torch.maximum(x, other) if isinstance(other, torch.Tensor) else x.clamp_min(other)


def _smaller(x, other):
    return torch.minimum(x, other) if isinstance(other, torch.Tensor) else x.clamp_max(other)


_for_each("maximum", _larger, case(LIST, LIST), case(LIST, 0.5))
_for_each("minimum", _smaller, case(LIST, LIST), case(LIST, [0.5, 0.25]))
_for_each("addcmul", lambda x, a, b, value=1: x + value * (a * b), case(LIST, LIST, LIST, 0.5))
_for_each("addcdiv", lambda x, a, b, value=1: x + value * (a / b), case(LIST, LIST, LIST, [2, 3]))
_for_each("clone", lambda x: x.clone(), case(LIST), forms=[""])
_for_each("max", lambda x: torch.max(x), case(LIST), forms=[""])
_for_each("mm", lambda x, other: torch.mm(x, other), forms=[""])
_for_each(
    "norm",
    lambda x, ord=2, dtype=None: torch.linalg.vector_norm(x, ord, dtype=dtype),
    case(LIST), case(LIST, 1), forms=[""],
)  # fmt: skip
_for_each("copy", lambda x, other, non_blocking=False: other, forms=["_"])
_for_each("zero", lambda x: torch.zeros_like(x), forms=["_"])
