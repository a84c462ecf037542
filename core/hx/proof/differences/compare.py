"""Comparison of two tensors: the difference between them, and the tolerance.

A float that a network computes carries the rounding of everything before it, at the scale of the
terms that were added up, not at its own: a sum that happens to cancel to 1e-4 still has the error
of its large terms. So an element is held to the size of its tensor, not to its own: the largest
error may be `share` times the largest value. Rounding errors are independent and of either sign,
and grow like the square root of the number of operations one after the other, so

    share = PyTorch's relative tolerance for the dtype * sqrt(depth of the graph, 16 at least)

(1.3e-6 for float32; at least 4 epsilons, so 3.9e-3 for float16 and 3.1e-2 for bfloat16, whose
tolerances in PyTorch are those of one or two roundings; never above a quarter). For the same reason,
large errors are rare in a right result: their root mean square must stay below a quarter of `share`,
times the tensor's own root mean square.

A sum of n numbers may have a larger error, of every element: `OF_SUMS` = 2 roundings (half an epsilon
of float32, or of float64; half floats are added up in float32) times sqrt(n), and half of that for the
root mean squares. This follows from `python -m tests.bench.long_sums`, which compares onnxruntime
with PyTorch at n = 2**6 to 2**18, in roundings * sqrt(n):

    sums, means, and weighted sums of rows         0.6 at most    (0.8 as root mean square)
    sums down columns                              0.9            (0.8)
    products of matrices, convolutions             0.9            (0.6)
    running sums                                   0.7            (0.6)
    norms                                          1.2            (1.0)
    softmax, log-sum-exp, layer norm, pooling      0.9            (0.5)

Two such nodes in a row add up to 1.7 at most. Sums that cancel, of which only one is the result, and
sums of equal numbers, whose roundings are all of one sign, differ by any multiple: 60 and 90 were
seen. Float64, or each node by itself, has to explain these.

A fault that moves every element a little (another epsilon, tanh for erf) shows in the root mean
square, even beside one huge value that hides it from the first test. `noise` is the measured movement
of the model's output when its input moves by one unit in the last place. It widens both limits for
models that magnify such errors.

Where that is not enough, the model's results in float64 may decide: sums of a million numbers, and
places far from zero in an image, cost the model digits, too. A result that is about as near to them
as the model's own is right (`as_near`).

NaN and inf must stand at the same places; integers, bools and strings must be equal; so must shapes
and dtypes. Imports torch: import it late.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hx import dtypes
from hx.budget import BUDGET
from hx.proof.proof import Difference
from hx.tensor_bytes import equal_numbers

RTOL = {  # torch.testing.assert_close's
    torch.float64: 1e-7,
    torch.float32: 1.3e-6,
    torch.float16: 1e-3,
    torch.bfloat16: 1.6e-2,
    torch.complex64: 1.3e-6,
    torch.complex128: 1e-7,
}
# Differences that are negligible beside values around 1: two roundings of such a value. The rest
# of a saturated sigmoid is no larger; outputs as small as this cannot be told from zero.
FLOOR = {torch.float64: 1e-15, torch.complex128: 1e-15, torch.float16: 1e-6, torch.bfloat16: 1e-6}
# Roundings of a sum, times the square root of its length, at most and in the mean: measured, see above.
OF_SUMS, OF_SUMS_IN_MEAN = 2.0, 1.0
LOOSEST = 0.25  # beyond that a comparison would prove nothing, whatever the dtype and the depth
# Limits of errors excused by float64: multiples of the model's own error, at most and in the mean,
# and a share of the largest value.
NEAR, NOTICEABLE = 4.0, 1e-2


@dataclass(frozen=True)
class Tolerance:
    """Limits for the error of one output; build it with `for_dtype`."""

    share: float
    floor: float
    noise: float = 0.0
    mean: float = 0.0  # as `share`, of root mean squares

    @staticmethod
    def for_dtype(
        dtype: torch.dtype, depth: int = 1, noise: float = 0.0, longest: int = 1
    ) -> Tolerance:
        """Return the tolerance for a dtype, a depth in nodes, and the length of the longest sum."""
        if not (dtype.is_floating_point or dtype.is_complex):
            return Tolerance(0.0, 0.0)
        unit = max(RTOL.get(dtype, 0.0), 4 * torch.finfo(dtype).eps)
        of_steps = min(unit * math.sqrt(max(depth, 16)), LOOSEST)
        sums = min(of_sums(dtype, longest), LOOSEST)
        in_mean = sums * OF_SUMS_IN_MEAN / OF_SUMS
        share, mean = max(of_steps, sums), max(of_steps / 4, in_mean)
        return Tolerance(share, FLOOR.get(dtype, 2.4e-7), 4 * noise, mean)


def rounding(dtype: torch.dtype) -> float:
    """Return the unit roundoff of the dtype in which numbers of this one are added up."""
    return min(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps) / 2


def of_sums(dtype: torch.dtype, longest: int) -> float:
    """Return the share of the largest value by which sums of so many numbers may differ."""
    return OF_SUMS * rounding(dtype) * math.sqrt(longest)


def coarser(dtype: torch.dtype, other: torch.dtype | None) -> torch.dtype:
    """Return the less exact of two dtypes; whole numbers stay exact."""
    if other is None or not dtype.is_floating_point:
        return dtype
    return max(dtype, other, key=lambda each: torch.finfo(each).eps)


def differ(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor], depth: int = 1) -> bool:
    """Return True if results differ by more than a graph of this depth may."""
    return len(some) != len(others) or any(
        difference(a, b, Tolerance.for_dtype(b.dtype, depth)).problem
        for a, b in zip(map(torch.as_tensor, some), map(torch.as_tensor, others))
    )


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


def as_near(got: torch.Tensor, want: torch.Tensor, exact: torch.Tensor, longest: int = 1) -> bool:
    """Return True if a result is about as near to the exact one as the expected one is.

    Elements whose exact value is beyond the range of the dtype are left out: rounding decides which
    of them overflow on the way. The accepted error is at most `NOTICEABLE` of the largest value.
    """
    if not got.shape == want.shape == exact.shape or not got.numel():
        return False
    ours, theirs = got.double(), want.double()
    alike = ~theirs.isfinite() & equal_numbers(ours, theirs)
    highest = torch.finfo(want.dtype).max
    too_large = exact.abs() > highest
    overflowed = ~ours.isfinite() | (ours * exact.sign() > highest / 2)
    if not overflowed[too_large].all():
        return False
    compared = ~(alike | too_large)
    ours, theirs, exact = ours[compared], theirs[compared], exact[compared]
    if not (ours.isfinite().all() and theirs.isfinite().all() and exact.isfinite().all()):
        return False
    if not exact.numel():
        return True
    scale = theirs.abs().max().item()
    if (ours - theirs).abs().max().item() > NOTICEABLE * max(scale, NOTICEABLE):
        return False
    ours, theirs = ours - exact, theirs - exact
    if theirs.abs().max().item() > NOTICEABLE * max(scale, NOTICEABLE):
        return False  # the model computes something else in float64
    least = of_sums(want.dtype, longest) * scale
    near = ours.abs().max().item() <= max(NEAR * theirs.abs().max().item(), least)
    mean, mean_of_theirs = ours.square().mean().item(), theirs.square().mean().item()
    return near and mean <= max(NEAR**2 * mean_of_theirs, least**2)


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
    """Compare floats in pieces, so that no large output is in double precision at once."""
    error, at, size = -1.0, 0, 0.0
    errors, sizes, count = 0.0, 0.0, 0
    flat_got, flat_want = got.reshape(-1), want.reshape(-1)
    step = BUDGET.elements.compared_at_once
    for start in range(0, want.numel(), step):
        ours = _double(flat_got[start : start + step])
        theirs = _double(flat_want[start : start + step])
        off, numbers = ours - theirs, theirs.numel()
        off_squared, squared = off.dot(off).item(), theirs.dot(theirs).item()
        if not math.isfinite(off_squared + squared):  # a value is NaN, infinite, or very large
            finite = theirs.isfinite()
            same = equal_numbers(ours, theirs)
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
    elif error_rms > tolerance.mean * size_rms + slack:
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
    """Return the number that all elements are, or "" if there are several."""
    first = flat[0]
    for part in flat.split(BUDGET.elements.compared_at_once):
        same = part.isnan() if first.isnan() else part == first
        if not same.all():
            return ""
    return f"{first.item() + 0:g}"  # adding 0 removes the sign of zero


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
    """Return the index of an element; a complex element counts for two numbers."""
    return index // 2 if of.dtype.is_complex else index


def _place(index: int, of: torch.Tensor) -> tuple[int, ...]:
    place = []
    for size in reversed(of.shape):
        place.append(index % size)
        index //= size
    return tuple(reversed(place))
