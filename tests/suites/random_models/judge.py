"""What comes of the export of a drawn model: its file beside the model, at many sizes."""

from __future__ import annotations

import dataclasses
import random
import re
import warnings
from typing import Any

import torch

from hx import HxError, runtime
from hx.proof.differences import compare, halves
from hx.proof.sessions import open_file
from hx.samples import variations
from hx.saving import model_file

from ..attempt import copied, first_line, flat, unsayable
from .model import Model

BAD = ("crashed", "wrong")

# Given nothing, onnxruntime returns garbage or stops.
NOT_EMPTY = {"MatMul", "Gemm", "ReduceMean", "ReduceMax", "ReduceMin", "AveragePool", "MaxPool", "Conv",
             "ConvTranspose", "GlobalAveragePool", "Einsum", "LayerNormalization", "Resize", "Scan",
             "Mod", "TopK", "Split", "Attention",
             "BatchNormalization", "InstanceNormalization"}  # fmt: skip


@dataclasses.dataclass
class Outcome:
    kind: str
    detail: str = ""
    at: str = ""

    @property
    def key(self) -> str:
        """Alike for faults of one kind, whatever names and numbers are in them."""
        return (
            self.kind + ": " + re.sub(r"[\d.e+-]*\d|'[^']*'|v\d+|\[[^]]*\]", "#", self.detail)[:70]
        )


def check(model: Model, prove: bool = False, only: str = "") -> Outcome:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return _check(model, prove, only)


def _check(model: Model, prove: bool, only: str) -> Outcome:
    import hx

    try:
        module = model.made()
        recorded = model.tensors(model.sizes(), 0)
        before = [t.clone() for t in recorded.values()]
        expected = flat(module(*copied(tuple(recorded.values()))))
    except Exception as error:  # the drawn code's own: it may raise anything
        return Outcome("excluded", f"PyTorch itself refuses: {first_line(error)}")
    reason = unsayable(list(recorded.values()), expected, "hx")
    if reason:
        return Outcome("excluded", reason)
    try:
        program = hx.export(
            module, tuple(recorded.values()), dynamic=model.dynamic or None, opset=model.opset,
            verify=prove,
        )  # fmt: skip
    except HxError as error:
        kind = "refused"
        if isinstance(error, (hx.ConverterError, hx.VerificationError)):
            kind = "crashed" if isinstance(error, hx.ConverterError) else "wrong"
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, hx.VerificationError) and _of_nothing(model, str(error)):
            kind = "refused"
        elif isinstance(error, hx.VerificationError):
            tensors = tuple(recorded.values())
            escapes = hx.scan(module, tensors, dynamic=model.dynamic or None).escapes
            kind = "told" if escapes else kind
        return Outcome(kind, text)
    except Exception as error:  # whatever is no error of hx's is a fault: told, and counted
        return Outcome("crashed", f"{type(error).__name__}: {error}")
    if not all(torch.equal(a, b) for a, b in zip(recorded.values(), before)):
        return Outcome("crashed", "the export wrote to the caller's tensors")
    data = _bytes(program.model)
    names = [value.name for value in program.model.graph.inputs]
    nodes = list(program.model.graph.all_nodes())
    try:
        session = runtime.Session(data)
    except runtime.Refused as error:
        return Outcome("crashed", f"does not load: {error}", "load")
    depth, coarse = (
        open_file.depth(model_file.skeleton(data)),
        halves.passed(model_file.skeleton(data)),
    )
    in_halves = [value.name in coarse for value in program.model.graph.outputs]
    for sizes, seed in trials(model):
        told = ", ".join(f"{k}={v}" for k, v in sizes.items()) + f" #{seed}"
        if only and told != only:
            continue
        tensors = model.tensors(sizes, seed)
        try:
            with halves.Watch() as seen:
                expected = flat(module(*copied(tuple(tensors.values()))))
        except Exception:
            continue  # not a size for this model
        used = {node.op_type for node in nodes}
        if 0 in sizes.values() and (used & NOT_EMPTY or (model.opset == 13 and "Reshape" in used)):
            continue
        wanted = {v.name for v in session._session.get_inputs()}
        feeds = {k: v for k, v in zip(names, tensors.values()) if k in wanted}
        changed = bool(program.report.escapes) and seed > 0
        try:
            found = session.run(feeds)
        except runtime.Refused as error:
            if _of_nothing(model, str(error)):
                continue
            return Outcome("told" if changed else "crashed", f"does not run: {error}", told)
        computed = [seen.dtype if half else None for half in in_halves]
        detail = _differs(found, expected, depth, computed)
        if detail:
            if changed:
                return Outcome("told", str(program.report.escapes[0]), told)
            if _shaky(module, tensors, found, expected):
                return Outcome("shaky", detail, told)
            return Outcome("wrong", detail, told)
    return Outcome("right")


