"""Contents of the report of an export, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from ..findings import CHECKED, OPEN, Finding, by_level
from ..ir.escapes import Escape
from ..text import first_few
from .sections import Calls, Checks, File, Strategy, remarks

SCHEMA = 2


@dataclass
class ReportData:
    """Findings and results of one export."""

    name: str = "model"
    file: File = field(default_factory=File)
    calls: Calls = field(default_factory=Calls)
    checks: Checks = field(default_factory=Checks)
    escapes: list[Escape] = field(default_factory=list)
    messages: list[Finding] = field(default_factory=list)  # without those that escapes lead to
    changed_buffers: list[str] = field(default_factory=list)
    strategies: list[Strategy] = field(default_factory=list)  # in the order of the search
    timings: dict[str, float] = field(default_factory=dict)  # seconds by stage, of all strategies
    spent: str = ""  # runs of the model, of those that the effort allows
    failed: str = ""  # the error that ended the export without a file
    command: str = ""  # the command line that asked for it

    opset = property(attrgetter("file.opset"))
    path = property(attrgetter("file.path"))
    data_path = property(attrgetter("file.data_path"))
    size = property(attrgetter("file.size"))
    nodes = property(attrgetter("file.nodes"))
    initializers = property(attrgetter("file.initializers"))
    inputs = property(attrgetter("file.inputs"))
    outputs = property(attrgetter("file.outputs"))
    packs = property(attrgetter("file.packs"))
    converters = property(attrgetter("calls.converters"))
    declined = property(attrgetter("calls.declined"))
    missing = property(attrgetter("calls.missing"))
    proof = property(attrgetter("checks.proof"))
    promised = property(attrgetter("checks.promised"))
    node_table = property(attrgetter("checks.node_table"))
    baked = property(attrgetter("checks.baked"))
    why = property(attrgetter("checks.why"))

    @property
    def covered(self) -> bool:
        return not self.missing

    @property
    def notes(self) -> list[str]:
        """Texts of all findings that do not come from a value that left the graph."""
        return [each.text for each in self.messages]

    @property
    def findings(self) -> list[Finding]:
        """Findings for the user, open ones first."""
        proved = self.proof is not None and self.proof.ok
        found = [escape.finding(proved) for escape in self.escapes]
        found += [
            Finding(OPEN, f"a size is baked in: {text}", hint="compute it from x.shape")
            for text in self.baked
        ]
        found += self.messages
        found += remarks(self.proof) if proved else []
        if self.changed_buffers:
            names = first_few(self.changed_buffers)
            found.append(
                Finding(CHECKED, f"the model changes {names}; the graph does not keep that")
            )
        return by_level(found)

    @property
    def state(self) -> str:
        """Outcome: missing, wrong, failed, unverified or verified."""
        if self.missing:
            return "missing"
        if self.proof is not None and self.proof.wrong:
            return "wrong"
        if self.failed:
            return "failed"
        return "verified" if self.proof is not None and self.proof.ok else "unverified"

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "name": self.name,
            "state": self.state,
            "path": self.path,
            "data_path": self.data_path,
            "opset": self.opset,
            "nodes": self.nodes,
            "initializers": self.initializers,
            "size": self.size,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "proposed": self.file.proposed,
            "converters": self.converters,
            "packs": self.packs,
            "declined": self.declined,
            "missing": [each.to_dict() for each in self.missing],
            "findings": [each.to_dict() for each in self.findings],
            "escapes": [each.to_dict() for each in self.escapes],
            "changed_buffers": self.changed_buffers,
            "promised": self.promised,
            "baked": self.baked,
            "why": self.why,
            "spent": self.spent,
            "failed": self.failed,
            "command": self.command,
            "strategies": [each.to_dict() for each in self.strategies],
            "timings": {k: round(v, 6) for k, v in self.timings.items()},
            "proof": None if self.proof is None else self.proof.to_dict(),
            "node_checks": None if self.node_table is None else self.node_table.to_dict(),
        }
