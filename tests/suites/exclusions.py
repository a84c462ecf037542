"""Entries of PyTorch's op_db that no inference graph could hold, each with its reason.

What an entry's own tensors show (sparse, no tensor in or out) is seen at run time; here
is what only a reader of the entry's code knows.
"""

from __future__ import annotations

import re
from typing import Any

RANDOM = "draws random numbers: no two runs agree"
UNINITIALISED = "returns memory that nobody wrote to"
STORAGE = "about the memory behind a tensor, not its contents"
CUDA = "exists for CUDA only"
SPARSE = "makes or takes sparse tensors"
OUTSIDE = "returns a Python value that leaves the graph"
TRAINING = "a backward pass"

BY_NAME: dict[str, str] = {
    **dict.fromkeys(
        """bernoulli cauchy exponential geometric log_normal multinomial normal
        normal.in_place normal.number_mean rand rand_like randint randint_like randn randn_like
        randperm uniform nn.functional.alpha_dropout nn.functional.dropout
        nn.functional.dropout2d nn.functional.dropout3d nn.functional.feature_alpha_dropout
        nn.functional.feature_alpha_dropout.with_train nn.functional.feature_alpha_dropout.without_train
        nn.functional.rrelu nn.functional.fractional_max_pool2d
        nn.functional.fractional_max_pool3d pca_lowrank svd_lowrank
        nn.functional.multi_head_attention_forward""".split(),
        RANDOM,
    ),
    **dict.fromkeys(
        """empty empty_like empty_permuted empty_strided new_empty new_empty_strided
        resize_ resize_as_""".split(),
        UNINITIALISED,
    ),
    **dict.fromkeys(
        """as_strided as_strided.partial_views as_strided_copy as_strided_scatter""".split(),
        STORAGE,
    ),
    **dict.fromkeys(["allclose", "equal", "item", "__is_nonzero__"], OUTSIDE),
    "sparse.sampled_addmm": SPARSE,
    "sparse.mm": SPARSE,
    "sparse.mm.reduce": SPARSE,
    "to_sparse": SPARSE,
}

BY_PATTERN: list[tuple[str, str]] = [
    (r"^sparse\.", SPARSE),
    (r"(_|\.)backward(_data)?$", TRAINING),
    (r"^torch\.ops\.aten\..*backward", TRAINING),
]


def reason(name: str) -> str:
    """Why the entry is left out; nothing if it is not."""
    found = BY_NAME.get(name, "")
    if not found:
        found = next((why for pattern, why in BY_PATTERN if re.search(pattern, name)), "")
    return found


def drops_out(sample: Any) -> bool:
    """Whether a sample asks for dropout, in an entry that is not random otherwise."""
    return bool(sample.kwargs.get("dropout_p"))
