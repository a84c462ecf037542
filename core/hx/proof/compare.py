"""How far two tensors are apart, and how far they may be.

A float that a network computes carries the rounding of everything before it, at the scale of what
was added up, not at its own: a sum that happens to cancel to 1e-4 is still off by what its large
terms were off by. So an element is not held to its own size but to its tensor's: the largest error
may be `share` times the largest value. Errors of rounding are independent and of either sign, and
grow like the square root of the number of operations one after the other, so

    share = PyTorch's relative tolerance for the dtype * sqrt(depth of the graph, 16 at least)

(1.3e-6 for float32; at least 4 epsilons, so 3.9e-3 for float16 and 3.1e-2 for bfloat16, whose
tolerances in PyTorch are those of one or two roundings; never above a quarter). For the same
reason large errors are rare in a right result: their root mean square must stay below a quarter of
`share`, of the tensor's own root mean square. A fault that moves every element a little (another
epsilon, tanh for erf) shows there, even beside one huge value that hides it from the first test.
`noise`, where the caller has measured how far the model itself moves when its input moves by one
unit in the last place, widens both for models that magnify such errors.

Where that is not enough, the model itself may be asked what it gives in float64: sums of a million
numbers, and places far from zero in an image, cost it digits, too. A result that is about as near to
that as the model's own is right (`as_near`).

NaN and inf must stand at the same places; integers, bools and strings must be equal; so must
shapes and dtypes. Imports torch: import it late.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from hx.tensors import dtypes

RTOL = {  # torch.testing.assert_close's
    torch.float64: 1e-7,
    torch.float32: 1.3e-6,
    torch.float16: 1e-3,
    torch.bfloat16: 1.6e-2,
    torch.complex64: 1.3e-6,
    torch.complex128: 1e-7,
}
# Differences that are nothing beside values around 1: two roundings of such a value. What is left
# of a saturated sigmoid is no larger; outputs as small as this cannot be told from zero.
FLOOR = {torch.float64: 1e-15, torch.complex128: 1e-15, torch.float16: 1e-6, torch.bfloat16: 1e-6}
LOOSEST = 0.25  # beyond that a comparison would prove nothing, whatever the dtype and the depth
STRETCH = 1 << 22
NEAR = 4.0  # times the model's own error, at most, and in the mean


@dataclass(frozen=True)
class Tolerance:
    """What one output may be off by; build it with `for_dtype`."""

    share: float
    floor: float
    noise: float = 0.0

    @staticmethod
    def for_dtype(dtype: torch.dtype, depth: int = 1, noise: float = 0.0) -> Tolerance:
        if not (dtype.is_floating_point or dtype.is_complex):
            return Tolerance(0.0, 0.0)
        unit = max(RTOL.get(dtype, 0.0), 4 * torch.finfo(dtype).eps)
        share = min(unit * math.sqrt(max(depth, 16)), LOOSEST)
        return Tolerance(share, FLOOR.get(dtype, 2.4e-7), 4 * noise)


def coarser(dtype: torch.dtype, other: torch.dtype | None) -> torch.dtype:
    """The dtype that is no more exact than either of two; whole numbers stay exact."""
    if other is None or not dtype.is_floating_point:
        return dtype
    return max(dtype, other, key=lambda each: torch.finfo(each).eps)


@dataclass(frozen=True)
class Difference:
    """What a comparison found; `problem` is empty when it is within tolerance."""

    problem: str = ""
    max_abs: float = 0.0
    max_rel: float = 0.0  # the largest error as a share of the largest value
    rms_rel: float = 0.0
    allowed: float = 0.0  # what max_rel may be
    worst: tuple[int, ...] | None = None
    got: object = None
    want: object = None
    only: str = ""  # the one number that was expected everywhere: little is compared then


def difference(got: torch.Tensor, want: torch.Tensor, tolerance: Tolerance) -> Difference:
    """Compare a result with what was expected; both on the CPU."""
    if got.dtype != want.dtype:
        return Difference(
            f"the dtype is {dtypes.name(got.dtype)}, expected {dtypes.name(want.dtype)}"
        )
    if got.shape != want.shape:
        return Difference(f"the shape is {list(got.shape)}, expected {list(want.shape)}")
    if want.numel() == 0:
        return Difference()
    if want.dtype.is_floating_point or want.dtype.is_complex:
        return _floats(got, want, tolerance)
    return _exact(got, want)


def as_near(got: torch.Tensor, want: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether a result is about as near to the exact one as what was expected."""
    if not got.shape == want.shape == exact.shape or not got.numel():
        return False
    ours, theirs = got.double() - exact, want.double() - exact
    if not (ours.isfinite().all() and theirs.isfinite().all()):
        return False
    near = ours.abs().max() <= NEAR * theirs.abs().max()
    return bool(near and ours.square().mean() <= NEAR**2 * theirs.square().mean())


