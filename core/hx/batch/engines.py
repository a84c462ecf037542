"""The engine that `--on NAME` or `--on NAME:ADDRESS` asks for."""

from __future__ import annotations

from collections.abc import Sequence

from hx.batch.local_engine import LOCAL
from hx.contributions import Executor
from hx.errors import PackError, UsageError
from hx.text import did_you_mean


def split(text: str) -> tuple[str, str]:
    """Name and address of an engine."""
    name, _, address = text.partition(":")
    return name, address


def named(name: str, given: Sequence[Executor]) -> Executor:
    """The engine of this name, among those of packs and our own."""
    found = [each for each in (LOCAL, *given) if each.name == name]
    if len(found) > 1:
        packs = [each.pack or "hx" for each in found]
        raise PackError(
            f"the engine {name!r} is given by {' and '.join(packs)}, and neither comes first",
            hint=f"leave one of them out: {' or '.join(f'--no-pack {p}' for p in packs if p != 'hx')}",
        )
    if found:
        return found[0]
    names = [each.name for each in (LOCAL, *given)]
    raise UsageError(
        f"there is no engine {name!r}: installed are {', '.join(names)}",
        hint=did_you_mean(name, names, f"pip install hx-{name}"),
    )
