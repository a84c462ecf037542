"""Sets of answers to the model's questions about tracing, in the order in which they are tried.

At first, a model hears that it is traced and exported, and that this is not for ONNX. If that gives
no right graph, other answers are tried for the questions that it asked. The proof compares with the
model's results when it is not exported.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.recipe import EXPORTING, ONNX, STANDARD, TRACING, Answers

ORDER: tuple[Answers, ...] = (
    STANDARD,
    frozenset({EXPORTING}),
    frozenset({TRACING, EXPORTING, ONNX}),
    frozenset(),
)


def answers_to_try(asked: set[str]) -> Iterator[Answers]:
    """Yield the answers that differ for a model that `asked` these questions.

    `asked` may grow meanwhile.
    """
    tried: list[Answers] = []
    for answers in ORDER:
        if all((answers ^ other) & asked for other in tried):
            tried.append(answers)
            yield answers


def answers_note(answers: Answers, asked: set[str]) -> str:
    """Return a note for a model that was given other answers than the standard ones."""
    said = [f"{each}() = {each in answers}" for each in sorted((answers ^ STANDARD) & asked)]
    return f"recorded with {' and '.join(said)}, because the opposite led to no right file"
