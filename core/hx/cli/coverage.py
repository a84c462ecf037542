"""`python -m hx.cli.coverage`: what the standard converters cover, as markdown, by subject.

`--update FILE` and `--check FILE` work as in `hx.cli.reference`, between `<!-- coverage -->` and
`<!-- /coverage -->`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from hx.registration import OPSETS, Registration
from hx.registry import Registry

START, END = "<!-- coverage -->", "<!-- /coverage -->"


def markdown(pack: str = "hx") -> str:
    return "\n".join(_lines(pack)).strip() + "\n"


def _lines(pack: str) -> Iterator[str]:
    from hx.config import Settings

    found = Registry.installed(only=[pack], config=Settings()).registrations
    subjects: dict[str, list[Registration]] = {}
    for each in found:
        subjects.setdefault(each.function.__module__.rpartition(".")[2], []).append(each)
    targets, cases = len({each.target for each in found}), sum(len(each.cases) for each in found)
    yield f"{targets} targets, {len(found)} converters, {cases} cases that run at several opsets."
    for subject, converters in sorted(subjects.items()):
        yield from ("", f"### {subject}", "", "| target | opsets | cases |", "|---|---|---|")
        for each in sorted(converters, key=lambda each: (each.target, each.since or 0)):
            low, high = each.since or OPSETS[0], each.until or OPSETS[-1]
            yield f"| `{each.target}` | {low}-{high} | {len(each.cases) or '-'} |"


def main() -> None:
    if len(sys.argv) != 3:
        print(markdown(), end="")
        return
    path = Path(sys.argv[2])
    text = path.read_text(encoding="utf-8")
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise SystemExit(f"{path} has no {START} and {END}")
    new = f"{before}{START}\n\n{markdown()}\n{END}{after}"
    if sys.argv[1] == "--update":
        path.write_text(new, encoding="utf-8")
    elif new != text:
        raise SystemExit(f"{path} is not up to date: python -m hx.cli.coverage --update {path}")


if __name__ == "__main__":
    main()
