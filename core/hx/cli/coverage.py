"""`python -m hx.cli.coverage`: the coverage of the standard converters as markdown, by subject.

`--update FILE` and `--check FILE` work as in `hx.cli.reference`, between `<!-- coverage -->` and
`<!-- /coverage -->`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hx.budget import BUDGET
from hx.cli.readme_section import Section
from hx.config import Settings
from hx.packs.registry import Registry
from hx.registration import OPSETS, Registration
from hx.text import first_few


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
    """Return the operators in a converter's cases, most frequent first, and their dtypes."""
    import hx
    from hx.dtypes import name
    from hx.testing.calls import call_of

    opset = min(max(20, registration.since or 0), registration.until or 20)
    operators: Counter[str] = Counter()
    dtypes: dict[str, None] = {}
    for case in registration.cases:
        for dtype in case.dtypes or (None,):
            call = call_of(registration.target, case, dtype)
            at = case.opsets[0] if case.opsets else opset
            made = hx.export(call.model, call.tensors, None, opset=at, verify=False, packs=registry)
            operators.update({node.op_type for node in made.parts.graph.node})
            dtypes.update((name(tensor.dtype), None) for tensor in call.tensors)
    ranked = sorted(operators, key=lambda each: (-operators[each], each))
    return first_few(ranked, BUDGET.shown.operators), ", ".join(sorted(dtypes))


SECTION = Section("coverage", "hx.cli.coverage", markdown)

if __name__ == "__main__":
    SECTION.main()
