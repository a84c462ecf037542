"""Certificate of a proof: the cases that were compared, within a limit of bytes.

A case is stored if it was compared in the usual way, or with the model in float64. Cases that were
accepted on other evidence need the model, so they are counted only. Imports torch: import it late.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import torch

from hx import tensor_bytes
from hx.budget import BUDGET
from hx.errors import UsageError
from hx.proof.certificates.fingerprint import fingerprint
from hx.proof.certificates.packed_arrays import packed
from hx.proof.certificates.sealing import Document
from hx.proof.declared import Sizes
from hx.proof.differences.allowance import longest_reduction
from hx.proof.differences.compare import NEAR, Tolerance, rounding
from hx.proof.file_proof import Case, graph_tensor
from hx.proof.proof import CaseCheck, OutputCheck, Proof
from hx.proof.random.randomness import drawn
from hx.proof.sessions.open_file import uses_kernel
from hx.saving import model_file

BY_MODEL, BY_FLOAT64, RANK = "model", "model in float64", "dtype and rank"


def certificate(
    cases: Sequence[Case], proof: Proof, file: Path, about: Document, kernels: Sequence[type] = ()
) -> Document:
    """Return what a proof compared, as data; `about` is stored with it."""
    model = model_file.skeleton(file)
    lacking = [op for op in kernels if uses_kernel(op, model)]
    if lacking:
        names = ", ".join(sorted(f"{op.op_domain}::{op.__name__}" for op in lacking))  # type: ignore[attr-defined]
        raise UsageError(
            f"no certificate: onnxruntime has no kernel for {names}",
            why="a certificate is checked in onnxruntime alone",
            hint="hx verify FILE SPEC compares the file with the model",
        )
    chance = drawn(model)
    left_out: Counter[str] = Counter()
    fit: dict[int, tuple[Case, CaseCheck]] = {}
    for i, (case, check) in enumerate(zip(cases, proof.cases)):
        why = _why_unfit(case, check)
        left_out.update([why] if why else [])
        if not why:
            fit[i] = case, check
    # The recorded inputs in any case, then as many others as there is room for.
    order = sorted(fit, key=lambda i: (i > 0, _size(*fit[i])))
    room = BUDGET.bytes.certificate
    stored: dict[int, Document] = {}
    for i in order:
        size = _size(*fit[i])
        if stored and size > room:
            left_out["beyond the size of a certificate"] += 1
            continue
        room -= size
        stored[i] = _stored(*fit[i], model, chance, i)
    if not any(o["compared"] != RANK for case in stored.values() for o in case["outputs"]):
        raise UsageError(
            "no certificate: nothing can be compared without the model",
            why=", ".join(f"{n} input sets {why}" for why, n in left_out.items())
            or "all outputs are random",
            hint="hx verify FILE SPEC compares the file with the model",
        )
    return {
        **about,
        "file": {"name": file.name, **fingerprint(file)},
        "optimised": not proof.plain,
        "sizes": {name: list(ends) for name, ends in proof.sizes.items()},
        "left_out": dict(left_out),
        "cases": [stored[i] for i in sorted(stored)],
    }


def _why_unfit(case: Case, check: CaseCheck) -> str:
    """Return why a case cannot be compared without the model, or ""."""
    if check.outside:
        return "outside of the promised sizes"
    if check.by_runtime:
        return "accepted, because only the runtime differs"
    if check.by_parts or not check.equal:
        return "accepted part by part"
    for i, output in enumerate(check.outputs):
        exact = case.exact[i] if output.as_near else None
        if exact is not None:
            if not (exact.isfinite().all() and graph_tensor(case.expected[i]).isfinite().all()):
                return "with infinite values in float64"
    return ""


def _size(case: Case, check: CaseCheck) -> int:
    """Return the bytes that a case takes before compression."""
    inputs = sum(t.numel() * t.element_size() for t in map(graph_tensor, case.feeds.values()))
    return inputs + sum(8 * _kept(math.prod(output.shape)) for output in check.outputs)


def _kept(count: int) -> int:
    return min(count, BUDGET.elements.certified)


def _stored(
    case: Case, check: CaseCheck, model: onnx.ModelProto, chance: set[str], seed: int
) -> Document:
    feeds = {name: graph_tensor(value) for name, value in case.feeds.items()}
    sizes = Sizes()
    for value in model.graph.input:
        if value.name in feeds:
            sizes.check(value.name, value, feeds[value.name].shape)
    outputs = []
    for i, output in enumerate(check.outputs):
        about = {"name": output.name, "dtype": output.dtype, "shape": output.shape}
        if output.random or output.name in chance:
            outputs.append({**about, "compared": RANK})
            continue
        longest = longest_reduction(model, sizes.values) if output.as_near else 1
        outputs.append({**about, **_expected(case, i, output, longest, seed)})
    return {
        "name": check.name,
        "inputs": {name: packed(tensor_bytes.as_numpy(t)) for name, t in feeds.items()},
        "outputs": outputs,
    }


def _expected(case: Case, i: int, output: OutputCheck, longest: int, seed: int) -> Document:
    """Return the expected values of one output, all or a sample, and how far others may be off."""
    want = graph_tensor(case.expected[i])
    if not hasattr(case.expected[i], "dtype"):  # a Python number has a kind and no width
        want = want.to(getattr(torch, output.dtype))
    limits: dict[str, float] = {}
    values, compared = want, BY_MODEL
    if want.dtype.is_floating_point:
        finite = want.double()[want.isfinite()]
        size = float(finite.abs().max()) if finite.numel() else 0.0
        exact = case.exact[i] if output.as_near else None
        if exact is not None:  # it is, for one that is accepted as near to it
            values, compared = exact.double(), BY_FLOAT64
            theirs = float((want.double() - values).abs().max())
            limits["limit"] = max(NEAR * theirs, math.sqrt(longest) * rounding(want.dtype) * size)
        else:
            noise = case.noise[i] if case.noise else 0.0
            tolerance = Tolerance.for_dtype(want.dtype, noise=noise)
            slack = tolerance.floor + tolerance.noise
            share = max(output.allowed - slack / size, 0.0) if size else 0.0
            rms = math.sqrt(float(finite.square().mean())) if size else 0.0
            limits["limit"] = max(output.allowed * size, slack)
            limits["mean_limit"] = share / 4 * rms + slack
    flat = tensor_bytes.as_numpy(values.contiguous()).reshape(-1)
    if flat.size <= BUDGET.elements.certified:
        return {"compared": compared, **limits, "values": packed(flat)}
    limits.pop("mean_limit", None)  # a sample may have another mean
    draw = np.random.default_rng([seed, i])
    places = np.sort(draw.choice(flat.size, BUDGET.elements.certified, replace=False))
    sample = {"places": packed(places.astype(np.int64)), "values": packed(flat[places])}
    return {"compared": compared, **limits, **sample}


def describe(document: Document) -> str:
    """Return in a few words how much a certificate holds."""
    stored, rest = len(document["cases"]), sum(document["left_out"].values())
    return f"{stored} of {stored + rest} input sets"
