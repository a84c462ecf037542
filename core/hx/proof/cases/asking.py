"""What the model itself gives for other inputs, left as it was."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import torch

from ...errors import HxError
from ...recording import layers, outside, torchscript
from ...recording.capture import Capture, called, without_weights
from ...recording.standin import on_the_cpu
from ...sizes.asked import At
from ...surely import inside
from ...tensors import structures
from ...weights.blend import Filled, OnTheCPU
from ...world import modes
from ...world.modelstate import preserved
from ..room import too_large
from ..verify import Case
from .longest import as_were_recorded
from .patience import Endless, patience
from .work import Work


def run(captured: Capture, tensors: dict[str, torch.Tensor], seed: int | None = None) -> list[Any]:
    """The model's own flat outputs on other inputs, leaving it as it was."""

    if tensors.keys() - captured.prepared.tensors.keys() or any(
        tensor is not captured.prepared.tensors[name] for name, tensor in tensors.items()
    ):
        of_the_copy(captured, tensors, seed)

    def answer() -> list[Any]:
        if seed is not None:
            torch.random.default_generator.manual_seed(seed)
        return once(captured, tensors)

    # Nothing sees the writes of this run: what the recording saw being written is copied.
    guard = preserved(captured.prepared.root, captured.touched)
    guard.draws.seen = captured.drew
    return inside(
        without_weights(captured.prepared),
        lambda _: inside(guard, lambda _: put_back(captured, answer)),
    )


def what_runs(captured: Capture) -> set[CodeType]:
    """The code that runs when the model is called: its own, and that of its libraries."""
    found: set[CodeType] = set()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: found.add(frame.f_code) if event == "call" else None)
    try:
        run(captured, dict(captured.prepared.tensors))
    except HxError:
        raise
    except (Exception, Endless):  # the model's own: nothing is known then
        return set()
    finally:
        sys.setprofile(before)
    return {code for code in found if not captured.recording.frames.machinery(code)}


def of_the_copy(
    captured: Capture, tensors: dict[str, torch.Tensor], seed: int | None = None
) -> list[Any] | None:
    """What a copy on the CPU gives of a model on a GPU, or raises; nothing where there is none."""
    there = captured.prepared.stand_ins.of(captured.prepared)
    if there is None:
        return None
    try:
        copied = dataclasses.replace(captured, prepared=there)
        return run(copied, on_the_cpu(tensors), seed)
    except Endless:
        return None  # a CPU is slow


def put_back(captured: Capture, function: Callable[[], Any]) -> Any:
    """What a function gives, with what scripts set as it was."""
    return inside(torchscript.as_it_was(captured.set_by_scripts), lambda _: function())


TIMES = 8  # as many numbers as come out of the recording, for a case
FEW = 1 << 26  # numbers that are compared while one waits
LARGER = 4  # times as large are numbers that are not as the recorded ones


def case_of(
    captured: Capture, name: str, tensors: dict[str, torch.Tensor], again: bool = True
) -> tuple[list[Case], list[str]]:
    """The model's own answer as a case; or no case, and a note that the model refuses.

    Before that is said it is asked `again`, with lengths that are more like the recorded ones.

    Or that far more comes out than did before, where what is in the inputs says how much that is:
    to compute and compare it again and again is no proof of anything else.
    """
    if room := too_much(captured, tensors):
        return [], [f"not run on {name} inputs: it may take {room / 1e9:.0f} GB of memory"]
    try:
        results = run(captured, tensors)
    except Endless:
        captured.endless = True
        captured.notes.append(f"not compared on {name} inputs: the model was not through in time")
        return [], []
    except HxError:
        raise
    except Exception as e:  # the model's own, at a size that it does not take
        others = as_were_recorded(captured.prepared.tensors, tensors) if again else None
        found = case_of(captured, name, others, again=False)[0] if others else []
        if found:
            return found, []
        first = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
        return [], [f"the model itself refuses {name} inputs: {first}"]
    count = _numbers(results)
    if count > max(TIMES * _numbers(captured.real), FEW):
        return [], [f"not compared at {name}: {count / 1e6:.0f} million numbers come out"]
    return [Case(name, tensors, results)], []


def too_much(captured: Capture, tensors: dict[str, torch.Tensor]) -> float:
    """The bytes that may come of larger numbers, where sizes are read from these, and there is no room
    for so many; else 0."""
    reads = any(each.kind in ("item", "tolist") for each in captured.recording.escapes.values())
    if not reads:
        return 0
    times = max((_largest(t) / (_largest(captured.prepared.tensors[k]) or 1)
                 for k, t in tensors.items() if k in captured.prepared.tensors), default=1)  # fmt: skip
    if times <= LARGER:
        return 0
    room = Work(captured.recording.builder.nodes).memory(At({}), times)
    return room if too_large(room) else 0


def _largest(tensor: torch.Tensor) -> float:
    if not tensor.numel() or tensor.is_complex() or tensor.is_meta:
        return 0
    return float(tensor.detach().double().abs().nan_to_num(0, 0, 0).max())


def _numbers(results: Sequence[Any]) -> int:
    return sum(x.numel() for x in results if isinstance(x, torch.Tensor))


def once(captured: Capture, tensors: dict[str, torch.Tensor]) -> list[Any]:
    """The same, of a model whose weights are there: those elsewhere are read as operators ask."""
    slim = captured.prepared.slim
    if slim is None or not slim.absent:
        return _called(captured, tensors)
    with Filled(slim) as filled, OnTheCPU(filled):
        return [
            torch.ops.aten.clone(leaf) if isinstance(leaf, torch.Tensor) else leaf
            for leaf in _called(captured, tensors)
        ]


def _called(captured: Capture, tensors: dict[str, torch.Tensor]) -> list[Any]:
    prepared, root = captured.prepared, captured.prepared.root
    copies = {k: t.detach().clone() for k, t in tensors.items()}
    args, kwargs = prepared.with_tensors(copies)
    asked: dict[str, Any] = {}
    torch._C._set_grad_enabled(False)  # the guard puts back this, and the hooks
    if captured.drew_outside:
        captured.runs += 1
        outside.stir(captured.runs)
    for path in captured.wanted or ():
        root.get_submodule(path).register_forward_hook(
            lambda m, i, o, path=path: asked.__setitem__(
                path,
                structures.replace(o, lambda n, t: t.clone() if isinstance(t, torch.Tensor) else t),
            )
        )
    with patience(captured):
        result = modes.theirs(lambda: called(prepared.model, args, kwargs))
    if captured.wanted:
        layers.require_run(captured.wanted, asked)
        result = {path: asked[path] for path in captured.wanted}
    return [
        leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf
        for _, leaf in structures.leaves(result)
        if isinstance(leaf, (torch.Tensor, bool, int, float))
    ]
