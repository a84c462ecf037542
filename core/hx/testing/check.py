"""`hx packs check`: what is found by looking at a pack with everything it converts at hand."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hx.contributions import Container
from hx.errors import TargetError
from hx.packs.checks import check_names
from hx.packs.findings import Finding, brief, error, warning
from hx.packs.installed import Pack, find, plain
from hx.packs.requirements import unmet
from hx.registration import Registration, place
from hx.testing.cases import CaseFailure, CaseSkipped, is_stub, runs_of_case

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
    lost = set()  # those whose target is nothing
    for registration in pack.registrations:
        target, found = _resolved(registration)
        findings += found
        if any(finding.level == "error" for finding in found):
            lost.add(id(registration))
        if target is not None:
            findings += _about(registration, target)
            named.append((registration, target.meant))
    findings += check_names(named)
    findings += _overrides(pack)
    for container in pack.containers:
        findings += _container(container)
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
    together = (pack.registrations, pack.kernels, pack.containers)
    tried = (r for r in pack.registrations if cases and id(r) not in lost)
    for registration, case in ((r, c) for r in tried for c in r.cases):
        at = _at(registration)
        try:
            runs = list(runs_of_case(registration, case, None, None, *together))
        except (Exception, SystemExit) as problem:  # the author's words, and functions
            what = f"a case of {registration.target}: {getattr(problem, 'what', brief(problem))}"
            findings.append(error("case-invalid", what, getattr(problem, "hint", ""), at))
            continue
        failed: dict[str, list[str]] = {}  # by what failed: the runs that did
        for run in runs:
            tell(f"{pack.key} {run.id}")
            try:
                run.check()
            except CaseSkipped:
                continue
            except CaseFailure as failure:
                failed.setdefault(str(failure).partition("\n  run  ")[0], []).append(str(failure))
            ran += 1
        for texts in failed.values():
            text = texts[0].replace("\n", "\n         ")
            more = len(texts) - 1
            text += f"\n           and so in {more} more run{'s' * (more > 1)}" if more else ""
            findings.append(error("case-failed", text, "", at))
    return list(dict.fromkeys(findings)), ran


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


def _overrides(pack: Pack) -> Iterator[Finding]:
    """Whether there is what the converters of a pack say that they replace."""
    others = [each for each, _ in find() if each.key != pack.key]
    known = sorted({each.distribution for each in others})
    said = set()
    for each in pack.registrations:
        at = _at(each)
        for name in each.overrides:
            if any(other.answers_to(name) for other in others) or (name, at) in said:
                continue
            said.add((name, at))  # once for all targets of a converter
            what = f"{each.target} overrides {name!r}, which is "
            if pack.answers_to(name):
                fix = "between converters of one pack, priority= says which comes first"
                yield warning("overrides-itself", f"{what}this pack", fix, at)
                continue
            near = difflib.get_close_matches(plain(name), [plain(other) for other in known], 1)
            fix = f"did you mean {near[0]}?" if near else f"installed are {', '.join(known)}"
            yield warning("overrides-unknown", f"{what}not installed", fix, at)


def _container(container: Container) -> Iterator[Finding]:
    """Whether there is such a class; the library is imported, if it is installed."""
    at = place(container.flatten)
    library = container.type.partition(".")[0]
    if not library.isidentifier() or importlib.util.find_spec(library) is None:
        what = f"the container {container.type}: no package {library!r} is installed here"
        yield warning("library-absent", what, "install it to have this checked", at)
        return
    try:
        kind = pkgutil.resolve_name(container.type)
        wrong = "" if isinstance(kind, type) else f"it is a {type(kind).__name__}, not a class"
    except (Exception, SystemExit) as problem:  # whatever a library does as it is imported
        wrong = brief(problem)
    if wrong:
        what = f"the container {container.type}: {wrong}"
        fix = "name the class by a dotted name under which it can be imported"
        yield error("container-unresolved", what, fix, at)


def _at(registration: Registration) -> tuple[str, int]:
    return registration.file, registration.line
