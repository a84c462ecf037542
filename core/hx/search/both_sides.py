"""One recipe more after a right one: both answers to questions about sizes, in place of a promise."""

from __future__ import annotations

from dataclasses import replace

from ..ir.recipe import Promise, Recipe
from ..proof.subject import Subject
from ..report import Report
from . import recipes


def both_sides(recipe: Recipe, subject: Subject, report: Report) -> Recipe | None:
    """Return a recipe that merges both answers, if a file is promised for those of the recording."""
    proof, plain = report.proof, recipe.derived
    if proof is None or not subject.promised or recipe.body is not None or recipe.padding:
        return None
    if plain.flow.reorders or plain.flow.formulas or recipe.promise is not Promise.AROUND:
        return None
    beyond = [case for case, check in zip(subject.cases, proof.cases) if check.outside]
    asked = [subject.beyond[case.name][0].kind for case in beyond if case.name in subject.beyond]
    if not asked or any(kind != "branch" for kind in asked):
        return None
    failed = {f"given {case.name}": dict(case.feeds) for case in beyond}
    merged = recipes.with_branches_on(plain, failed, report.escapes)
    return None if merged is None else replace(merged, promise=Promise.NONE)
