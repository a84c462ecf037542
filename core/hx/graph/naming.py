"""Unique names for nodes and values, after the module that was running."""

from __future__ import annotations


class Names:
    """Names that are taken."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def claim(self, wanted: str) -> str:
        """`wanted`, or `wanted_1`, `wanted_2`... when it is taken."""
        name = wanted
        if name in self._taken:
            n = self._next.get(wanted, 1)
            while (name := f"{wanted}_{n}") in self._taken:
                n += 1
            self._next[wanted] = n + 1
        self._taken.add(name)
        return name


def node_name(scope: str, op: str) -> str:
    return f"{scope}/{op}" if scope else op


def namespace(scope: str, classes: dict[str, str]) -> str:
    """The module path as graph viewers read it: `layer1: Sequential/layer1.0: BasicBlock/...`."""
    parts, path = [], ""
    if "" in classes:
        parts.append(f": {classes['']}")
    for step in scope.split(".") if scope else ():
        path = f"{path}.{step}" if path else step
        parts.append(f"{path}: {classes.get(path, '')}".rstrip(": "))
    return "/".join(parts)
