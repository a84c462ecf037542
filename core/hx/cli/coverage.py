"""`python -m hx.cli.coverage`: what the standard converters cover, as markdown, by subject.

`--update FILE` and `--check FILE` work as in `hx.cli.reference`, between `<!-- coverage -->` and
`<!-- /coverage -->`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from hx.config import Settings
from hx.packs.registry import Registry
from hx.registration import OPSETS, Registration

MOST = 5  # operators that are named
START, END = "<!-- coverage -->", "<!-- /coverage -->"


def markdown(pack: str = "hx") -> str:
    return "\n".join(_lines(pack)).strip() + "\n"


def _lines(pack: str) -> Iterator[str]:
    registry = Registry.installed(only=[pack], config=Settings())
    found = registry.registrations
    subjects: dict[str, list[Registration]] = {}
    for each in found:
        subjects.setdefault(each.function.__module__.rpartition(".")[2], []).append(each)
    targets, cases = len({each.target for each in found}), sum(len(each.cases) for each in found)
    yield f"{targets} targets, {len(found)} converters, {cases} cases that run at several opsets."
    yield ""
    yield "The operators and the dtypes of inputs are those of the cases, at opset 20."
    for subject, converters in sorted(subjects.items()):
        yield from ("", f"### {subject}", "", "| target | ONNX | opsets | dtypes | cases |")
        yield "|---|---|---|---|---|"
        for each in sorted(
            converters, key=lambda each: (each.target, each.complex, each.since or 0)
        ):
            low, high = each.since or OPSETS[0], each.until or OPSETS[-1]
            operators, dtypes = _written(each, registry)
            yield (
                f"| `{each.target}`{' of complex numbers' * each.complex} | {operators or '-'} "
                f"| {low}-{high} | {dtypes or '-'} | {len(each.cases) or '-'} |"
            )


def _written(registration: Registration, registry: Registry) -> tuple[str, str]:
    """The operators that a converter's cases lead to, the most frequent first, and their dtypes."""
    import hx
    from hx.tensors.dtypes import name
    from hx.testing.calls import call_of

    opset = min(max(20, registration.since or 0), registration.until or 20)
    operators: Counter[str] = Counter()
    dtypes: dict[str, None] = {}
    for case in registration.cases:
        for dtype in case.dtypes or (None,):
            call = call_of(registration.target, case, dtype)
            at = case.opsets[0] if case.opsets else opset
            made = hx.export(call.model, call.tensors, None, opset=at, verify=False, packs=registry)
            operators.update({node.op_type for node in made.model.graph})
            dtypes.update((name(tensor.dtype), None) for tensor in call.tensors)
    ranked = sorted(operators, key=lambda each: (-operators[each], each))
    more = f" and {len(ranked) - MOST} more" if len(ranked) > MOST else ""
    return ", ".join(ranked[:MOST]) + more, ", ".join(sorted(dtypes))


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
