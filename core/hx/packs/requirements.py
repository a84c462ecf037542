"""Conditions on installed libraries, as pip writes them: `spconv>=2`."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def unmet(requirement: str) -> str:
    """Why an installed library does not meet the requirement; '' when it does.

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
