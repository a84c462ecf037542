"""Draws models and tells what came of them; see the package."""

from __future__ import annotations

import argparse
import collections
import sys

import torch

from . import __doc__ as about
from .judge import BAD
from .processes import outcomes


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="random_models", description=(about or "").splitlines()[0]
    )
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--length", type=int, default=0, help="lines in a model; drawn if 0")
    parser.add_argument("--show", action="store_true", help="print each model")
    parser.add_argument("--prove", type=int, default=10, help="verify every so many exports")
    parser.add_argument("--refused", action="store_true", help="cut down what is refused, too")
    parser.add_argument("--told", action="store_true", help="and what is told")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    counts: collections.Counter[str] = collections.Counter()
    seen: collections.Counter[str] = collections.Counter()
    for _, kind, key, text in outcomes(options):
        counts[kind] += 1
        if key:
            seen[key] += 1
            if seen[key] == 1:
                print(text, flush=True)
    print(", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
    for key, n in seen.most_common():
        print(f"{n:5} {key}")
    return 1 if any(counts[kind] for kind in BAD) else 0


if __name__ == "__main__":
    sys.exit(main())
