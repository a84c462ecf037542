"""Installed packs: found through entry points, checked, loaded one by one, and classified.

Four verbs in that order. Every entry point of the group `hx` is loaded here, by itself and under
watch, so that a pack that is broken in any way is a record with findings and the others work.
A pack is there as a whole or not at all: one error, and nothing of it is used.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy

from hx import hookspecs
from hx.contributions import Container, Executor, GraphPass, ModelSource, ReferenceKernel
from hx.errors import PackError, Where
from hx.packs.checks import check_api, check_converters, check_hooks, hooks_of, malformed
from hx.packs.pack_findings import Finding, brief, error, origin, warning
from hx.packs.requirements import unmet_by
from hx.registration import Registration, place, registrations
from hx.text import did_you_mean

GROUP = "hx"
HOOK_NAMES = frozenset(hook.__name__ for hook in hookspecs.HOOKS)
# The hook, and the class of its results, for each field of a pack beside its converters.
CONTRIBUTED: dict[str, tuple[str, type]] = {
    "sources": ("hx_model_sources", ModelSource),
    "containers": ("hx_containers", Container),
    "kernels": ("hx_reference_kernels", ReferenceKernel),
    "passes": ("hx_passes", GraphPass),
    "executors": ("hx_executors", Executor),
}
SLOW = 0.5
HEAVY = ("torch", "numpy", "onnx", "onnx_ir", "onnxruntime", "tensorflow", "jax")


@dataclass(frozen=True)
class Pack:
    """The record of one entry point. `status` is ok, failed, disabled or incompatible."""

    distribution: str
    entry: str
    version: str
    value: str
    status: str = "ok"
    api: int | None = None
    error: str = ""
    findings: tuple[Finding, ...] = ()
    registrations: tuple[Registration, ...] = ()
    sources: tuple[ModelSource, ...] = ()
    containers: tuple[Container, ...] = ()
    kernels: tuple[ReferenceKernel, ...] = ()
    passes: tuple[GraphPass, ...] = ()
    executors: tuple[Executor, ...] = ()
    seconds: float = 0.0

    @property
    def key(self) -> str:
        """The name of the pack among all: with its entry point, if it has one."""
        return f"{self.distribution}[{self.entry}]" if self.entry else self.distribution

    def answers_to(self, name: str) -> bool:
        """Return True if `name` may mean this pack: its distribution, entry point, or key."""
        return plain(name) in {plain(self.distribution), plain(self.entry), plain(self.key)}

    @property
    def counts(self) -> dict[str, int]:
        return {
            "converters": len(self.registrations),
            "model sources": len(self.sources),
            "containers": len(self.containers),
            "reference kernels": len(self.kernels),
            "passes": len(self.passes),
            "executors": len(self.executors),
        }

    def to_json(self) -> dict[str, Any]:
        told = ("key", "distribution", "entry", "version", "status", "api", "error")
        return {name: getattr(self, name) for name in told} | {
            "counts": self.counts,
            "seconds": round(self.seconds, 4),
            "findings": [finding.to_json() for finding in self.findings],
        }


def plain(name: str) -> str:
    """Normalize a name as package indexes do: `My_Pack` and `my-pack` are one."""
    return re.sub(r"[-_.]+", "-", name).lower()


# --- find ------------------------------------------------------------------------------------


def find() -> list[tuple[Pack, EntryPoint]]:
    """Every entry point of the group, as a bare record, sorted; nothing is imported yet."""
    return list(_found(installed_state()))


def installed_state() -> tuple[Any, ...]:
    """A value that changes when something is installed or removed."""
    return (*map(_distributions, sys.path), *map(id, sys.meta_path))


def _distributions(path: str) -> Any:
    try:
        return _listed(path, Path(path).stat().st_mtime_ns)
    except OSError:
        return path


@functools.lru_cache(maxsize=256)
def _listed(path: str, changed: int) -> tuple[Any, ...]:
    """The metadata in a folder, cached until something is put in it or taken out."""
    with os.scandir(path) as entries:
        found = [e for e in entries if e.name.endswith((".dist-info", ".egg-info", ".egg-link"))]
        return (path, *sorted((e.name, e.stat().st_mtime_ns) for e in found))


@functools.lru_cache(maxsize=1)
def _found(state: tuple[Any, ...]) -> list[tuple[Pack, EntryPoint]]:
    found = []
    for entry in entry_points(group=GROUP):
        dist = entry.dist
        name, version = (dist.name, dist.version) if dist else ("unknown", "")
        found.append((Pack(name, entry.name, version, entry.value), entry))
    return sorted(found, key=lambda pair: (pair[0].key, pair[0].value))


# --- load ------------------------------------------------------------------------------------


class _Broken(Exception):
    """Stops the loading of one pack; carries the finding that says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


