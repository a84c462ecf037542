"""Checks of a pack's plugin and converters that run neither."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from hx import hookspecs
from hx.packs.pack_findings import Finding, brief, error, warning
from hx.registration import Registration, place
from hx.text import did_you_mean

HOOKS = {hook.__name__: hook for hook in hookspecs.HOOKS}


def hooks_of(plugin: Any) -> dict[str, Callable[..., Any]]:
    """The functions of a plugin that are meant as hooks, by name."""
    return {
        name: getattr(plugin, name)
        for name in dir(plugin)
        if name.startswith("hx_") and inspect.isroutine(getattr(plugin, name))
    }


def check_api(plugin: Any, value: str) -> Iterator[Finding]:
    api = getattr(plugin, "HX_API", None)
    at = (getattr(plugin, "__file__", None) or "", 0)
    if api is None:
        yield warning(
            "api-missing",
            f"{value} does not say which API of hx it was written for",
            f"add HX_API = {hookspecs.API} to it",
            at,
        )
    elif not isinstance(api, int) or isinstance(api, bool) or api < 1:
        yield error(
            "api-malformed",
            f"HX_API is {api!r}; it has to be a number such as {hookspecs.API}",
            f"write HX_API = {hookspecs.API}",
            at,
        )


def check_hooks(plugin: Any, value: str) -> Iterator[Finding]:
    hooks = hooks_of(plugin)
    if not hooks:
        yield error(
            "no-hooks",
            f"{value} has no hook",
            "define hx_converters() or another hook of hx.hookspecs in it",
            (getattr(plugin, "__file__", None) or "", 0),
        )
    for name, function in hooks.items():
        if name not in HOOKS:
            fix = did_you_mean(name, HOOKS, f"hooks are {', '.join(HOOKS)}")
            yield error("misspelt-hook", f"there is no hook named {name}", fix, place(function))
            continue
        known = inspect.signature(HOOKS[name]).parameters
        asked = [
            parameter.name
            for parameter in inspect.signature(function).parameters.values()
            if parameter.default is parameter.empty and parameter.kind < parameter.VAR_POSITIONAL
        ]
        extra = [parameter for parameter in asked if parameter not in known]
        if extra:
            takes = ", ".join(known) or "no arguments"
            yield error(
                "hook-signature",
                f"{name} asks for {', '.join(extra)}; the hook takes {takes}",
                f"write def {name}({', '.join(known)})",
                place(function),
            )


def malformed(item: Any) -> str:
    """Return the fault of a record of `hx.contributions`; '' when there is none."""
    for each in dataclasses.fields(item):
        value, kind = getattr(item, each.name), str(each.type)
        said = f"{each.name} of {type(item).__name__}({getattr(item, _first(item))!r}, ...)"
        if kind == "str" and not isinstance(value, str):
            return f"{said} is {value!r}, not a string"
        if kind == "str" and not value and each.default is dataclasses.MISSING:
            return f"{said} is empty"
        missing = value is None and kind.endswith("| None")
        if kind.startswith("Callable") and not callable(value) and not missing:
            return f"{said} is {value!r}, which cannot be called"
    return ""


def _first(item: Any) -> str:
    return dataclasses.fields(item)[0].name


def check_converters(found: Iterable[Registration]) -> Iterator[Finding]:
    """Check converters without importing their targets."""
    seen: dict[str, list[Registration]] = {}
    for registration in found:
        at = (registration.file, registration.line)
        code = getattr(registration.function, "__code__", None)
        if code and not code.co_argcount and not code.co_flags & inspect.CO_VARARGS:
            yield error(
                "converter-signature",
                f"{registration.name} takes no argument; the first one is the graph builder",
                f"write def {registration.name}(op, ...)",
                at,
            )
        before = seen.setdefault(registration.target, [])
        yield from (_twice(other, registration) for other in before if _level(other, registration))
        before.append(registration)
        yield from _check_requires(registration, at)


def check_names(found: Iterable[tuple[Registration, Hashable]]) -> Iterator[Finding]:
    """Check converters of one thing under several names, each given with that thing."""
    seen: dict[Hashable, list[Registration]] = {}
    for registration, meant in found:
        before = seen.setdefault(meant, [])
        for other in before:
            if other.target != registration.target and _level(other, registration):
                yield _twice(other, registration)
        before.append(registration)


def _level(one: Registration, other: Registration) -> bool:
    """Return True if two converters of one pack share an opset, and nothing ranks one higher."""
    low, high = max(one.since or 0, other.since or 0), min(one.until or 99, other.until or 99)
    return low <= high and one.function is not other.function and _rank(one) == _rank(other)


def _rank(one: Registration) -> tuple[Any, ...]:
    return one.priority, one.requires, one.complex


def _twice(other: Registration, one: Registration) -> Finding:
    known = "" if other.target == one.target else f", which is also called {other.target},"
    return warning(
        "duplicate-target",
        f"{one.target}{known} is converted by both {other.name} (line {other.line}) and {one.name}",
        "remove one, or part their opsets with since= and until=",
        (one.file, one.line),
    )


# The form of nearly every requirement; only others are worth the import of the real parser.
_CLAUSE = r"(===?|[<>!~]=|[<>])\s*[\w.*+!-]+"
_USUAL = re.compile(rf"\w([\w.-]*\w)?\s*({_CLAUSE}(\s*,\s*{_CLAUSE})*)?")


def _check_requires(registration: Registration, at: tuple[str, int]) -> Iterator[Finding]:
    for text in registration.requires:
        if _USUAL.fullmatch(text):
            continue
        from packaging.requirements import InvalidRequirement, Requirement

        try:
            Requirement(text)
        except InvalidRequirement as problem:
            yield error(
                "requires-malformed",
                f"requires={text!r} of {registration.target}: {brief(problem)}",
                'write it as pip does: "spconv>=2"',
                at,
            )
