"""Differences on NaN, infinities and equal elements, which are told and refuse no file.

PyTorch and onnxruntime treat such values in different ways, few users have them, and ONNX says
nothing about many of them. If onnx's reference evaluator gives what the model gives, the runtime is
at fault. Picks among equal elements are nobody's fault. Everything else is told with the operator at
which the results part. A heavy model does not run on such values: then it is told which of its
operators are known to pass NaN by.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from ...errors import Where
from ...findings import CHECKED, Finding
from ..cases.small_sizes import is_heavy
from ..cases.special_values import takes_special
from ..file_proof import Case, blame
from ..proof import CaseCheck, Proof
from ..sessions.evaluator import agrees, fault_of_runtime
from ..sessions.open_file import OpenFile
from ..subject import Subject
from .parts import Parts, line_of

OTHERWISE = "{} computes otherwise than PyTorch, and onnx's reference evaluator does not"
PASSES_NAN_BY = ("MaxPool", "TopK")  # operators of onnxruntime that do, where PyTorch's do not


def settle_special(subject: Subject, parts: Parts, file: OpenFile, proof: Proof) -> None:
    """Note each difference on special values, and drop the cases without an explanation."""
    faults: dict[tuple[str, Where | None], list[str]] = defaultdict(list)
    for place, check in reversed([*enumerate(proof.cases)]):
        case = subject.cases[place]
        if check.ok or not case.special:
            continue
        found = _unexplained(parts, file, case, check)
        if not check.ok:
            faults[found].append(case.special)
            del subject.cases[place], proof.cases[place]
    if is_heavy(subject) and not faults and not any(case.special for case in subject.cases):
        faults = _known(subject)
    subject.notes += [_told(first, where, kinds[::-1]) for (first, where), kinds in faults.items()]


def _told(first: str, where: Where | None, kinds: list[str]) -> Finding:
    inputs = " and ".join(kinds)
    text = f"on {inputs} inputs, {first} in onnxruntime than in PyTorch"
    return Finding(CHECKED, text, where, differs=True)


def _known(subject: Subject) -> dict[tuple[str, Where | None], list[str]]:
    """Return the operators that pass NaN by, the first of each kind, for a model that takes floats."""
    found: dict[str, Where | None] = {}
    for node in subject.trace.nodes if takes_special(subject) else ():
        if node.op in PASSES_NAN_BY and not node.domain and node.origin is not None:
            found.setdefault(node.origin.target, node.origin.where)
    return {(f"{target} gives other results", where): ["NaN"] for target, where in found.items()}


def _unexplained(
    parts: Parts, file: OpenFile, case: Case, check: CaseCheck
) -> tuple[str, Where | None]:
    """Note in a check what explains it, or return what gives other results, and its line."""
    if check.problem:  # the file does not run on these values, or has other outputs altogether
        return "the file gives other results", None
    assert isinstance(file.source, Path)
    path, custom_ops = file.source, file.custom_ops
    kernels = [op for op in custom_ops if isinstance(op, type)]
    found = parts.outcome(case)
    if found is None:
        check.by_runtime = OTHERWISE.format("onnxruntime") if agrees(path, case, custom_ops) else ""
        return "the file gives other results", None
    blamed: dict[str, Where | None] = {}
    for name, row in parts.rows_of(found.wrong):
        known = {**case.feeds, **found.values}
        operator = fault_of_runtime(path, known, name, found.wrong[name], kernels)
        if not operator:
            return f"{row.target or row.op} gives other results", line_of(row)
        blamed.setdefault(f"onnxruntime's {operator}", line_of(row))
    if not found.wrong:
        check.by_parts, check.parted = parts.what_decides(case, lambda: True, lambda seed: [])
        if not check.by_parts:
            blame(file, case, check)
        if check.note:  # it is right without optimizations
            blamed["onnxruntime's optimizer"] = None
    if blamed:
        check.by_runtime = OTHERWISE.format(" and ".join(blamed))
        check.parted = next(iter(blamed.values()))
    return "the file gives other results", None
