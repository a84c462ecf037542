"""PyTorch's own list of operators, each entry exported, run in onnxruntime and compared.

    python -m tests.suites.op_db --dtype float32 --limit 3
    python -m tests.suites.op_db --match 'linalg' --limit 0 --exporter dynamo

Writes a table to the terminal, and with --out DIR the outcomes as JSON and Markdown.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import itertools
import json
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

SECONDS_PER_SAMPLE = 30
TOGETHER = 20  # entries of a process: a fork takes longer than an export


def entries(match: str, dtype: str) -> list[str]:
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    kind = getattr(torch, dtype)
    names = [full_name(o) for o in op_db if kind in o.supported_dtypes("cpu")]
    return [n for n in names if re.search(match, n)]


def full_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def tolerance(op: Any, dtype: Any) -> tuple[float, float] | None:
    """(atol, rtol) that PyTorch's own tests allow an entry, where they say."""
    from torch.testing._internal.common_device_type import toleranceOverride

    default = {"float16": (1e-5, 1e-3), "bfloat16": (1e-5, 1.6e-2), "float32": (1e-5, 1.3e-6),
               "complex64": (1e-5, 1.3e-6), "float64": (1e-7, 1e-7),
               }.get(str(dtype).removeprefix("torch."))  # fmt: skip
    if default is None:
        return None
    atol, rtol = default
    for info in (*op.decorators, *getattr(op, "skips", ())):
        if getattr(info, "device_type", None) not in (None, "cpu"):
            continue
        for decorator in getattr(info, "decorators", [info]):
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                allowed = decorator.d[dtype]
                atol, rtol = max(atol, allowed.atol), max(rtol, allowed.rtol)
    return atol, rtol


def spread(samples: list, limit: int) -> list:
    """`limit` samples from the whole list, first and last among them; all of them for 0."""
    if not limit or len(samples) <= limit:
        return samples
    if limit == 1:
        return samples[:1]
    step = (len(samples) - 1) / (limit - 1)
    return [samples[round(i * step)] for i in range(limit)]


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One entry: the outcomes of its samples, and the worst of them."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    from . import ties
    from .attempt import WORST_FIRST, Outcome, attempt, first_line
    from .exclusions import RANDOM, drops_out, reason

    why = reason(name)
    if why:
        return {"name": name, "kind": "excluded", "detail": why, "samples": {}}
    op = next(o for o in op_db if full_name(o) == name)
    dtype = getattr(torch, options.dtype)
    torch.manual_seed(0)
    try:
        # PyTorch makes hundreds of samples for some entries: make only those that are measured.
        most = 1 if options.limit == 1 else None
        samples = list(itertools.islice(op.sample_inputs("cpu", dtype), most))
    except Exception as error:
        why = f"PyTorch makes no sample: {first_line(error)}"
        return {"name": name, "kind": "excluded", "detail": why, "samples": {}}
    function = op.inplace_variant if options.inplace and op.inplace_variant else op.op
    outcomes = []
    for sample in spread(samples, options.limit):
        if drops_out(sample):
            outcomes.append((Outcome("excluded", RANDOM), spelled((), sample.kwargs)))
            continue
        signal.alarm(SECONDS_PER_SAMPLE)
        try:
            torch.manual_seed(0)
            outcome = attempt(
                function, (sample.input, *sample.args), sample.kwargs,
                exporter=options.exporter, tolerance=tolerance(op, dtype),
                dynamic=options.dynamic, opset=options.opset, same=ties.same_picks(name, sample),
            )  # fmt: skip
        except TimeoutError:
            outcome = Outcome("crashed", f"took more than {SECONDS_PER_SAMPLE} s")
        finally:
            signal.alarm(0)
        outcome.detail = outcome.detail[:2000]
        outcomes.append((outcome, spelled((sample.input, *sample.args), sample.kwargs)))
    return summary(name, outcomes, WORST_FIRST)


def summary(name: str, outcomes: list, worst_first: tuple[str, ...]) -> dict[str, Any]:
    counts = collections.Counter(outcome.kind for outcome, _ in outcomes)
    kind = next((k for k in worst_first if counts[k]), "excluded")
    first = next(((o, s) for o, s in outcomes if o.kind == kind), None)
    every = [o for o, _ in outcomes]
    return {
        "name": name,
        "kind": kind,
        "detail": first[0].detail if first else "no samples",
        "sample": first[1] if first else "",
        "samples": dict(counts),
        "ops": sorted({op for o in every for op in o.ops}),
        "nodes": max((o.nodes for o in every), default=0),
        "escapes": sorted({e for o in every for e in o.escapes}),
    }


