"""PyTorch's own list of modules, each in eval mode, exported, run in onnxruntime and compared.

    python -m tests.suites.module_db --dtype float32
    python -m tests.suites.module_db --match 'RNN|LSTM' --exporter dynamo

Writes a table to the terminal, and with --out DIR the outcomes as JSON and Markdown.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from . import op_db


def entries(match: str, dtype: str) -> list[str]:
    import torch
    from torch.testing._internal.common_modules import module_db

    kind = getattr(torch, dtype)
    names = [m.name for m in module_db if kind in m.dtypes]
    return [n for n in names if re.search(match, n)]


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One module: the outcomes of its samples, and the worst of them."""
    import torch
    from torch.testing._internal.common_modules import module_db

    from .attempt import WORST_FIRST, Outcome, attempt, first_line

    info = next(m for m in module_db if m.name == name)
    dtype = getattr(torch, options.dtype)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    try:
        samples = info.module_inputs_func(
            info, device="cpu", dtype=dtype, requires_grad=False, training=False
        )
    except Exception as error:
        why = f"PyTorch makes no sample: {first_line(error)}"
        return {"name": name, "kind": "excluded", "detail": why, "samples": {}}
    outcomes = []
    for sample in op_db.spread(samples, options.limit):
        made, given = sample.constructor_input, sample.forward_input
        signal.alarm(op_db.SECONDS_PER_SAMPLE)
        try:
            torch.manual_seed(0)
            outcome = attempt(
                _module(info, made, given, dtype), given.args, given.kwargs,
                exporter=options.exporter, tolerance=op_db.tolerance(info, dtype),
                dynamic=options.dynamic, opset=options.opset,
            )  # fmt: skip
        except TimeoutError:
            outcome = Outcome("crashed", f"took more than {op_db.SECONDS_PER_SAMPLE} s")
        finally:
            signal.alarm(0)
        outcome.detail = outcome.detail[:2000]
        words = [f"{sample.desc}:", op_db.spelled(made.args, made.kwargs), "of"]
        outcomes.append((outcome, " ".join([*words, op_db.spelled(given.args, given.kwargs)])))
    return op_db.summary(name, outcomes, WORST_FIRST)


def _module(info: Any, made: Any, given: Any, dtype: Any) -> Any:
    """The module with parameters that show: no zeros and ones, statistics of its own."""
    import torch

    from .attempt import copied
    from .zoo import uneven

    module = info.module_cls(*made.args, **made.kwargs).to(dtype).eval()
    if info.is_lazy:  # its parameters come into being with the first call
        with torch.no_grad():
            module(*copied(given.args), **copied(given.kwargs))
    return uneven(module)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="module_db", description=__doc__)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--match", default="", help="regular expression on the module's name")
    parser.add_argument("--limit", type=int, default=0, help="samples a module; 0 for all")
    parser.add_argument("--exporter", default="hx", choices=["hx", "dynamo", "torchscript"])
    parser.add_argument("--dynamic", action="store_true", help="every axis may change")
    parser.add_argument("--jobs", type=int, default=2, help="modules at a time")
    parser.add_argument("--opset", type=int, default=20)
    parser.add_argument("--out", type=Path, help="a folder for the tables")
    parser.add_argument("--width", type=int, default=200)
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args(argv)
    start = time.perf_counter()
    results = op_db.run(
        options, entries(options.match, options.dtype), "tests.suites.module_db:measure"
    )
    head = op_db.table(results, options, time.perf_counter() - start, "module_db")
    print(head)
    if options.out:
        op_db.write(options.out, results, head, options, "module_db")
    return 0 if all(r["kind"] in ("right", "excluded") for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
