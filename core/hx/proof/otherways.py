"""The other inputs that a model is recorded on, where it goes another way than it was recorded."""

from __future__ import annotations

import dataclasses

from ..errors import HxError
from ..recording.prepared import Prepared
from .variations import fresh, opposite, small

ASKING = {
    "bool",
    "branch",
    "item",
    "is_nonzero",
}  # kinds of escapes with which a model may go another way
MOST = 24  # inputs that it is recorded on


def ways(prepared: Prepared, failed: HxError) -> Prepared | None:
    """The same call, to be recorded at what the proof has failed on, too.

    And at variations of that: a model with two branches goes four ways.
    """
    kinds = {escape.kind for escape in failed.report.escapes} if failed.report else set()
    if not kinds & ASKING or prepared.slim is not None or prepared.given:
        return None
    wrong = list(prepared.failed.values())[: MOST // 3]
    also = list(wrong)
    for inputs in wrong:
        also.append({name: opposite(tensor) for name, tensor in inputs.items()})
        also += [fresh(inputs, seed=seed) for seed in (21, 22)]
        also.append({name: small(tensor) for name, tensor in inputs.items()})
    return dataclasses.replace(prepared, also=also[:MOST], one_of=True)
