"""Exports of one case at several opsets: the first is proved in full, the others are held against it.

A case calls the same model with the same inputs at each opset, so the inputs to try, and what the
model makes of them, are the same, too. To find these takes most of the time of a proof. A file that
differs on one of them, or whose converter asked about a size what the first one did not ask, is
proved in full after all.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hx.cleanup import run_inside
from hx.errors import HxError
from hx.proof.file_proof import Case, prove
from hx.proof.proof import Proof
from hx.saving import save

if TYPE_CHECKING:
    from hx.program import Program


@dataclass(frozen=True)
class Proved:
    """Cases of an export that was proved in full, and the questions that it asked."""

    cases: list[Case]
    asked: frozenset[tuple]


@dataclass
class OpsetsCompared:
    """Proofs in full of the exports of one case; those of another case take their place."""

    case: tuple[Any, ...] = ()  # the objects that make it
    proved: dict[Hashable, Proved] = field(default_factory=dict)

    def export(
        self, case: tuple[Any, ...], way: Hashable, export: Callable[[bool], Program]
    ) -> Program:
        """Return the proved program of a case that is exported in some way, at any opset.

        `export` takes whether to prove it in full.
        """
        if len(case) != len(self.case) or not all(map(operator.is_, case, self.case)):
            self.case, self.proved = case, {}
        first = self.proved.get(way)
        if first is not None and (program := _compared(first, export)) is not None:
            return program
        program = export(True)
        if first is None and _holds_for_others(program):
            asked = frozenset(program._subject.escapes)
            self.proved[way] = Proved(program._subject.cases, asked)
        return program


def _compared(first: Proved, export: Callable[[bool], Program]) -> Program | None:
    """Return a program that is right on all cases of the first one; None if it has to be proved."""
    try:
        program = export(False)
    except HxError:  # a full export may know another way
        return None
    if not first.asked.issuperset(program._subject.escapes):
        return None
    proof = run_inside(save.staged(program.parts, None), lambda file: _proof(program, file, first))
    if not proof.ok or not _holds_for_others(program):
        return None
    program.report.checks.proof = proof
    return program


def _proof(program: Program, file: save.Staged, first: Proved) -> Proof:
    return prove(file.path, first.cases, custom_ops=program._kernels)


def _holds_for_others(program: Program) -> bool:
    """Return whether a program is fully tested by its cases: not if it draws numbers or keeps state."""
    effects = program._subject.trace.effects
    proof = program.proof
    return not (effects.draws or effects.drew_outside or effects.keeps) and (
        proof is None or all(check.equal for check in proof.cases)
    )
