"""Check of a file against its certificate, in onnxruntime and numpy alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hx.errors import CertificateError
from hx.proof.certificates.fingerprint import changes
from hx.proof.certificates.packed_arrays import unpacked
from hx.proof.certificates.sealing import Document
from hx.runtime import Refused, Session


@dataclass
class OutputAgain:
    """Comparison of one output with the certificate; `problem` is empty if it is right."""

    name: str
    problem: str = ""
    error: float = 0.0
    limit: float = 0.0
    size: float = 0.0  # the largest expected value
    sampled: bool = False  # only a sample of the elements is known


@dataclass
class CaseAgain:
    """Comparison of the file's results on the inputs of one case."""

    name: str
    outputs: list[OutputAgain] = field(default_factory=list)
    problem: str = ""  # why the file does not run on these inputs

    @property
    def ok(self) -> bool:
        return not self.problem and not any(output.problem for output in self.outputs)


@dataclass
class Recheck:
    """Result of a check: changed files, and the cases."""

    changed: list[str] = field(default_factory=list)
    problem: str = ""  # why the file cannot be loaded
    cases: list[CaseAgain] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        compared = bool(self.cases) and all(case.ok for case in self.cases)
        return compared and not self.changed and not self.problem

    @property
    def worst(self) -> OutputAgain | None:
        """Output that uses the largest share of its limit."""
        outputs = [output for case in self.cases for output in case.outputs if output.limit]
        return max(outputs, key=lambda output: output.error / output.limit, default=None)

    def to_dict(self) -> dict[str, Any]:
        cases = [{**asdict(case), "ok": case.ok} for case in self.cases]
        return {"changed": self.changed, "problem": self.problem, "cases": cases}


def recheck(
    document: Document, file: Path, tell: Callable[[str], None] = lambda stage: None
) -> Recheck:
    """Compare a file with its certificate: the bytes, and the results on the stored inputs."""
    try:
        tell("reading the file")
        found = Recheck(changes(document["file"], file))
        tell("loading the file")
        try:
            session = Session(file, optimized=document["optimised"])
        except Refused as refused:
            found.problem = str(refused)
            return found
        for place, case in enumerate(document["cases"], 1):
            tell(f"comparing results, {place} of {len(document['cases'])}")
            found.cases.append(_case(case, session))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as problem:
        raise CertificateError(
            "the certificate does not hold what it should",
            why=f"{type(problem).__name__}: {problem}",
            hint="export the model again with --certificate",
        ) from None
    return found


def _case(case: Document, session: Session) -> CaseAgain:
    found = CaseAgain(case["name"])
    try:
        results = session.run_arrays({k: unpacked(v) for k, v in case["inputs"].items()})
    except Refused as refused:
        found.problem = str(refused)
        return found
    if len(results) != len(case["outputs"]):
        found.problem = f"the file has {len(results)} outputs, not {len(case['outputs'])}"
        return found
    found.outputs = [_output(said, got) for said, got in zip(case["outputs"], results)]
    return found


def _output(said: Document, got: np.ndarray) -> OutputAgain:
    found = OutputAgain(said["name"])
    shape = tuple(said["shape"])  # of random results, only the rank is known
    if got.dtype.name != said["dtype"]:
        found.problem = f"the dtype is {got.dtype.name}, not {said['dtype']}"
    elif got.ndim != len(shape) or ("values" in said and got.shape != shape):
        found.problem = f"the shape is {list(got.shape)}, not {list(shape)}"
    if found.problem or "values" not in said:
        return found
    want, ours = unpacked(said["values"]), got.reshape(-1)
    if "places" in said:
        found.sampled = True
        ours = ours[unpacked(said["places"])]
    if want.size != ours.size:
        raise ValueError(f"{want.size} values are stored for {ours.size} elements")
    if "limit" not in said:
        wrong = int((ours != want).sum())
        found.problem = f"{wrong} of {want.size} elements differ" if wrong else ""
        return found
    return _floats(found, said, ours.astype(np.float64), want.astype(np.float64))


def _floats(found: OutputAgain, said: Document, ours: np.ndarray, want: np.ndarray) -> OutputAgain:
    finite = np.isfinite(ours) & np.isfinite(want)
    same = finite | (ours == want) | (np.isnan(ours) & np.isnan(want))
    if not same.all():
        found.problem = "NaN or infinite values stand at other places"
        return found
    ours, want = ours[finite], want[finite]
    if not want.size:
        return found
    off = np.abs(ours - want)
    found.error, found.limit = float(off.max()), float(said["limit"])
    found.size = float(np.abs(want).max())
    if not found.error <= found.limit:
        found.problem = f"error {found.error:.1e} (limit {found.limit:.1e})"
    elif "mean_limit" in said:
        mean = math.sqrt(float(np.square(off).mean()))
        if not mean <= float(said["mean_limit"]):
            found.problem = f"mean error {mean:.1e} (limit {said['mean_limit']:.1e})"
    return found
