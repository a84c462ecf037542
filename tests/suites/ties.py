"""Operators that pick one of several right answers, and do not promise which one.

Where equal elements are picked, two results are the same when the elements are. Eigenvectors and
singular vectors are known up to a sign (a complex number of length 1), or a turn where values are
equal: PyTorch's documentation says that they differ between machines. A result is right when its
values are PyTorch's, its vectors are at right angles and of length 1, and together they make the
matrix, each within the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

# Where the axis stands among the arguments after the input; None where there is none.
AXIS = {"sort": 0, "argsort": 0, "msort": None, "topk": 1, "kthvalue": 1, "mode": 0, "median": 0,
        "nanmedian": 0, "argmax": 0, "argmin": 0, "max.reduction_with_dim": 0,
        "min.reduction_with_dim": 0}  # fmt: skip


VECTORS = {"linalg.eigh": (1,), "linalg.svd": (0, 2), "svd": (0, 2)}  # which outputs they are


def same_picks(name: str, sample: Any) -> Callable[[list, list], bool] | None:
    if name in FACTORS:
        vectors = VECTORS.get(name, ()) if sample.input.is_complex() else ()

        def judged(*both: list) -> bool:
            return FACTORS[name](sample, *([*_whole(tensors, vectors)] for tensors in both))

        return judged
    if name not in AXIS:
        return None
    x = sample.input if sample.input.dim() else sample.input.unsqueeze(0)
    place = AXIS[name]
    axis = sample.kwargs.get("dim")
    if axis is None and place is not None and len(sample.args) > place:
        axis = sample.args[place]
    if not isinstance(axis, int) or isinstance(axis, bool):
        axis = 0 if name == "msort" else -1

    def picked(index: torch.Tensor) -> torch.Tensor:
        if index.dim() < x.dim():
            index = index.unsqueeze(axis)
        return x.gather(axis, index)

    def same(found: list, expected: list) -> bool:
        for mine, real in zip(found, expected):
            if mine.shape != real.shape or mine.dtype != real.dtype:
                return False
            if not torch.equal(mine, real):
                if mine is not found[-1] or mine.dtype != torch.int64:
                    return False
                if not torch.equal(picked(mine), picked(real)):
                    return False
        return True

    return same


def _whole(tensors: list, vectors: tuple[int, ...]) -> Iterator[torch.Tensor]:
    """The vectors as complex tensors again, where a file has both parts as a last axis."""
    for i, tensor in enumerate(tensors):
        yield torch.view_as_complex(tensor.contiguous()) if i in vectors else tensor


def _near(x: torch.Tensor, y: torch.Tensor) -> bool:
    size = max(1.0, y.abs().max().item()) if y.numel() else 1.0
    return x.shape == y.shape and torch.allclose(x, y, rtol=0, atol=1e-5 * size)


def _right_angles(vectors: torch.Tensor) -> bool:
    one = torch.eye(vectors.shape[-1], dtype=vectors.dtype)
    return _near(vectors.mH @ vectors, one.expand(vectors.mT.shape[:-1] + (-1,)))


def _all_like(found: list, expected: list) -> bool:
    return len(found) == len(expected) and all(
        (a.shape, a.dtype) == (b.shape, b.dtype) for a, b in zip(found, expected)
    )


def _eigh(sample: Any, found: list, expected: list) -> bool:
    if not _all_like(found, expected):
        return False
    values, vectors = found
    half = sample.input.triu() if sample.kwargs.get("UPLO", "L") == "U" else sample.input.tril()
    a = half + half.mH - torch.diag_embed(half.diagonal(dim1=-2, dim2=-1).real)
    return (_near(values, expected[0]) and _right_angles(vectors)
            and _near(vectors * values[..., None, :] @ vectors.mH, a))  # fmt: skip


def _svd(sample: Any, found: list, expected: list, flipped: bool) -> bool:
    if not _all_like(found, expected):
        return False
    u, s, v = found
    v = v if flipped else v.mH
    n = s.shape[-1]
    return (_near(s, expected[1]) and _right_angles(u) and _right_angles(v)
            and _near(u[..., :n] * s[..., None, :] @ v[..., :n].mH, sample.input))  # fmt: skip


def _rough(sample: Any, found: list, expected: list) -> bool:
    """PyTorch's own are off by 1e-7 and more, in float64, too: see test_special.py."""
    return _all_like(found, expected) and all(
        torch.allclose(a, b, rtol=1e-6, atol=1e-6, equal_nan=True) for a, b in zip(found, expected)
    )


FACTORS: dict[str, Callable[[Any, list, list], bool]] = {
    "linalg.eigh": _eigh,
    "linalg.svd": lambda *seen: _svd(*seen, flipped=False),
    "svd": lambda *seen: _svd(*seen, flipped=True),
    **dict.fromkeys((f"special.bessel_{kind}{n}" for kind in "jy" for n in (0, 1)), _rough),
}
