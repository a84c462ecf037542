"""One model: its export, the mistakes that change its results, and what the proof says to each."""

from __future__ import annotations

import random
import tempfile
import time
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from .brute_force import Probe, Probes, at_other_sizes, seen, session
from .graph_places import Seen
from .kinds import FAR, KINDS
from .mistakes import Mistake
from .real_models import model as listed
from .subject import Planted

TRIED = 4  # mistakes tried for one that changes results
COUNTED = ("found", "excluded", "missed")


@dataclass
class Correct:
    """A correct file: the program that it belongs to, inputs with its results, its values."""

    program: Any
    file: onnx.ModelProto
    probes: Probes
    seen: Seen

    @classmethod
    def of(cls, name: str, planted: Planted, folder: Path) -> Correct:
        model, path = planted.make(), folder / "correct.onnx"
        program = _exported(planted, model, path)
        file = onnx.load(path)
        probes = Probes.of(name, planted, model, file)
        promised = program._subject.promised
        probes.right = [probe for probe in probes.right if _is_within(probe, promised)]
        if not probes.right:
            raise RuntimeError(f"{name}: the model and the file take no inputs")
        return cls(program, file, probes, seen(file, list(at_other_sizes(probes.right))))


def measure(name: str, kinds: Sequence[str], each: int, only: str = "") -> dict[str, Any]:
    """Return what came of the export of a model, and the verdict on each planted mistake."""
    import torch

    import hx

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    start = time.perf_counter()
    planted = listed(name)
    out: dict[str, Any] = {"model": name, "real": planted.real, "mistakes": [], "apart": []}
    with tempfile.TemporaryDirectory(prefix="hx-planted-") as folder:
        try:
            correct = Correct.of(name, planted, Path(folder))
        except hx.HxError as error:
            return {**out, "export": f"{type(error).__name__}: {str(error)[:500]}"}
        report = correct.program.report
        out |= {"export": "ok", "promised": report.promised, "apart": correct.probes.apart}
        out["proof"] = round(report.timings["verify"], 3)
        rows = out["mistakes"]
        for mistake in _shuffled(name, correct, kinds, only):
            alike = [row["verdict"] for row in rows if row["kind"] == mistake.kind]
            counted = sum(verdict in COUNTED for verdict in alike)
            if counted < each and len(alike) < each * TRIED:
                row = _judged(correct, mistake, Path(folder, "planted.onnx"))
                rows.append({"kind": mistake.kind, "mistake": mistake.name, **row})
    out["seconds"] = round(time.perf_counter() - start, 2)
    return out


def _exported(planted: Planted, model: Any, path: Path) -> Any:
    import hx

    from ..attempt import _registry

    args, kwargs = planted.called(planted.recorded())
    return hx.export(
        model, args, path, kwargs=kwargs, dynamic=planted.dynamic, input_names=list(planted.inputs),
        packs=_registry(*planted.packs), external_data=False,
    )  # fmt: skip


def _shuffled(name: str, correct: Correct, kinds: Sequence[str], only: str) -> Iterator[Mistake]:
    """Yield the mistakes of each kind in an order that follows from the name of the model."""
    for kind in kinds:
        found = [
            each for each in KINDS[kind](correct.file, correct.seen) if only in ("", each.name)
        ]
        random.Random(zlib.crc32(f"{name}/{kind}".encode())).shuffle(found)
        yield from found


def _judged(correct: Correct, mistake: Mistake, path: Path) -> dict[str, Any]:
    """Prove the file with the mistake in the place of the program's own."""
    from hx.proof.proving import prove_program
    from hx.proof.subject import Subject

    program, probes = correct.program, correct.probes
    mutated = mistake.planted(correct.file)
    try:
        loaded = session(mutated)
    except Exception:  # onnxruntime's errors share no base
        return {"verdict": "does not run"}
    differing = probes.that_differ(loaded, far=mistake.kind in FAR)
    first = next(differing, None)
    if first is None:
        return {"verdict": "no difference"}
    if not probes.run_with(loaded):
        return {"verdict": "does not run"}
    path.write_bytes(mutated.SerializeToString())
    start = time.perf_counter()
    subject = Subject.of(program._trace, program._subject.recorder)
    proof = prove_program(subject, path, path, program._kernels)
    row: dict[str, Any] = {"seconds": round(time.perf_counter() - start, 3)}
    if not proof.ok:
        wrong = [check.name for check in proof.cases if not check.ok]
        return {**row, "verdict": "found", "by": wrong[:1] or ["checker"]}
    promised = subject.promised
    within = [str(each) for each in (first, *differing) if _is_within(each, promised)]
    if not within:
        said = ", ".join(limit.briefly(word) for word, limit in promised.items())
        return {**row, "verdict": "excluded", "by": [said]}
    accepted = [check.by_parts or check.by_runtime for check in proof.cases if not check.equal]
    cases = [check.name for check in proof.cases]
    return {**row, "verdict": "missed", "shows": within, "accepted": accepted, "cases": cases}


def _is_within(probe: Probe, promised: Any) -> bool:
    """Return True if the sizes of a probe are promised."""
    return all(word not in promised or promised[word].hold(n) for word, n in probe.sizes.items())
