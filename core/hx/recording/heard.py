"""What a model hears that asks whether it is being exported, and what else it might hear.

Model libraries ask PyTorch, and go another way then. For a tracer, they leave out branches on data,
and often a cache that they else return. For the exporters of torch.onnx, they go around what these
cannot do, and that may compute something else, or nothing. So a model hears at first that it is
traced and exported, and not that it is for ONNX; where that leads to no right graph, it hears
something else, if it asked. The proof compares with what the model does when nobody exports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

TRACING, EXPORTING, ONNX = "traced", "exported", "exported to ONNX"

# What refuses to run for others, and runs for this one: modules of PyTorch that ask.
REFUSES = {"torch.nn.utils.stateless", "torch._dynamo.external_utils"}

Yes = frozenset[str]  # the questions that are answered with yes
FIRST: Yes = frozenset({TRACING, EXPORTING})
WAYS: tuple[Yes, ...] = (
    FIRST,
    frozenset({EXPORTING}),
    frozenset({TRACING, EXPORTING, ONNX}),
    frozenset(),
)


def questions() -> dict[Callable, str]:
    """The functions of PyTorch that answer them."""
    asked = {torch.jit.is_tracing: TRACING, torch.onnx.is_in_onnx_export: ONNX}
    exporting = getattr(torch.compiler, "is_exporting", None)  # new in 2.7
    if exporting is not None:
        asked[exporting] = EXPORTING
    return asked


def ways(asked: set[str]) -> Iterator[Yes]:
    """What to say, one after the other; only what a model that `asked` this much hears differently.

    `asked` may grow meanwhile.
    """
    tried: list[Yes] = []
    for yes in WAYS:
        if all((yes ^ other) & asked for other in tried):
            tried.append(yes)
            yield yes


def told(yes: Yes, asked: set[str]) -> str:
    """A note, for a model that heard something else than models hear at first."""
    answers = [f"{'' if q in yes else 'not '}{q}" for q in sorted((yes ^ FIRST) & asked)]
    return (
        f"the model asks how it is run, and heard that it is {' and '.join(answers)}: nothing "
        "else led to a right graph"
    )
