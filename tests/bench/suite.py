"""The fixed set of models: ratios, geometric means, and whether the targets are met.

    python tests/bench/suite.py                      # the whole set, beside both rivals
    python tests/bench/suite.py vit_b swin --rounds 3 --against dynamo
    python tests/bench/suite.py --chains             # time per node, from 100 to 50,000 nodes
    python tests/bench/suite.py --operators swin     # where our graph differs from dynamo's

One thread unless told otherwise: two ways of sharing cores are not what is compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

from models import CHAINS, MODELS

from hx.bench import Job, Result, Row, compare

MODELS_FILE = Path(__file__).with_name("models.py")
LARGE = 100_000_000  # bytes of weights from which the floor is a target

HEADS = (
    f"{'model':<14}{'floor':>9}{'hx':>9}{'/floor':>8}{'dynamo':>9}{'/hx':>7}{'script':>9}{'/hx':>7}"
    f"{'proved':>9}{'/least':>7}{'memory':>8}{'nodes':>7}{'dynamo':>7}"
    f"{'latency':>10}{'of dyn.':>8}{'of scr.':>8}{'error':>9}"
)


def measured(name: str, given: argparse.Namespace) -> Result:
    job = Job(
        f"{MODELS_FILE}:{name}",
        dynamic=MODELS.get(name, "").split(),
        threads=given.threads,
        opset=given.opset,
        use=given.use,
    )
    return compare(job, given.against, given.rounds, given.patience, given.limit)


def over(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None


def at_least(row: Row | None) -> float | None:
    """The seconds of an export; of one that was not through, those that it had."""
    return None if row is None else row.times.seconds or row.beyond


def ratios(found: Result) -> dict[str, float | None]:
    """What the targets are about; None where a side has failed."""
    sides = {row.side: row for row in found.rows}
    floor, ours = sides["floor"], sides["hx"]
    dynamo, script = sides.get("dynamo"), sides.get("torchscript")
    memory = None
    if ours.memory is not None and floor.memory is not None:
        memory = max(0, ours.memory - floor.memory)
    return {
        "floor": over(ours.times.seconds, floor.times.seconds),
        "dynamo": over(at_least(dynamo), ours.times.seconds),
        "torchscript": over(at_least(script), ours.times.seconds),
        "proved": over(ours.times.proved, found.least),
        "dynamo_proved": over(at_least(dynamo), ours.times.proved),
        "memory": over(memory, floor.file.size),
        "latency": over(1.0, dynamo.latency_of_hx if dynamo else None),
        "latency_torchscript": over(1.0, script.latency_of_hx if script else None),
    }


def line(name: str, found: Result) -> str:
    sides = {row.side: row for row in found.rows}
    ratio = ratios(found)

    def value(side: str, field: str, form: str, scale: float = 1.0) -> str:
        got = sides[side].to_dict().get(field) if side in sides else None
        if got is None and field == "seconds" and side in sides and sides[side].beyond:
            return f">{sides[side].beyond:g}"
        return "-" if got is None else format(got * scale, form)

    def times(key: str, form: str = ".2f", unit: str = "x") -> str:
        return "-" if ratio[key] is None else format(ratio[key], form) + unit

    cells = [
        (value("floor", "seconds", ".3f"), 9), (value("hx", "seconds", ".3f"), 9),
        (times("floor"), 8), (value("dynamo", "seconds", ".2f"), 9),
        (times("dynamo", ".1f"), 7), (value("torchscript", "seconds", ".2f"), 9),
        (times("torchscript", ".1f"), 7), (value("hx", "proved", ".3f"), 9),
        (times("proved", ".2f"), 7), (times("memory", ".1%", ""), 8),
        (value("hx", "nodes", ",d", 1), 7), (value("dynamo", "nodes", ",d", 1), 7),
        (value("hx", "latency", ".2f", 1e3) + "ms", 10), (times("latency"), 8),
        (times("latency_torchscript"), 8), (value("hx", "share", ".1e"), 9),
    ]  # fmt: skip
    lines = [f"{name:<14}" + "".join(f"{cell:>{width}}" for cell, width in cells)]
    for row in found.rows:
        why = row.failed or row.wrong or row.proof_failed
        lines += [f"    {row.side}: {why[:150]}"] if why else []
    return "\n".join(lines)


def targets(results: dict[str, Result]) -> list[str]:
    found = {name: ratios(result) for name, result in results.items()}
    large = [n for n, r in results.items() if (r["floor"].file.size or 0) > LARGE]
    lines = [
        _mean(found, "dynamo", 20, True, "faster than dynamo"),
        _mean(found, "torchscript", 3, True, "faster than TorchScript"),
        _mean(found, "proved", 2.5, False, "the least of an export with its proof"),
        _worst(found, "proved", 4, "the least of an export with its proof", list(found)),
        _mean(found, "dynamo_proved", 5, True, "faster with proof than dynamo without"),
        _worst(
            found, "dynamo_proved", 1, "faster with proof than dynamo without", list(found), True
        ),
        _mean(found, "latency", 1.0, False, "dynamo's latency"),
        _worst(found, "floor", 1.3, "the floor", large),
        _worst(found, "memory", 0.05, "of the weights, above the forward's own peak", large),
        _worst(found, "latency", 1.1, "dynamo's latency", list(found)),
    ]
    return [text for text in lines if text]


def _mean(found: dict, key: str, target: float, at_least: bool, what: str) -> str:
    values = [each[key] for each in found.values() if each[key]]
    if not values:
        return ""
    mean = statistics.geometric_mean(values)
    met = mean >= target if at_least else mean <= target
    sign = "at least" if at_least else "at most"
    return f"{_mark(met)} {mean:.2f}x {what}, geometric mean of {len(values)} ({sign} {target})"


def _worst(
    found: dict, key: str, target: float, what: str, names: list[str], at_least: bool = False
) -> str:
    over = {n: found[n][key] for n in names if found[n][key] is not None}
    if not over:
        return ""
    missed = {n: v for n, v in over.items() if (v < target if at_least else v > target)}
    ordered = sorted(missed.items(), key=lambda i: i[1], reverse=not at_least)
    told = ", ".join(f"{n} {v:.2f}" for n, v in ordered)
    sign = "at least" if at_least else "at most"
    return (
        f"{_mark(not missed)} {sign} {target}x {what}: {len(over) - len(missed)} of {len(over)}"
        + (f"; missed by {told}" if missed else "")
    )


def _mark(met: bool) -> str:
    return "met   " if met else "MISSED"


def per_node(results: dict[str, Result]) -> list[str]:
    lines = []
    for name, found in results.items():
        row = found["hx"]
        if row.times.seconds and row.file.nodes:
            each = row.times.seconds / row.file.nodes * 1e6
            lines.append(
                f"{name:<14}{row.file.nodes:>8,} nodes {row.times.seconds:>8.2f} s {each:>8.1f} µs"
            )
    return lines


def operators(found: Result) -> list[str]:
    ours, theirs = found["hx"].operators, found["dynamo"].operators
    names = sorted(
        ours.keys() | theirs.keys(), key=lambda n: -abs(ours.get(n, 0) - theirs.get(n, 0))
    )
    rows = [f"{n:<28}{ours.get(n, 0):>7}{theirs.get(n, 0):>7}" for n in names]
    return [f"{'operator':<28}{'hx':>7}{'dynamo':>7}", *rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--against", default="dynamo,torchscript")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--patience", type=float, default=30.0)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a rival's export")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--opset", type=int, default=20)
    parser.add_argument("--use", action="append", default=[])
    parser.add_argument("--chains", action="store_true")
    parser.add_argument("--operators", action="store_true")
    parser.add_argument("--json", type=Path, help="a file for all that was measured")
    given = parser.parse_args()
    unknown = [name for name in given.models if name not in (*MODELS, *CHAINS)]
    if unknown:
        parser.error(f"no such model: {', '.join(unknown)}; there are {', '.join(MODELS)}")
    given.against = [] if given.against == "none" or given.chains else given.against.split(",")
    names = given.models or (CHAINS if given.chains else list(MODELS))
    print(HEADS, flush=True)
    results: dict[str, Result] = {}
    for name in names:
        results[name] = found = measured(name, given)
        print(line(name, found), flush=True)
        if given.operators:
            print("\n".join(operators(found)), flush=True)
        if given.json:
            data = {n: r.to_dict() for n, r in results.items()}
            given.json.write_text(json.dumps(data, indent=1))
    print("\n".join(per_node(results) if given.chains else targets(results)))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
