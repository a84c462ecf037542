"""Export models in the styles that people write, and compare the files with them by brute force.

    python -m tests.suites.promise                                  # every family
    python -m tests.suites.promise --family masks --jobs 1
    python -m tests.suites.promise --match '^loops/running_sum$'

Each is exported with the default proof. Then its file runs in onnxruntime at sizes from 1 to 1,000
and with values of several kinds, none of which hx has drawn.

right      equal wherever the model itself takes the inputs
promised   equal at the sizes that the file is promised for
told       differs, and a finding of the report, open or with a line, says so
refused    the export said that, or why, it cannot
stops      onnxruntime stops with an error on inputs that the model takes, within the promise
crashed    an error that is none of hx's
silent     differs, and nothing in the report says so
"""

from __future__ import annotations

import argparse
import collections
import inspect
import json
import re
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from .. import in_processes
from .judge import BAD, VERDICTS
from .listing import FAMILIES, named, names


def table(results: list[dict[str, Any]]) -> str:
    """Return the counts of the verdicts by family."""
    counts: dict[str, collections.Counter] = {}
    for result in results:
        family = result["model"].partition("/")[0]
        counts.setdefault(family, collections.Counter())[result["kind"]] += 1
    counts["all"] = sum(counts.values(), collections.Counter())
    lines = ["| family | models | " + " | ".join(VERDICTS) + " |"]
    lines.append("|---|---:|" + "---:|" * len(VERDICTS))
    for family, of in counts.items():
        cells = [family, str(of.total()), *(str(of[each]) for each in VERDICTS)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def described(result: dict[str, Any]) -> str:
    """Return the lines about one model, with its source if it is silently wrong or crashed."""
    name = result["model"]
    lines = []
    if result["kind"] in BAD:
        command = f"python -m tests.suites.promise --match {shlex.quote(f'^{re.escape(name)}$')}"
        lines.append(f"--- {result['kind']}: {command}")
        lines.append(f"    {result['detail']}")
        if result.get("at"):
            lines.append(f"    with {result['at']}")
        listed = named(name)
        lines += [f"    {line}" for line in inspect.getsource(listed.source).splitlines()]
    elif result["kind"] in ("refused", "told"):
        detail = " ".join(result["detail"].split())[:300]
        lines.append(f"{name}: {result['kind']}: {detail} {result.get('at', '')}".rstrip())
        found = [f for f in result.get("findings", ()) if not f.startswith("followed")]
        lines += [f"    {each[:200]}" for each in found[:2]]
    elif result["kind"] == "promised":
        lines.append(f"{name}: promised for {', '.join(result['promised'].values())} only")
    if result.get("runtime"):
        lines.append(f"{name}: onnxruntime differs from the file with {result['runtime'][0]}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="promise",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--family", choices=FAMILIES, action="append")
    parser.add_argument("--match", default="", help="a regular expression on family/model")
    parser.add_argument("--limit", type=int, default=0, help="models, spread over all; 0 for all")
    parser.add_argument("--jobs", type=int, default=2, help="models at a time")
    parser.add_argument("--seconds", type=int, default=120, help="the longest a model may take")
    parser.add_argument("--out", type=Path, help="a file to add each result to, a line of JSON")
    parser.add_argument("--list", action="store_true", help="the names, and nothing else")
    options = parser.parse_args(argv)
    wanted = options.family or FAMILIES
    chosen = [n for n in names() if n.partition("/")[0] in wanted and re.search(options.match, n)]
    if 0 < options.limit < len(chosen):
        chosen = [chosen[i * len(chosen) // options.limit] for i in range(options.limit)]
    if options.list:
        print("\n".join(chosen))
        return 0

    def tell(number: int, result: dict[str, Any]) -> None:
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
        if text := described(result):
            print(text, flush=True)

    def failed(number: int, why: str) -> dict[str, Any]:
        return {"model": chosen[number], "kind": "crashed", "detail": why, "seconds": 0.0}

    start = time.perf_counter()
    results = in_processes.run(
        "tests.suites.promise.judge:measure", [[n] for n in chosen], tell, failed,
        options.seconds, options.jobs,
    )  # fmt: skip
    print(f"\n{table(results)}\n")
    rounded = sum(bool(result.get("rounding")) for result in results)
    runtime = sum(bool(result.get("runtime")) for result in results)
    print(f"{rounded} differ by rounding with some inputs, {runtime} by a fault of onnxruntime")
    slowest = sorted(results, key=lambda result: -result["seconds"])[:10]
    print("slowest: " + ", ".join(f"{r['model']} {r['seconds']:.1f} s" for r in slowest))
    print(f"{len(results)} models in {time.perf_counter() - start:.0f} s")
    return 1 if any(result["kind"] in BAD for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