def spelled(args: tuple, kwargs: dict) -> str:
    """A sample's arguments with shapes for tensors, to find it again."""
    import torch

    def told(x: Any) -> str:
        if isinstance(x, torch.Tensor):
            return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
        if isinstance(x, (list, tuple)):
            return "(" + ", ".join(map(told, x)) + ")"
        return repr(x)

    words = [told(x) for x in args]
    words += [f"{k}={told(v)}" for k, v in kwargs.items()]
    return ", ".join(words)[:500]


def late(*_: Any) -> None:
    raise TimeoutError


def call(function: str, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """In another process: measure one entry."""
    signal.signal(signal.SIGALRM, late)
    module, _, attribute = function.partition(":")
    return getattr(importlib.import_module(module), attribute)(name, argparse.Namespace(**options))


def run(
    options: argparse.Namespace, names: list[str], function: str = "tests.suites.op_db:measure"
) -> list[dict[str, Any]]:
    """Measure the entries in processes, as many at a time as `--jobs` says."""
    from . import in_processes

    told = itertools.count(1)
    given = {name: value for name, value in vars(options).items() if name != "out"}
    return in_processes.run(
        "tests.suites.op_db:call",
        [[function, name, given] for name in names],
        lambda _, result: _tell(result, next(told), len(names), options),
        lambda number, why: {"name": names[number], "kind": "crashed", "detail": why,
                             "samples": {"crashed": 1}},
        jobs=options.jobs,
        together=TOGETHER,
    )  # fmt: skip


def _tell(result: dict, i: int, of: int, options: argparse.Namespace) -> None:
    if result["kind"] in ("right", "excluded") and not options.verbose:
        return
    print(f"[{i}/{of}] {result['kind']:8} {result['name']}: {result['detail'][:options.width]}",
          flush=True)  # fmt: skip
    if options.verbose and result.get("sample"):
        print("    sample", result["sample"], result["samples"], result.get("ops"))


def table(
    results: list[dict], options: argparse.Namespace, seconds: float, suite: str = "op_db"
) -> str:
    counts = collections.Counter(r["kind"] for r in results)
    counted = sum(n for kind, n in counts.items() if kind != "excluded")
    share = counts["right"] / counted if counted else 0.0
    per_sample: collections.Counter = collections.Counter()
    for r in results:
        per_sample.update(r["samples"])
    rows = "\n".join(
        f"| {kind} | {counts[kind]} | {per_sample[kind]} |"
        for kind in ("right", "refused", "wrong", "crashed", "excluded")
    )
    return (
        f"{suite}, {options.dtype}, {options.exporter}"
        f"{', every axis dynamic' if options.dynamic else ''}, "
        f"{options.limit or 'all'} samples an entry: {share:.1%} of {counted} entries right, "
        f"{seconds:.0f} s\n\n| outcome | entries | samples |\n|---|---:|---:|\n{rows}\n"
    )


def write(
    folder: Path, results: list[dict], head: str, options: argparse.Namespace, suite: str = "op_db"
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{suite}-{options.exporter}-{options.dtype}{'-dynamic' if options.dynamic else ''}"
    (folder / f"{stem}.json").write_text(json.dumps(results, indent=1) + "\n")
    lines = [head, "| entry | outcome | why |", "|---|---|---|"]
    for r in results:
        if r["kind"] != "right":
            why = " ".join(r["detail"].split())[:200].replace("|", "\\|")
            lines.append(f"| {r['name']} | {r['kind']} | {why} |")
    (folder / f"{stem}.md").write_text("\n".join(lines) + "\n")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="op_db", description=__doc__)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--match", default="", help="regular expression on the entry's name")
    parser.add_argument("--limit", type=int, default=3, help="samples an entry; 0 for all")
    parser.add_argument("--exporter", default="hx", choices=["hx", "dynamo", "torchscript"])
    parser.add_argument("--dynamic", action="store_true", help="every axis may change")
    parser.add_argument("--inplace", action="store_true", help="x.add_() instead of x.add()")
    parser.add_argument("--jobs", type=int, default=2, help="entries at a time")
    parser.add_argument("--opset", type=int, default=20)
    parser.add_argument("--out", type=Path, help="a folder for the tables")
    parser.add_argument("--width", type=int, default=200)
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args(argv)
    start = time.perf_counter()
    results = run(options, entries(options.match, options.dtype))
    head = table(results, options, time.perf_counter() - start)
    print(head)
    if options.out:
        write(options.out, results, head, options)
    return 0 if all(r["kind"] in ("right", "refused", "excluded") for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
