"""Random numbers in a proof: the file gets those that the model drew, and is held to its results.

No two runs agree on what they draw. So the model is recorded once more on the inputs of a case, and
what it drew there goes into a copy of the file, in place of what that would draw: what it computes
from these numbers can be compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import HxError
from ..runtime import Refused
from ..saving.claims import Hidden
from ..surely import inside
from .nodes import BUDGET, Kept, again
from .proof import CaseCheck
from .randomness import given
from .verify import Case, prove

if TYPE_CHECKING:
    from ..recording.capture import Capture

LARGEST = 1 << 29  # bytes of a file that is copied in memory
DRAWN = "::drawn"  # what the file itself draws, and gives back as it is


def checked(
    captured: Capture, path: Path, target: Path, case: Case, custom_ops: Sequence[Any]
) -> CaseCheck | None:
    """What is seen of a case with the model's own draws; None where they are not all known."""
    import onnx

    from ..tensors import dtypes

    if path.stat().st_size > LARGEST or captured.prepared.slim is not None:
        return None
    kept = Kept(BUDGET, 0)
    try:
        recorded, _, names = again(captured, case, kept)
    except (HxError, Refused):  # what is not recorded again proves nothing
        return None
    if kept.size > BUDGET or kept.unseen:
        return None
    model = onnx.load(path, load_external_data=False)
    values = {names[id(v)]: tensor for v, tensor in kept.pairs if id(v) in names}
    draws = given(model, values.keys())
    if not draws:
        return None
    for node in model.graph.node:
        node.output[:] = [name + DRAWN if name in draws else name for name in node.output]
    for output in model.graph.output:
        output.name += DRAWN if output.name in draws else ""
    known = [info for info in model.graph.value_info if info.name not in draws]
    del model.graph.value_info[:]
    model.graph.value_info.extend(known)
    model.graph.input.extend(
        onnx.helper.make_tensor_value_info(name, dtypes.number(values[name].dtype), None)
        for name in sorted(draws)
    )
    feeds = {**case.feeds, **{name: values[name] for name in sorted(draws)}}
    theirs = dataclasses.replace(case, feeds=feeds, expected=recorded.real, noise=(), exact=())

    def run(hidden: Hidden) -> list[CaseCheck]:
        copy = hidden.create(target).path
        copy.write_bytes(model.SerializeToString())
        return prove(copy, [theirs], checker=False, custom_ops=custom_ops).cases

    found = next(iter(inside(Hidden(), run)), None)
    if found is not None:
        found.same_draws = any(not output.random for output in found.outputs)
        for output in found.outputs:
            output.name = output.name.removesuffix(DRAWN)
    return found
