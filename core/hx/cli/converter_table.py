"""Rows of the table that `hx converters list` prints."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hx.packs.registry import Registry
    from hx.registration import Registration

COLUMNS = ("target", "converter", "pack", "opsets", "needs", "complex", "cases", "file")


def require_columns(names: list[str]) -> None:
    """Raise a usage error for a name that is no column."""
    from hx.errors import UsageError

    for name in names:
        if name not in COLUMNS:
            raise UsageError(
                f"there is no column {name!r}", hint=f"the columns are {', '.join(COLUMNS)}"
            )


def rows_of(
    found: list[Registration], labels: dict[str, str], columns: Collection[str] = COLUMNS
) -> list[dict[str, str]]:
    """Make one row for each target and pack, of its converters for all opsets and for complex numbers."""
    groups: dict[tuple[str, str], list[Registration]] = {}
    for each in found:
        groups.setdefault((each.target, each.pack), []).append(each)

    def joined(texts: Iterable[str]) -> str:
        return ", ".join(dict.fromkeys(filter(None, texts)))

    def cell(name: str, group: list[Registration]) -> str:
        first = group[0]
        if name == "target":
            return first.target
        if name == "pack":
            return labels[first.pack]
        if name == "complex":
            return "yes" if any(each.complex for each in group) else ""
        if name == "cases":
            return str(sum(len(each.cases) for each in group))
        return joined(text for each in group for text in _TEXTS[name](each))

    return [{name: cell(name, group) for name in columns} for group in groups.values()]


_TEXTS: dict[str, Callable[[Registration], Iterable[str]]] = {
    "converter": lambda each: (each.name,),
    "opsets": lambda each: (each.window,),
    "needs": lambda each: each.requires,
    "file": lambda each: (f"{each.file}:{each.line}",),
}


def print_table(
    found: list[Registration], columns: list[str], sort: str, registry: Registry
) -> None:
    from hx.cli.output import table

    labels = {key: registry.label(key) for key in {each.pack for each in found}}
    rows = rows_of(found, labels, {*columns, sort})
    if not rows:
        return
    rows.sort(key=lambda row: row[sort].rjust(6) if row[sort].isdecimal() else row[sort])
    conditions = ("opsets", "needs")  # which few converters have
    columns = [c for c in columns if c not in conditions or any(row[c] for row in rows)] or columns
    colours = {"converter": "dim", "pack": "cyan", "opsets": "dim", "needs": "yellow"}
    shrink = [
        i for name in ("file", "converter", "target") for i, c in enumerate(columns) if c == name
    ]
    table(
        columns,
        [[row[c] for c in columns] for row in rows],
        [colours.get(c) for c in columns],
        shrink=shrink,
    )
