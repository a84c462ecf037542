"""`hx packs check`: findings about a pack, checked against the libraries that it converts."""

from __future__ import annotations

import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hx.contributions import Container
from hx.errors import TargetError
from hx.packs.checks import check_names
from hx.packs.installed import Pack, find, plain, requirements_unmet
from hx.packs.pack_findings import Finding, brief, error, warning
from hx.packs.requirements import unmet
from hx.registration import Registration, place
from hx.testing.cases import CaseFailure, CaseSkipped, Tested, is_stub, runs_of_case
from hx.text import did_you_mean, first_few

if TYPE_CHECKING:
    from hx.packs.targets import Target


def examine(
    pack: Pack, cases: bool = True, tell: Callable[[str], None] = lambda stage: None
) -> tuple[list[Finding], int]:
    """Return all findings about a pack, and the number of cases that ran."""
    findings = list(pack.findings)
    if pack.status != "ok":
        return findings, 0
    findings += requirements_unmet(pack)
    named = []
    lost = set()  # those whose target does not exist
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
        findings.append(
            warning(
                "no-cases",
                f"nothing is tested of {first_few(without, 3)}",
                'give each an example call: cases=[case("float32[n,3]")]',
                _at(next(each for each in pack.registrations if not each.cases)),
            )
        )
    tested, ran = Tested(pack.registrations, pack.kernels, pack.containers), 0
    tried = (r for r in pack.registrations if cases and id(r) not in lost)
    for registration, case in ((r, c) for r in tried for c in r.cases):
        found, count = _runs(pack, registration, case, tested, tell)
        findings += found
        ran += count
    return list(dict.fromkeys(findings)), ran


def _runs(
    pack: Pack,
    registration: Registration,
    case: Any,
    tested: Tested,
    tell: Callable[[str], None],
) -> tuple[list[Finding], int]:
    """Run one case in all ways; return what is wrong, and the number of runs."""
    at, ran = _at(registration), 0
    try:
        runs = list(runs_of_case(registration, case, tested))
    except (Exception, SystemExit) as problem:  # from the author's specs and functions
        what = f"a case of {registration.target}: {getattr(problem, 'what', brief(problem))}"
        return [error("case-invalid", what, getattr(problem, "hint", ""), at)], 0
    failed: dict[str, list[str]] = {}  # failed runs, by their failure
    for run in runs:
        tell(f"{pack.key} {run.id}")
        try:
            run.check()
        except CaseSkipped:
            continue
        except CaseFailure as failure:
            failed.setdefault(str(failure).partition("\n  run  ")[0], []).append(str(failure))
        ran += 1
    return [_case_failed(texts, at) for texts in failed.values()], ran


def _case_failed(texts: Sequence[str], at: tuple[str, int]) -> Finding:
    """Return the finding for runs that failed alike."""
    text, more = texts[0].replace("\n", "\n         "), len(texts) - 1
    text += f"\n           and so in {more} more run{'s' * (more > 1)}" if more else ""
    return error("case-failed", text, "", at)


def _resolved(registration: Registration) -> tuple[Target | None, list[Finding]]:
    """Resolve a converter's target, or return the finding that says why it cannot be checked."""
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
    yield from _signature(registration, _parameters(target), at)


def _parameters(target: Target) -> list[inspect.Parameter]:
    """Return the parameters of a target; none where Python does not know them."""
    from hx.lazy import torch

    if target.kind == "autograd":
        function: Any = target.key
        found = [*inspect.signature(function.forward).parameters.values()]
        # With setup_context, forward takes the arguments of apply alone, and no ctx.
        joint = function.setup_context is torch.autograd.Function.setup_context
        return [_by_place(each.name) if each.kind < 2 else each for each in found[joint:]]
    space, _, name = str(target.key).partition("::")
    if target.kind == "operator" and name and space not in ("aten", "higher_order"):
        packet = getattr(getattr(torch.ops, space), name)
        schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
        return [_by_place(each.name) for each in schemas[0].arguments] if len(schemas) == 1 else []
    if target.function is None:
        return []
    try:
        return [*inspect.signature(target.function).parameters.values()]
    except (TypeError, ValueError):
        return []


def _by_place(name: str) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY)


def _signature(
    registration: Registration, theirs: list[inspect.Parameter], at: tuple[str, int]
) -> Iterator[Finding]:
    """Check that a converter has the parameters of its target, after `op`."""
    try:
        ours = list(inspect.signature(registration.function).parameters.values())[1:]
    except (TypeError, ValueError):
        return
    if not theirs or any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in (*ours, *theirs)):
        return
    if theirs[0].kind is inspect.Parameter.POSITIONAL_ONLY:  # their names do not matter
        lacking = [p.name for p in theirs[len(ours) :]]
        extra = [p.name for p in ours[len(theirs) :] if p.default is p.empty]
    else:
        lacking = [p.name for p in theirs if p.name not in {each.name for each in ours}]
        known = {p.name for p in theirs}
        extra = [p.name for p in ours if p.name not in known and p.default is p.empty]
    if lacking or extra:
        told = [f"does not take {', '.join(lacking)}"] * bool(lacking)
        told += [f"asks for {', '.join(extra)}, which the target does not have"] * bool(extra)
        shown = ", ".join(str(p) for p in theirs)
        yield error(
            "signature-differs",
            f"{registration.name} {' and '.join(told)}",
            f"write def {registration.name}(op, {shown})",
            at,
        )


def _overrides(pack: Pack) -> Iterator[Finding]:
    """Check that packs which a pack's converters override exist."""
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
            fix = did_you_mean(plain(name), map(plain, known), f"installed are {', '.join(known)}")
            yield warning("overrides-unknown", f"{what}not installed", fix, at)


def _container(container: Container) -> Iterator[Finding]:
    """Check that a container's class exists; import its library if that is installed."""
    at = place(container.flatten)
    library = container.type.partition(".")[0]
    if not library.isidentifier() or importlib.util.find_spec(library) is None:
        what = f"the container {container.type}: no package {library!r} is installed here"
        yield warning("library-absent", what, "install it to have this checked", at)
        return
    try:
        kind = pkgutil.resolve_name(container.type)
        wrong = "" if isinstance(kind, type) else f"it is a {type(kind).__name__}, not a class"
    except (Exception, SystemExit) as problem:  # a library's import may raise anything
        wrong = brief(problem)
    if wrong:
        what = f"the container {container.type}: {wrong}"
        fix = "name the class by a dotted name under which it can be imported"
        yield error("container-unresolved", what, fix, at)


def _at(registration: Registration) -> tuple[str, int]:
    return registration.file, registration.line