@dataclass
class _Watch:
    """Observations while a pack loads: its output, its time, and the modules that it imports."""

    output: io.StringIO = field(default_factory=io.StringIO)
    started: float = field(default_factory=time.perf_counter)
    before: frozenset[str] = field(default_factory=lambda: frozenset(sys.modules))

    def findings(self, pack: Pack) -> Iterator[Finding]:
        seconds = time.perf_counter() - self.started
        heavy = [name for name in HEAVY if name in sys.modules and name not in self.before]
        if heavy:
            yield warning(
                "heavy-import",
                f"loading it imports {', '.join(heavy)} ({seconds:.1f} "
                "s), which every listing then waits for",
                f"write `from hx.lazy import {heavy[0]}` at the top of its modules",
            )
        elif seconds > SLOW:
            yield warning(
                "slow-import",
                f"loading it takes {seconds:.1f} s, at every start of hx",
                f"see what takes long: python -X importtime -c 'import "
                f"{pack.value.partition(':')[0]}'",
            )
        if text := self.output.getvalue().strip():
            first, *more = text.splitlines()
            yield warning(
                "printed-at-import",
                f"it prints while it is loaded: {first[:80]!r}"
                + (f" and {len(more)} more lines" if more else ""),
                "remove the print; hx's output is data for other programs",
            )


def load(pack: Pack, entry: EntryPoint) -> Pack:
    """The pack with all that it contributes, or with the error that keeps it out."""
    watch = _Watch()
    with contextlib.redirect_stdout(watch.output), contextlib.redirect_stderr(watch.output):
        try:
            pack = _load(pack, entry)
        except _Broken as broken:
            pack = replace(pack, findings=(*pack.findings, broken.finding))
    findings = (*pack.findings, *watch.findings(pack))
    pack = replace(pack, findings=findings, seconds=time.perf_counter() - watch.started)
    return replace(pack, findings=tuple(_with_cause(pack, each) for each in findings))


def _with_cause(pack: Pack, found: Finding) -> Finding:
    """Explain a failed import by what the pack requires and lacks."""
    for lacking in requirements_unmet(pack) if found.id == "import-failed" else ():
        message = f"{lacking.message}; {found.message}"
        return replace(found, id=lacking.id, message=message, fix=lacking.fix)
    return found


def requirements_unmet(pack: Pack) -> list[Finding]:
    """Return a finding if a pack was installed without what it requires."""
    if pack.distribution == "hx":  # its packs need no more than hx itself
        return []
    try:
        required = distribution(pack.distribution).requires or ()
    except PackageNotFoundError:
        return []
    return unmet_by(pack.distribution, required)


def _load(pack: Pack, entry: EntryPoint) -> Pack:
    plugin = _plugin(pack, entry)
    api = getattr(plugin, "HX_API", None)
    if isinstance(api, int) and api > hookspecs.API:
        return replace(
            pack,
            status="incompatible",
            api=api,
            error=(
                f"it was written for API {api} of hx, and this hx speaks {hookspecs.API}; "
                "upgrade hx, or install an older version of the pack"
            ),
        )
    findings = [*check_api(plugin, pack.value), *check_hooks(plugin, pack.value)]
    pack = replace(pack, api=api if isinstance(api, int) else 1, findings=tuple(findings))
    if any(finding.level == "error" for finding in findings):
        return pack
    call = _caller(pack.key, plugin, findings)
    known: dict[int, Registration] = {}  # a registration given twice counts once
    at = place(getattr(plugin, "hx_converters", None))
    for item in call("hx_converters", object):
        new, remarks = _converters(item, at)
        known.update((id(registration), registration) for registration in new)
        findings += remarks
    found = [replace(registration, pack=pack.key) for registration in known.values()]
    return replace(
        pack,
        registrations=tuple(found),
        **_contributed(pack, call),
        findings=(*findings, *check_converters(found)),
    )


def _plugin(pack: Pack, entry: EntryPoint) -> Any:
    """Load the object that the entry point names; if it does not exist, correct the entry point."""
    try:
        return _guard("import-failed", f"{pack.value} cannot be imported", entry.load)
    except _Broken as broken:
        if broken.finding.file:  # somebody's code raised
            raise
        fix = f'correct the entry point in its pyproject.toml: {pack.entry} = "{pack.value}"'
        raise _Broken(replace(broken.finding, fix=fix)) from None


def _guard(
    id: str,
    what: str,
    action: Callable[..., Any],
    *args: Any,
    at: tuple[str, int] = ("", 0),
) -> Any:
    """Call other people's code; anything that it raises becomes a finding.

    `at` is the place that asked for it, for errors before any of their code ran.
    """
    try:
        return action(*args)
    except (Exception, SystemExit) as problem:
        fix = "correct it, or leave the pack out with --no-pack"
        if isinstance(problem, ModuleNotFoundError) and problem.name:
            fix = f"install what has the module {problem.name}, or correct the name"
        place = origin(problem)
        place = place if place[0] else at
        raise _Broken(error(id, f"{what}: {brief(problem)}", fix, place)) from None