def _exact(got: torch.Tensor, want: torch.Tensor) -> Difference:
    differs = got.reshape(-1) != want.reshape(-1)
    count = int(differs.sum())
    if not count:
        return Difference()
    at = int(differs.to(torch.uint8).argmax())
    place = _place(at, want)
    share = f"{count} of {want.numel()} elements differ"
    distance = (got.double() - want.double()).abs().max().item()
    return Difference(
        share,
        distance,
        count / want.numel(),
        0.0,
        0.0,
        place,
        got[place].item(),
        want[place].item(),
    )


def _floats(got: torch.Tensor, want: torch.Tensor, tolerance: Tolerance) -> Difference:
    """One pass over pieces, so that large outputs are not held in double precision at once."""
    error, at, size = -1.0, 0, 0.0
    errors, sizes, count = 0.0, 0.0, 0
    flat_got, flat_want = got.reshape(-1), want.reshape(-1)
    for start in range(0, want.numel(), STRETCH):
        ours = _double(flat_got[start : start + STRETCH])
        theirs = _double(flat_want[start : start + STRETCH])
        off, numbers = ours - theirs, theirs.numel()
        off_squared, squared = off.dot(off).item(), theirs.dot(theirs).item()
        if not math.isfinite(off_squared + squared):  # something is NaN, infinite, or very large
            finite = theirs.isfinite()
            same = (ours == theirs) | (ours.isnan() & theirs.isnan())
            wrong = ~(same | (finite & ours.isfinite()))
            if wrong.any():
                place = _place(start + _element(int(wrong.to(torch.uint8).argmax()), want), want)
                return Difference(
                    f"{_special(ours, theirs)}",
                    math.inf, math.inf, math.inf, tolerance.share,
                    place, got[place].item(), want[place].item(),
                )  # fmt: skip
            theirs, numbers = theirs.where(finite, 0.0), int(finite.sum())
            off = ours.where(finite, 0.0) - theirs
            off_squared, squared = off.dot(off).item(), theirs.dot(theirs).item()
        highest, where = off.abs_().max(0)
        if highest.item() > error:
            error, at = highest.item(), start + _element(int(where), want)
        size = max(size, *(abs(end.item()) for end in theirs.aminmax()))
        errors, sizes, count = errors + off_squared, sizes + squared, count + numbers
    error_rms, size_rms = math.sqrt(errors / max(count, 1)), math.sqrt(sizes / max(count, 1))
    slack = tolerance.floor + tolerance.noise
    problem = ""
    if error > tolerance.share * size + slack:
        problem = "the largest error is beyond tolerance"
    elif error_rms > tolerance.share / 4 * size_rms + slack:
        problem = "the errors are small but everywhere"
    place = _place(at, want)
    return Difference(
        problem,
        error,
        error / size if size else (math.inf if error else 0.0),
        error_rms / size_rms if size_rms else (math.inf if error_rms else 0.0),
        tolerance.share + (slack / size if size else 0.0),
        place,
        got[place].item(),
        want[place].item(),
        _only(flat_want),
    )


def _only(flat: torch.Tensor) -> str:
    """The number that all are; nothing where there are several."""
    first = flat[0]
    for part in flat.split(STRETCH):
        same = part.isnan() if first.isnan() else part == first
        if not same.all():
            return ""
    return f"{first.item() + 0:g}"  # zero has no sign then


def _special(ours: torch.Tensor, theirs: torch.Tensor) -> str:
    counts = [
        (name, int(test(ours).sum()), int(test(theirs).sum()))
        for name, test in (("NaN", torch.isnan), ("inf", torch.isposinf), ("-inf", torch.isneginf))
    ]
    told = [f"{a} {name} where {b} were expected" for name, a, b in counts if a != b]
    return ", ".join(told) or "NaN or inf stand at other places"


def _double(flat: torch.Tensor) -> torch.Tensor:
    if flat.dtype.is_complex:
        return torch.view_as_real(flat.resolve_conj()).double().reshape(-1)
    return flat.double()


def _element(index: int, of: torch.Tensor) -> int:
    """A complex element counts for two numbers."""
    return index // 2 if of.dtype.is_complex else index


def _place(index: int, of: torch.Tensor) -> tuple[int, ...]:
    place = []
    for size in reversed(of.shape):
        place.append(index % size)
        index //= size
    return tuple(reversed(place))
