"""Whole models of public libraries, random weights: exported, proved at other sizes, counted.

    python -m tests.suites.models --suite torchvision --match resnet
    python -m tests.suites.models --suite transformers --limit 30 --out /tmp/tables
    python -m tests.suites.models --suite timm --any-size   # pictures of any height and width

right      the file gives what the model gives: on the recorded inputs, on other ones, at every
           other size of its dynamic axes
refused    the exporter said what it cannot do
wrong      the proof found a difference: nothing was written, and the export failed
crashed    anything else, or longer than --seconds
excluded   the library itself cannot build or run it here
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

SUITES = ("torchvision", "timm", "transformers", "libraries")
ORDER = ("right", "refused", "wrong", "crashed", "excluded")


def zoo(suite: str) -> Any:
    import importlib

    return importlib.import_module(f"tests.suites.zoo.{suite}_zoo")


def chosen(suite: str, match: str, limit: int) -> list[str]:
    """The names that match; `limit` of them, spread over the whole list."""
    found = [n for n in zoo(suite).names() if re.search(match, n)]
    if not limit or len(found) <= limit:
        return found
    return [found[i * len(found) // limit] for i in range(limit)]


def measure(suite: str, name: str, opset: int, any_size: bool = False) -> dict[str, Any]:
    """One model: what came of its export, and what it took."""
    import warnings

    import torch

    import hx

    from .attempt import _registry, first_line
    from .zoo import Unbuildable, of_any_size, settled

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    out: dict[str, Any] = {"suite": suite, "name": name, "detail": "", "nodes": 0}
    start = time.perf_counter()
    try:
        sample = settled(zoo(suite).build(name))
        sample = of_any_size(sample) if any_size else sample
    except Unbuildable as error:
        return {**out, "kind": "excluded", "detail": str(error), "seconds": 0.0}
    built = time.perf_counter()
    out["build"] = round(built - start, 2)
    try:
        program = hx.export(
            sample.model, sample.args, kwargs=sample.kwargs, dynamic=sample.dynamic, opset=opset,
            packs=_registry(*getattr(zoo(suite), "PACKS", ())),
        )  # fmt: skip
    except hx.ConverterError as error:
        out.update(kind="crashed", detail=f"ConverterError: {error}")
    except hx.VerificationError as error:
        out.update(kind="wrong", detail=str(error))
    except hx.HxError as error:
        out.update(kind="refused", detail=f"{type(error).__name__}: {error}")
    except Exception as error:
        out.update(kind="crashed", detail=f"{type(error).__name__}: {first_line(error)}")
    else:
        report = program.report
        out.update(
            kind="right", nodes=report.nodes, notes=report.notes, promised=report.promised,
            escapes=[str(e) for e in report.escapes],
            timings={k: round(v, 2) for k, v in report.timings.items()},
        )  # fmt: skip
    out["detail"] = out["detail"][:3000]
    out["seconds"] = round(time.perf_counter() - built, 2)
    return out


def _failed(suite: str, name: str, why: str) -> dict[str, Any]:
    return {"suite": suite, "name": name, "kind": "crashed", "detail": why, "nodes": 0,
            "seconds": 0.0}  # fmt: skip


def run(suite: str, names: list[str], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure each model in a process of its own, as many at a time as `--jobs` says."""
    from . import in_processes

    told = itertools.count(1)
    return in_processes.run(
        "tests.suites.models:measure",
        [[suite, name, options.opset, options.any_size] for name in names],
        lambda _, result: _tell(result, next(told), len(names), options),
        lambda number, why: _failed(suite, names[number], why),
        options.seconds,
        options.jobs,
    )


def _tell(result: dict, i: int, of: int, options: argparse.Namespace) -> None:
    if result["kind"] == "right" and not options.verbose:
        return
    detail = result["detail"] if options.verbose else _short(result["detail"])
    print(f"[{i}/{of}] {result['kind']:8} {result['name']} {result['seconds']:.1f} s "
          f"{result['nodes'] or ''} {detail}", flush=True)  # fmt: skip
    for line in (*result.get("notes", ()), *result.get("escapes", ())):
        if options.verbose:
            print("    ", line)


def _short(text: str) -> str:
    return " | ".join(line.strip() for line in text.splitlines() if line.strip())[:400]


def table(results: list[dict], suite: str, seconds: float) -> str:
    counts = collections.Counter(r["kind"] for r in results)
    counted = sum(n for kind, n in counts.items() if kind != "excluded")
    share = counts["right"] / counted if counted else 0.0
    cells = " | ".join(str(counts[kind]) for kind in ORDER)
    return (
        f"| suite | {' | '.join(ORDER)} | right of all | seconds |\n"
        f"|---|{'---:|' * (len(ORDER) + 2)}\n"
        f"| {suite} | {cells} | {share:.1%} | {seconds:.0f} |\n"
    )


def write(folder: Path, suite: str, results: list[dict], head: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{suite}.json").write_text(json.dumps(results, indent=1) + "\n")
    lines = [head, "", "| model | outcome | nodes | seconds | why |", "|---|---|---:|---:|---|"]
    for r in results:
        why = _short(r["detail"])[:200].replace("|", "/")
        lines.append(f"| {r['name']} | {r['kind']} | {r['nodes']} | {r['seconds']} | {why} |")
    (folder / f"{suite}.md").write_text("\n".join(lines) + "\n")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="models", description=__doc__)
    parser.add_argument("--suite", choices=SUITES, action="append")
    parser.add_argument("--match", default="", help="regular expression on the model's name")
    parser.add_argument("--limit", type=int, default=0, help="models a suite; 0 for all")
    parser.add_argument("--seconds", type=int, default=120, help="the longest a model may take")
    parser.add_argument("--jobs", type=int, default=2, help="models at a time")
    parser.add_argument("--opset", type=int, default=20)
    parser.add_argument("--any-size", action="store_true", help="height and width may change, too")
    parser.add_argument("--out", type=Path, help="a folder for the tables")
    parser.add_argument("--list", action="store_true", help="the names, and nothing else")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args(argv)
    clean = True
    for suite in options.suite or SUITES:
        names = chosen(suite, options.match, options.limit)
        if options.list:
            print("\n".join(names))
            continue
        start = time.perf_counter()
        results = run(suite, names, options)
        head = table(results, suite, time.perf_counter() - start)
        print(head)
        if options.out:
            write(options.out, suite, results, head)
        clean = clean and all(r["kind"] in ("right", "excluded") for r in results)
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
