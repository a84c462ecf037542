"""Plant mistakes in the graphs of correct files, and count those that the proof finds.

    python -m tests.suites.planted                                   # every model and every kind
    python -m tests.suites.planted --match attention --kind mask --kind rows
    python -m tests.suites.planted --match '^patches$' --kind order --only 'Concat@3 swapped'

A mistake counts if onnxruntime gives other results with it than without it, on inputs that the
model takes and that are not drawn by hx. The file with the mistake is proved like the correct one.

found      the proof refuses the file
excluded   the proof limits the promise to sizes at which the results are equal
missed     the proof accepts the file, and promises sizes at which results differ
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from .. import in_processes
from .kinds import KINDS
from .real_models import names

VERDICTS = ("no difference", "does not run", "found", "excluded", "missed")


def chosen(match: str, limit: int) -> list[str]:
    """Return the names that match; `limit` of them, spread over the whole list."""
    found = [name for name in names() if re.search(match, name)]
    if not limit or len(found) <= limit:
        return found
    return [found[i * len(found) // limit] for i in range(limit)]


def table(results: list[dict[str, Any]]) -> str:
    """Return a table of the mistakes by kind, and both shares."""
    counts: dict[str, collections.Counter] = {kind: collections.Counter() for kind in KINDS}
    for result in results:
        for row in result["mistakes"]:
            counts[row["kind"]][row["verdict"]] += 1
    counts["all"] = sum(counts.values(), collections.Counter())
    head = ["kind", "planted", *VERDICTS, "found", "found or excluded"]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for kind, of in counts.items():
        total = of["found"] + of["excluded"] + of["missed"]
        shares = [f"{100 * n / total:.1f} %" if total else "-"
                  for n in (of["found"], of["found"] + of["excluded"])]  # fmt: skip
        cells = [kind, str(of.total()), *(str(of[v]) for v in VERDICTS), *shares]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def told(result: dict[str, Any]) -> str:
    """Return the lines about one model: what is not as it should be."""
    lines = []
    name = result["model"]
    if result["export"] != "ok":
        lines.append(f"{name}: not exported: {result['export']}")
    if result.get("promised"):
        lines.append(f"{name}: promised for {', '.join(result['promised'].values())} only")
    if result["apart"]:
        lines.append(f"{name}: rounding or ties with {'; '.join(result['apart'][:3])}")
    for row in result["mistakes"]:
        if row["verdict"] == "missed":
            only = [f"--match {shlex.quote(f'^{re.escape(name)}$')}", f"--kind {row['kind']}",
                    f"--only {shlex.quote(row['mistake'])}"]  # fmt: skip
            lines.append(f"missed: python -m tests.suites.planted {' '.join(only)}")
            lines.append(f"        shows with {'; '.join(row['shows'][:4])}")
            if row["accepted"]:
                lines.append(f"        accepted: {row['accepted'][0]}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="planted", description=__doc__)
    parser.add_argument("--match", default="", help="regular expression on the model's name")
    parser.add_argument("--limit", type=int, default=0, help="models; 0 for all")
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--each", type=int, default=3, help="mistakes of a kind in a model")
    parser.add_argument("--only", default="", help="the one mistake with this name")
    parser.add_argument("--jobs", type=int, default=2, help="models at a time")
    parser.add_argument("--seconds", type=int, default=300, help="the longest a model may take")
    parser.add_argument("--out", type=Path, help="a file to add each result to, a line of JSON")
    parser.add_argument("--list", action="store_true", help="the names, and nothing else")
    options = parser.parse_args(argv)
    chosen_names = chosen(options.match, options.limit)
    if options.list:
        print("\n".join(chosen_names))
        return 0

    def tell(number: int, result: dict[str, Any]) -> None:
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
        if text := told(result):
            print(text, flush=True)

    def failed(number: int, why: str) -> dict[str, Any]:
        return {"model": chosen_names[number], "export": why, "mistakes": [], "apart": []}

    start = time.perf_counter()
    kinds = options.kind or list(KINDS)
    calls = [[name, kinds, options.each, options.only] for name in chosen_names]
    results = in_processes.run(
        "tests.suites.planted.judge:measure", calls, tell, failed, options.seconds, options.jobs
    )
    print(f"\n{table(results)}\n")
    proofs = sum(result.get("proof", 0) for result in results)
    print(f"{len(results)} models in {time.perf_counter() - start:.0f} s; ", end="")
    print(f"the proofs of their correct files took {proofs:.1f} s")
    bad = [r for r in results if r["export"] != "ok" or r["promised"]]
    missed = any(row["verdict"] == "missed" for r in results for row in r["mistakes"])
    return 1 if bad or missed else 0


if __name__ == "__main__":
    sys.exit(main())
