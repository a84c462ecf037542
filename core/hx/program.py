"""The result of an export: the model, what happened, and how to run it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import save
from .errors import VerificationError
from .report import Report

if TYPE_CHECKING:
    import onnx_ir

    from .capture import Capture


class Program:
    """`model` is an onnx_ir.Model, `report` says what happened, `proof` how it was checked."""

    def __init__(self, model: onnx_ir.Model, report: Report, captured: Capture) -> None:
        self.model = model
        self.report = report
        self._captured = captured

    def __repr__(self) -> str:
        r = self.report
        place = r.path or "in memory"
        return f"<hx.Program {place}: {r.nodes} nodes, opset {r.opset}, {len(r.escapes)} escapes>"

    @property
    def proof(self) -> Any:
        return self.report.proof

    def write(
        self,
        path: str | os.PathLike | None,
        external: bool | None,
        verify: bool,
        tell: Callable[[str], None],
        prove: Callable,
    ) -> None:
        """Writes under another name, proves what was written, and only then takes the place."""
        import time

        report = self.report
        if path is None and not verify:
            return
        start = time.perf_counter()
        tell("save")
        with save.staged(self.model, path, external) as staged:
            report.timings["save"] = time.perf_counter() - start
            report.size = staged.size
            if verify:
                tell("verify")
                start = time.perf_counter()
                proof = prove(self._captured, staged.path)
                report.proof = proof
                report.timings["verify"] = time.perf_counter() - start
                if not proof.ok:
                    raise VerificationError(
                        proof.explain(),
                        proof=proof,
                        why=_why(self._captured, self.model, staged.path, proof, report),
                        hint="nothing was written; `hx scan` lists what left the graph",
                    )
            if path is not None:
                start = time.perf_counter()
                saved = staged.commit()
                report.timings["save"] += time.perf_counter() - start
                report.path = os.fspath(saved.path or path)
                report.size = saved.size
                report.data_path = None if saved.data_path is None else os.fspath(saved.data_path)

    def save(self, path: str | os.PathLike, external_data: bool | None = None) -> None:
        """Writes the model to a file, whole or not at all."""
        saved = save.save(self.model, path, external_data)
        self.report.path, self.report.size = os.fspath(saved.path or path), saved.size


def _why(captured: Capture, model: Any, path: Any, proof: Any, report: Report) -> str:
    """Where it broke, what was baked in, and what left the graph."""
    from .locate import locate

    wrong = next((check.name for check in proof.cases if not check.ok), None)
    case = next((case for case in captured.cases if case.name == wrong), None)
    lines = [] if case is None else locate(captured, model, path, case)
    suspects = _suspects(report)
    return "\n         ".join([*lines, *([suspects] if suspects else [])])


def _suspects(report: Report) -> str:
    if not report.escapes:
        return ""
    first = "; ".join(map(str, report.escapes[:3]))
    return f"values left the graph, and what Python did with them is not in it: {first}"
