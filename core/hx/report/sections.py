"""Parts of a report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ..findings import CHECKED, Finding, Missing
from ..proof.nodes import NodeTable
from ..proof.proof import Proof, inputs_of


@dataclass
class File:
    """Graph that was made, and the file that it was written to."""

    opset: int = 0
    path: str | None = None
    data_path: str | None = None
    size: int = 0  # in bytes
    nodes: int = 0
    initializers: int = 0
    sizes: dict[str, int] = field(default_factory=dict)  # dynamic ones, as recorded
    inputs: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[dict[str, Any]] = field(default_factory=list)
    packs: dict[str, int] = field(default_factory=dict)  # nodes by the pack that wrote them
    proposed: dict[str, dict[int, str]] | None = None  # sizes that `dynamic="auto"` found


@dataclass
class Calls:
    """Calls of the model, and the converters that answered them."""

    converters: dict[str, int] = field(default_factory=dict)
    declined: dict[str, int] = field(default_factory=dict)
    # Number of calls by pack and target; True: the converter declined.
    by_pack: dict[tuple[str, str, bool], int] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)
    installed: list[dict[str, str]] = field(default_factory=list)  # packs, also broken ones


@dataclass
class Checks:
    """Proof of the file, and its consequences."""

    proof: Proof | None = None
    promised: dict[str, str] = field(default_factory=dict)  # limits of sizes, by name
    node_table: NodeTable | None = None  # when every node was checked
    baked: list[str] = field(default_factory=list)  # constants that change with a dynamic size
    why: list[str] = field(default_factory=list)  # why the proof failed


@dataclass(frozen=True)
class Strategy:
    """One attempt to export the model: the strategy, its seconds, and its outcome in a few words."""

    name: str
    recording: float
    writing: float
    proof: float
    outcome: str

    @property
    def seconds(self) -> float:
        return self.recording + self.writing + self.proof

    def to_dict(self) -> dict[str, Any]:
        found = {"name": self.name, "seconds": self.seconds, **asdict(self)}
        return {k: round(v, 6) if isinstance(v, float) else v for k, v in found.items()}


def remarks(proof: Proof) -> list[Finding]:
    """List how a file was compared, where that differs from the usual comparison."""
    texts = [f"{name} is random: only its dtype and shape are compared" for name in proof.random]
    if any(case.same_draws for case in proof.cases):
        texts.append("compared on the random numbers that the model drew")
    if any(case.equal_draws for case in proof.cases):
        texts.append("compared on equal numbers in place of random ones")
    near: dict[str, float] = {}
    for output in (each for case in proof.cases for each in case.outputs if each.as_near):
        near[output.name] = max(output.max_rel, near.get(output.name, 0.0))
    texts += [
        f"{name} differs by {error:.0e}: it is as near to the model in float64 as the model itself"
        for name, error in near.items()
    ]
    texts += [
        f"{name} is {only} in all cases, which shows little: other inputs may show more"
        for name, only in proof.untold.items()
    ]
    if proof.plain:
        texts.append("run without onnxruntime's optimisations, which need more memory")
    parts: dict[str, float] = {}
    for case in (each for each in proof.cases if each.by_parts):
        apart = max((output.max_rel for output in case.outputs if output.problem), default=0.0)
        parts[case.by_parts] = max(apart, parts.get(case.by_parts, 0.0))
    texts += [
        f"compared part by part where {why}; the results differ by up to {apart:.0e}"
        for why, apart in sorted(parts.items())
    ]
    for why in sorted({case.by_runtime for case in proof.cases if case.by_runtime}):
        names = inputs_of([case.name for case in proof.cases if case.by_runtime == why])
        texts.append(f"on {names} {why}")
    return [Finding(CHECKED, text) for text in texts]
