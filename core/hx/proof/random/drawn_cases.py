"""Cases with random numbers in their results, compared on equal draws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from ... import dtypes
from ...budget import BUDGET
from ...findings import CHECKED, Finding
from ...ir.sizes.comparisons import At
from ...samples.sizes import sizes_of
from ..file_proof import Case
from ..promises.promised import may_be_ruled_out
from ..proof import CaseCheck, Proof, inputs_of
from ..sessions.open_file import OpenFile
from ..subject import Subject
from .draws import ALONE, checked
from .randomness import drawing, within


def compare_draws(
    subject: Subject, file: OpenFile, target: Path, cases: list[Case], proof: Proof
) -> None:
    """Compare results with random numbers in them, where model and file can get the same ones.

    A graph with merged branches or loops differs from the recording, so it is wrong if its draws
    cannot be compared.

    One wrong case is enough, unless a promise may exclude it. A small difference counts as not
    compared: the model draws anew in each run, so nobody can measure how far rounding moves it.
    """
    if not any(output.random for check in proof.cases for output in check.outputs):
        return
    work = subject.trace.graph.work  # none for a file that was made elsewhere
    late: list[int] = []
    spent = 0.0
    may_be_right = not proof.checker and _may_be_right(subject, cases, proof)
    for i in _in_order(subject, cases[: len(proof.cases)]):
        case, check = cases[i], proof.cases[i]
        if not may_be_right:
            return
        if i and spent > BUDGET.work.drawn_sizes and _by_chance(case, check):
            late.append(i)
        elif any(output.random for output in check.outputs):
            _compare(subject, file, target, case, i, proof)
            may_be_right = _may_be_right(subject, cases, proof)
            spent += work.at(At(sizes_of(subject.recipe, case.feeds)))
    if late:
        told = inputs_of([cases[i].name for i in sorted(late)])
        text = f"not compared on {told}: as much as is drawn there takes long"
        subject.notes.append(Finding(CHECKED, text))
    for i in sorted(late, reverse=True):
        del cases[i], proof.cases[i]


def _in_order(subject: Subject, cases: Sequence[Case]) -> list[int]:
    """Return the recording first, then other sizes: to check all of them may take too long."""
    recorded = sizes_of(subject.recipe)
    alike = [i > 0 and sizes_of(subject.recipe, c.feeds) == recorded for i, c in enumerate(cases)]
    return sorted(range(len(cases)), key=alike.__getitem__)


def _may_be_right(subject: Subject, cases: Sequence[Case], proof: Proof) -> bool:
    return all(
        check.ok or _by_chance(case, check) or case.far or may_be_ruled_out(subject, proof, case)
        for case, check in zip(cases, proof.cases)
    )


def _compare(
    subject: Subject, file: OpenFile, target: Path, case: Case, place: int, proof: Proof
) -> None:
    """Replace the check of a case by one on equal draws, if that is possible."""
    found = checked(subject, file, target, case)
    if found is None:
        if subject.recipe.flow.reorders and within(file.model):
            problem = "what it draws in a loop or a branch could not be compared"
            proof.cases[place].problem = problem
        return
    if found.is_rounding:
        for output in found.outputs:
            output.random = output.random or bool(output.problem)
            output.problem = ""
    proof.cases[place] = found
    if found.note == ALONE:
        proof.node = next(iter(drawing(file.model.graph)), "")


def _by_chance(case: Case, check: CaseCheck) -> bool:
    """Return True if only drawn sizes differ, such as the length of each sound of a text."""
    pairs = zip(check.outputs, map(torch.as_tensor, case.expected))
    off = [(output, want) for output, want in pairs if output.problem]
    sizes_alone = all(
        o.random and not o.misdeclared and o.dtype == dtypes.name(want.dtype) and not o.other_rank
        for o, want in off
    )
    return bool(off) and not check.problem and sizes_alone
