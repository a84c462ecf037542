"""The other inputs that a model is recorded on, where it goes another way than it was recorded."""

from __future__ import annotations

import dataclasses

from ..errors import HxError
from ..recording.prepared import Prepared
from .variations import fresh, opposite, small

# Kinds of escapes with which a model may go another way.
ASKING = {"bool", "branch", "item", "is_nonzero"}
MOST = 24  # inputs that it is recorded on
LARGE = 1 << 28  # bytes of weights of a model that is not run so often


def ways(prepared: Prepared, failed: HxError) -> Prepared | None:
    """The same call, to be recorded at what the proof has failed on, too.

    And at variations of that: a model with two branches goes four ways.
    """
    kinds = {escape.kind for escape in failed.report.escapes} if failed.report else set()
    if not kinds & ASKING or prepared.slim is not None or prepared.given:
        return None
    most = MOST if prepared.size < LARGE else MOST // 4
    wrong = list(prepared.failed.values())[: most // 3]
    alike = []
    for inputs in wrong:
        alike.append({name: opposite(tensor) for name, tensor in inputs.items()})
        alike += [fresh(inputs, seed=seed) for seed in (21, 22)]
        alike.append({name: small(tensor) for name, tensor in inputs.items()})
    left = most - len(wrong)
    return dataclasses.replace(prepared, also=wrong, alike=alike[:left], one_of=True)