def _caller(key: str, plugin: Any, findings: list[Finding]) -> Callable[[str, type], list[Any]]:
    """Call hooks of one plugin, through a manager of its own: packs cannot disturb each other."""
    hooks = hooks_of(plugin)
    manager = _Manager("hx")
    manager.add_hookspecs(hookspecs)
    manager.register(plugin, name=key)
    manager.check_pending()

    def call(name: str, kind: type) -> list[Any]:
        hook = getattr(manager.hook, name)
        items: list[Any] = []
        results = _guard("hook-raised", f"{name}() raises", hook)
        at = place(hooks.get(name, plugin))
        if name in hooks and not results:  # pluggy leaves None out
            what = f"{name}() returns None, and so gives nothing"
            findings.append(
                warning("hook-returned-nothing", what, "return a list, which may be empty", at)
            )
        for result in results:
            if isinstance(result, (str, bytes)) or not isinstance(result, Iterable):
                items.append(result)  # one item where a list belongs: said below, or accepted
            else:
                items.extend(_guard("hook-raised", f"{name}() raises", list, result))
        for item in items:
            if not isinstance(item, kind):
                what = f"{name}() gives {item!r}, which is no {kind.__name__}"
                fix = f"return a list of {kind.__name__}"
                raise _Broken(error("hook-result", what, fix, at))
            if kind is not object and (wrong := malformed(item)):
                what = f"{name}() gives what cannot work: {wrong}"
                raise _Broken(error("hook-result", what, f"see {kind.__name__} in hx", at))
        return items

    return call


class _Manager(pluggy.PluginManager):
    """Takes every function named `hx_...` for a hook, marked or not, as pytest does."""

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        options = super().parse_hookimpl_opts(plugin, name)
        return (
            {}
            if options is None and name in HOOK_NAMES and callable(getattr(plugin, name))
            else options
        )


def _converters(item: Any, at: tuple[str, int]) -> tuple[tuple[Registration, ...], list[Finding]]:
    """The registrations from one item that `hx_converters` of this place returned."""
    if isinstance(item, str):
        what = f"{item} cannot be imported"
        item = _guard("import-failed", what, importlib.import_module, item, at=at)
    found = registrations(item)
    fix = "decorate it with @converter(...)"
    if found:
        return found, []
    if isinstance(item, ModuleType):
        own = (item.__file__ or "", 0)
        return (), [warning("no-converters", f"{item.__name__} holds no converter", fix, own)]
    what = f"hx_converters() gives {item!r}, which is no converter"
    own = place(item)
    raise _Broken(error("not-a-converter", what, fix, own if own[0] else at))


def _contributed(pack: Pack, call: Callable[[str, type], list[Any]]) -> dict[str, Any]:
    """Return all but the converters of a pack, by field; each item knows its pack."""
    return {
        field: tuple(replace(item, pack=pack.key) for item in call(hook, kind))
        for field, (hook, kind) in CONTRIBUTED.items()
    }


def of_module(module: ModuleType, key: str) -> Pack:
    """Make a pack of this name from the hooks of a loose file, without its converters."""
    pack = Pack(key, "", "", module.__name__)
    try:
        return replace(pack, **_contributed(pack, _caller(key, module, [])))
    except _Broken as broken:
        found = broken.finding
        where = Where(found.file, found.line) if found.file else None
        raise PackError(f"{key}: {found.message}", where=where, hint=found.fix) from None


# --- classify --------------------------------------------------------------------------------

_loaded: dict[tuple[str, str, str, str], Pack] = {}


def classify(only: Iterable[str] | None = None, without: Iterable[str] = ()) -> list[Pack]:
    """All installed packs with their status. A pack that is disabled is not imported."""
    found, only, without = find(), None if only is None else list(only), list(without)
    for names, option in ((only or [], "--only-packs"), (without, "--no-pack")):
        for name in names:
            if not any(pack.answers_to(name) for pack, _ in found):
                raise unknown_pack(name, [pack for pack, _ in found], f"{option} {name}")
    packs = []
    for pack, entry in found:
        if any(pack.answers_to(name) for name in without):
            packs.append(replace(pack, status="disabled", error="left out by --no-pack"))
        elif only is not None and not any(pack.answers_to(name) for name in only):
            packs.append(replace(pack, status="disabled", error="not among --only-packs"))
        else:
            path = str(getattr(entry.dist, "_path", ""))
            cached = (pack.key, pack.version, pack.value, path)
            if cached not in _loaded:
                _loaded[cached] = judge(load(pack, entry))
            packs.append(_loaded[cached])
    return packs


def judge(pack: Pack) -> Pack:
    """The pack with its final status; one with an error contributes nothing."""
    errors = [finding for finding in pack.findings if finding.level == "error"]
    if not errors:
        return pack
    empty: dict[str, Any] = dict.fromkeys(("registrations", *CONTRIBUTED), ())
    return replace(pack, status="failed", error=errors[0].message, **empty)


def unknown_pack(name: str, packs: Iterable[Pack], context: str = "") -> PackError:
    """Return the error for a pack that was asked for by name and is not installed."""
    known = sorted({pack.distribution for pack in packs})
    instead = f"installed are {', '.join(known) or 'none'}"
    return PackError(
        f"{context}{': ' if context else ''}no pack {name!r} is installed",
        hint=did_you_mean(plain(name), map(plain, known), instead),
    )