def _of_nothing(model: Model, error: str) -> bool:
    """What cannot be said of tensors without elements: by a Reshape-13, or to onnxruntime."""
    unsayable = "dimension with value zero" in error or ("Input shape:{" in error and "0" in re.findall(
        r"\d+", error.partition("Input shape:{")[2].partition("}")[0]
    ))  # fmt: skip
    return (
        (model.opset == 13 and unsayable)
        or "modulo by zero" in error
        or "Only N can be zero" in error
    )


def _bytes(model: Any) -> bytes:
    import onnx_ir

    return onnx_ir.to_proto(model).SerializeToString()


def trials(model: Model):
    """Sizes to compare at, and a seed for the contents: the recorded ones first."""
    recorded = model.sizes()
    yield recorded, 0
    yield recorded, 1
    words = list(recorded)
    if not words:
        return
    r = random.Random(model.seed)
    yield {w: n + 1 + i % 2 for i, (w, n) in enumerate(recorded.items())}, 2
    for number, word in enumerate(words):
        yield {**recorded, word: 1}, 3 + number
    for number in range(3):
        yield {w: r.choice([1, 2, 3, 4, 5, 8, 10, 11]) for w in words}, 6 + number
    for word in words:
        yield {**recorded, word: 0}, 9


def _differs(found: list, expected: list, depth: int, computed: list) -> str:
    """`computed` is for each output the half float that its numbers went through, if any."""
    if len(found) != len(expected):
        return f"{len(found)} outputs for {len(expected)}"
    for place, (mine, real, half) in enumerate(zip(found, expected, computed)):
        dtype = compare.coarser(real.dtype, half)
        allowed = compare.Tolerance.for_dtype(dtype, depth)
        if real.is_floating_point():
            loose = {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(dtype, 1e-4)
            allowed = dataclasses.replace(allowed, share=max(allowed.share, loose), floor=1e-5)
        off = compare.difference(mine, real, allowed)
        if off.problem:
            return f"output {place}: {off.problem}; {off.got} for {off.want} at {off.worst}"
    return ""


def _shaky(module, tensors, found: list, expected: list) -> bool:
    """Whether the model's own answers move as much when its inputs move by a rounding.

    Also when it is worked out in double precision: then PyTorch's own answer is one of several.
    """
    for seed in range(8):
        moved = variations.jitter(list(tensors.values()), seed)
        if seed == 7:
            moved = [t.double() if t.dtype == torch.float32 else t for t in tensors.values()]
        try:
            other = flat(module(*copied(tuple(moved))))
        except Exception:
            continue
        if [t.shape for t in other] != [t.shape for t in expected]:
            return True
        for mine, real, near in zip(found, expected, other):
            if mine.shape != real.shape or mine.dtype != real.dtype:
                return False
            near = near.to(real.dtype)
            if not torch.allclose(near.double(), real.double(), 1e-5, 1e-6, equal_nan=True):
                if not torch.allclose(mine.double(), real.double(), 1e-5, 1e-6, equal_nan=True):
                    return True
    return False
