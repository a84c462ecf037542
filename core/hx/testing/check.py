"""`hx packs check`: what is found by looking at a pack with everything it converts at hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hx.errors import TargetError
from hx.packs.checks import check_names
from hx.packs.findings import Finding, error, warning
from hx.packs.installed import Pack
from hx.packs.requirements import unmet
from hx.registration import Registration
from hx.testing.cases import CaseFailure, CaseSkipped, is_stub, runs_of

if TYPE_CHECKING:
    from hx.packs.targets import Target


def examine(
    pack: Pack, cases: bool = True, tell: Callable[[str], None] = lambda stage: None
) -> tuple[list[Finding], int]:
    """All findings about a pack, and how many cases were run."""
    findings = list(pack.findings)
    if pack.status != "ok":
        return findings, 0
    named = []
    for registration in pack.registrations:
        target, found = _resolved(registration)
        findings += found
        if target is not None:
            findings += _about(registration, target)
            named.append((registration, target.meant))
    findings += check_names(named)
    without = [each.target for each in pack.registrations if not each.cases]
    if without:
        some = ", ".join(without[:3]) + (f" and {len(without) - 3} more" * (len(without) > 3))
        findings.append(
            warning(
                "no-cases",
                f"nothing is tested of {some}",
                'give each an example call: cases=[case("float32[n,3]")]',
                _at(next(each for each in pack.registrations if not each.cases)),
            )
        )
    ran = 0
    if cases:
        for run in runs_of(pack.registrations, None, None, pack.kernels, pack.containers):
            tell(f"{pack.key} {run.id}")
            try:
                run.check()
                ran += 1
            except CaseSkipped:
                continue
            except CaseFailure as failure:
                ran += 1
                text = str(failure).replace("\n", "\n         ")
                findings.append(error("case-failed", text, "", _at(run.registration)))
    return findings, ran


def _resolved(registration: Registration) -> tuple[Target | None, list[Finding]]:
    """What a converter is for, or why that cannot be looked at here."""
    from hx.packs.targets import NotInstalled, resolve

    at = _at(registration)
    for requirement in registration.requires:
        if reason := unmet(requirement):
            what = f"{registration.target} needs {requirement}, and {reason}"
            fix = f"pip install {requirement!r} to have it checked"
            return None, [warning("requirement-unmet", what, fix, at)]
    try:
        return resolve(registration.target, import_missing=True), []
    except NotInstalled as problem:
        fix = "install it to have this checked"
        return None, [warning("library-absent", problem.what, fix, at)]
    except TargetError as problem:
        return None, [error("target-unresolved", problem.what, problem.hint, at)]


def _about(registration: Registration, target: Target) -> Iterator[Finding]:
    at = _at(registration)
    if is_stub(registration):
        what = f"{registration.name} is not written yet: it returns NotImplemented"
        yield warning("converter-stub", what, "say in it what the target is in ONNX", at)
    yield from _signature(registration, target.function, at)


def _signature(
    registration: Registration, function: Callable | None, at: tuple[str, int]
) -> Iterator[Finding]:
    """A converter has the parameters of its target, behind `op`."""
    if function is None:
        return
    try:
        theirs = inspect.signature(function).parameters
        ours = list(inspect.signature(registration.function).parameters.values())[1:]
    except (TypeError, ValueError):
        return
    if any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in (*ours, *theirs.values())):
        return
    names = [p.name for p in ours]
    lacking = [name for name in theirs if name not in names]
    extra = [p.name for p in ours if p.name not in theirs and p.default is p.empty]
    if lacking or extra:
        told = [f"does not take {', '.join(lacking)}"] * bool(lacking)
        told += [f"asks for {', '.join(extra)}, which the target does not have"] * bool(extra)
        yield warning(
            "signature-differs",
            f"{registration.name} {' and '.join(told)}",
            f"write def {registration.name}(op, {', '.join(map(str, theirs.values()))})",
            at,
        )


def _at(registration: Registration) -> tuple[str, int]:
    return registration.file, registration.line
