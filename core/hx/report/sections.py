"""Parts of a report."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import Where
from ..findings import CHECKED, Finding, Missing
from ..proof.differences.nodes import NodeTable
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
    infinite: dict[str, list[str]] = {}
    outputs = [(case.name, output) for case in proof.cases for output in case.outputs]
    for name, output in ((name, each) for name, each in outputs if each.as_near):
        if math.isinf(output.max_rel):
            infinite.setdefault(output.name, []).append(name.removesuffix(" values"))
        else:
            near[output.name] = max(output.max_rel, near.get(output.name, 0.0))
    texts += [
        f"{name} differs by {error:.0e}: it is as near to the model in float64 as the model itself"
        for name, error in near.items()
    ]
    texts += [
        f"on {inputs_of(names)}, {name} is NaN or infinite where the model is in float64"
        for name, names in infinite.items()
    ]
    texts += [
        f"{name} is {only} in all cases, which shows little: other inputs may show more"
        for name, only in proof.untold.items()
    ]
    if proof.plain:
        texts.append("run without onnxruntime's optimisations, which need more memory")
    return [Finding(CHECKED, text) for text in texts] + _by_parts(proof) + _by_runtime(proof)


def _by_runtime(proof: Proof) -> list[Finding]:
    """List where the runtime computes something else than the file says."""
    found = {case.by_runtime: case.parted for case in reversed(proof.cases) if case.by_runtime}
    told = {
        why: inputs_of(
            [case.name.removesuffix(" values") for case in proof.cases if case.by_runtime == why]
        )
        for why in sorted(found)
    }
    return [
        Finding(CHECKED, f"on {names} {why}", found[why], differs=True)
        for why, names in told.items()
    ]


def _by_parts(proof: Proof) -> list[Finding]:
    """List why and where results of the file and the model part, and by how much."""
    parts: dict[tuple[str, Where | None], float] = {}
    unordered = ": PyTorch leaves open which of equal elements it takes"
    for case in (each for each in proof.cases if each.by_parts):
        apart = max((output.max_rel for output in case.outputs if output.problem), default=0.0)
        key = case.by_parts, case.parted
        parts[key] = max(apart, parts.get(key, 0.0))
    return [
        Finding(
            CHECKED,
            f"compared part by part where {why}{unordered if why.startswith('ties') else ''}; "
            f"the results differ by up to {apart:.0e}",
            where,
        )
        for (why, where), apart in sorted(parts.items(), key=lambda item: item[0][0])
    ]
