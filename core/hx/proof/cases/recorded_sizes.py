"""Cases at the recorded sizes: the recorded inputs, the user's own, and other values."""

from __future__ import annotations

import torch

from ...findings import CHECKED, OPEN, Finding
from ...samples.signs_and_scales import large, opposite, small, zeroed
from ...samples.variations import fresh, renumbered
from ..file_proof import Case
from ..subject import Subject
from .asking import case_of
from .case_source import Planned
from .saturation import unsaturated

Inputs = dict[str, torch.Tensor]


def recorded(subject: Subject, planned: Planned) -> list[Case]:
    """Return the case of the recorded inputs."""
    return [Case("recorded", dict(subject.recipe.inputs), subject.results)]


def also_proved(subject: Subject, planned: Planned) -> list[Case]:
    """Return cases of the user's own inputs, if the recording used other ones."""
    inputs = subject.recipe.also_proved
    return [Case(name, each, subject.runner.known_results(each)) for name, each in inputs.items()]


def other_values(subject: Subject, planned: Planned) -> list[Case]:
    """Return cases with other values, and with some that may lead the model elsewhere."""
    with planned.watch:
        return _other_values(subject, planned)


def _other_values(subject: Subject, planned: Planned) -> list[Case]:
    recorded = dict(subject.recipe.inputs)
    # Questions about sizes have the same answers for all values: they need no further inputs.
    escapes = [each for each in subject.escapes.values() if not each.by_sizes()]
    usual = {"fresh": fresh(recorded, seed=1)}
    extra: dict[str, Inputs] = {}  # inputs that a model may refuse
    if escapes or subject.trace.effects.compiled:
        # A number or a branch left the graph: other inputs may take another way.
        usual |= {f"fresh {n}": fresh(recorded, seed=n) for n in (2, 3, 4)}
        usual["opposite"] = {k: opposite(t) for k, t in recorded.items()}
        usual["small"] = {k: small(t) for k, t in recorded.items()}
        extra = renumbered(recorded)
        if any(each.by_values() for each in escapes):
            extra |= zeroed(recorded)
            extra["large"] = {k: large(t) for k, t in recorded.items()}
    cases: list[Case] = []
    notes: list[str] = []
    for name, tensors in (usual | extra).items():
        found, refused = case_of(subject, name, tensors)
        wide = name in ("opposite", "large")
        cases += unsaturated(subject, planned.exact, found) if wide else found
        notes += refused if name in usual else []
    if notes and not cases and (refused := case_of(subject, "recorded", recorded)[1]):
        # The model's calls have converters, but cannot run here.
        why = refused[0].partition(": ")[2]
        text = f"the model itself cannot be run: nothing but the recording was compared ({why})"
        subject.notes.insert(0, Finding(OPEN, text))
    else:
        subject.notes += [Finding(CHECKED, text) for text in notes]
    return cases
