"""Conditions on installed libraries, as pip writes them: `spconv>=2`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from functools import cache
from importlib import metadata

from hx.packs.pack_findings import Finding, warning


def unmet_by(distribution: str, requirements: Iterable[str]) -> list[Finding]:
    """Return one finding if a distribution lacks what its metadata require (`Requires-Dist`)."""
    lacking = {text: reason for text in requirements if (reason := unmet(text))}
    lacking = {t: reason for t, reason in lacking.items() if reason != "hx is not installed"}
    if not lacking:
        return []
    needs = " and ".join(f"{_bare(text)} ({reason})" for text, reason in lacking.items())
    fix = f"pip install {shlex.join(_bare(text) for text in lacking)}"
    return [warning("requirement-unmet", f"{distribution} needs {needs}", fix)]


def _bare(requirement: str) -> str:
    """Return a requirement without its marker and its spaces."""
    return requirement.partition(";")[0].replace(" ", "")


@cache
def unmet(requirement: str) -> str:
    """The reason why an installed library does not meet the requirement; '' when it does.

    The name may be that of a distribution or of a module: `spconv` is met by `spconv-cu120`.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        asked = Requirement(requirement)
    except InvalidRequirement:
        return f"{requirement!r} is no requirement as pip writes them"
    if asked.marker is not None and not asked.marker.evaluate():
        return ""
    name, version = _installed(asked.name)
    if not version:
        return f"{name} is not installed"
    if asked.specifier.contains(version, prereleases=True):
        return ""
    return f"{name} {version} is installed"


def _installed(name: str) -> tuple[str, str]:
    try:
        return name, metadata.version(name)
    except metadata.PackageNotFoundError:
        for distribution in metadata.packages_distributions().get(name, ()):
            return distribution, metadata.version(distribution)
    return name, ""
