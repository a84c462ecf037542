"""Record what exports of a fixed set of small models give, and compare with an earlier record.

    python -m tests.suites.oracle record /tmp/before.json --jobs 2
    python -m tests.suites.oracle compare /tmp/before.json --jobs 2
    python -m tests.suites.oracle compare /tmp/before.json --only 'loops|untils' --count 40
    python -m tests.suites.oracle compare /tmp/before.json --ignore notes --ignore recipes

Use it to show that a change of the engine changes nothing for users. A record has for each model
the hash of the file, the verdict, the error, the notes, findings and promised sizes of the report,
the names of the cases of the proof, and the recipes that were tried. Each difference is one line,
and the exit code is 1 if there is any. Records depend on the versions of torch and of everything
else that is installed: compare only records of one machine.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import hashlib
import importlib.util
import json
import multiprocessing
import re
import shutil
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# Sources of drawn models lie here: their paths are in the files, and in messages.
FOLDER = Path("/tmp/hx-oracle")
FIELDS = ("verdict", "error", "file", "promised", "findings", "notes", "cases", "recipes")

# Models drawn at random, by kind: the first seed and how many.
DRAWN = {
    "loops": (0, 30),
    "pieces": (0, 16),
    "asked": (0, 8),
    "untils": (0, 22),
    "branches": (0, 30),
    "sizes": (0, 20),
    "nested": (0, 4),
    "scripts": (0, 30),
    "models": (0, 80),
}
LIBRARIES = {
    "torchvision": ("squeezenet1_1", "shufflenet_v2_x0_5", "mobilenet_v3_small"),
    "timm": ("test_vit", "test_resnet", "test_efficientnet"),
    "transformers": (
        "bert:base", "gpt2:cache", "llama:cache", "t5:seq2seq", "mixtral:causal", "vit:images",
        "longformer:base", "qwen2_moe:causal",
    ),
}  # fmt: skip

# Models of tests/shared/search_models.py that take too long here.
SLOW = ("counted_on_one_side",)

# A model, its arguments, and further arguments of hx.export.
Call = tuple[Any, tuple, dict[str, Any]]


def names() -> list[str]:
    """Every model of the set; the order is fixed."""
    from torch._export.db.examples import all_examples

    from ..shared import search_models

    found = [f"{kind}/{first + i}" for kind, (first, n) in DRAWN.items() for i in range(n)]
    for name in sorted(all_examples()):
        found += [f"examples/{name}", f"examples/{name}/any-size"]
    found += [f"searches/{name}" for name in search_models.MODELS if name not in SLOW]
    return found + [f"{library}/{name}" for library, each in LIBRARIES.items() for name in each]


def _of_forwards(kind: str, seed: str) -> Call:
    from . import random_forwards

    model, _ = random_forwards.drawn(kind, int(seed), FOLDER)
    args, dynamic = random_forwards.given(kind)
    return model, args, {"dynamic": dynamic}


def _of_scripts(_: str, seed: str) -> Call:
    import torch

    from . import random_scripts

    made = random_scripts.scripted if int(seed) % 3 else random_scripts.plain
    function = made(int(seed), FOLDER)
    torch.manual_seed(int(seed))
    return function, (torch.randn(4),), {"dynamic": {"x": {0: "t"}}}


def _of_models(_: str, seed: str) -> Call:
    from . import random_models

    model = random_models.draw(int(seed), 0)
    tensors = tuple(model.tensors(model.sizes(), 0).values())
    return model.made(), tensors, {"dynamic": model.dynamic or None, "opset": model.opset}


def _of_examples(_: str, name: str) -> Call | None:
    import torch
    from torch._export.db.examples import all_examples

    name, _, any_size = name.partition("/")
    case = all_examples()[name]
    args, dynamic = case.example_args, None
    if any_size:
        dynamic = [
            {i: f"n{at}_{i}" for i, n in enumerate(x.shape) if n > 1}
            if isinstance(x, torch.Tensor) and x.dim()
            else None
            for at, x in enumerate(args)
        ]
        if case.example_kwargs or not any(dynamic):
            return None
    return case.model, args, {"kwargs": case.example_kwargs or None, "dynamic": dynamic}


def _of_searches(_: str, name: str) -> Call:
    FOLDER.mkdir(exist_ok=True)
    return _search_models()[name]()


@functools.cache
def _search_models() -> Any:
    """The models of searches, from a copy whose path is the same for every checkout."""
    copy = shutil.copy(ROOT / "tests" / "shared" / "search_models.py", FOLDER)
    spec = importlib.util.spec_from_file_location("search_models", copy)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MODELS


def _of_library(library: str, name: str) -> Call:
    from .attempt import _registry
    from .zoo import settled

    zoo = importlib.import_module(f"tests.suites.zoo.{library}_zoo")
    sample = settled(zoo.build(name))
    packs = _registry(*getattr(zoo, "PACKS", ()))
    return sample.model, sample.args, {
        "kwargs": sample.kwargs, "dynamic": sample.dynamic, "packs": packs,
    }  # fmt: skip


SOURCES: dict[str, Callable[[str, str], Call | None]] = {
    "scripts": _of_scripts,
    "models": _of_models,
    "examples": _of_examples,
    "searches": _of_searches,
    **dict.fromkeys(LIBRARIES, _of_library),
}


def measure(name: str) -> dict[str, Any] | None:
    """The record of one model; None for an example that takes no tensors or has no sizes."""
    import torch

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    kind, _, rest = name.partition("/")
    FOLDER.mkdir(exist_ok=True)
    call = SOURCES.get(kind, _of_forwards)(kind, rest)
    return None if call is None else _exported(name, *call)


def _exported(name: str, model: Any, args: tuple, options: dict[str, Any]) -> dict[str, Any] | None:
    import torch

    import hx

    from ..shared import recipes_tried

    tensors = torch.utils._pytree.tree_leaves((args, options.get("kwargs")))
    if not any(isinstance(x, torch.Tensor) for x in tensors):
        return None
    found: dict[str, Any] = dict.fromkeys(FIELDS)
    path = FOLDER / f"{re.sub(r'[^a-z0-9]+', '_', name)}.onnx"
    recipes: list[str] = []
    try:
        with recipes_tried.tried() as recipes:
            program = hx.export(model, args, path, **options)
    except Exception as error:
        found["verdict"] = type(error).__name__
        found["error"] = _plain(str(error))
        report = getattr(error, "report", None)
        found["findings"] = _plain(sorted(map(str, report.escapes))) if report else []
    else:
        report = program.report
        found["verdict"] = "right" if report.proof.ok else "not proved"
        found["notes"] = _plain(report.notes)
        found["promised"] = report.promised
        found["findings"] = _plain(sorted(f"{e}, {e.carried}" for e in report.escapes))
        found["cases"] = [case.name for case in report.proof.cases]
        found["file"] = _hash(path, report.data_path)
    finally:
        for each in FOLDER.glob(f"{path.name}*"):
            each.unlink()
    return {**found, "recipes": recipes}


def _hash(path: Path, data: str | None) -> str:
    """A hash of the model and its external data, without paths of this machine."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    for node in _nodes(model.graph):
        for entry in node.metadata_props:
            entry.value = _plain(entry.value)
    contents = model.SerializeToString(deterministic=True)
    return hashlib.sha256(contents + (Path(data).read_bytes() if data else b"")).hexdigest()[:20]


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


_INSTALLED = sysconfig.get_paths()["purelib"]


def _plain(text: Any) -> Any:
    """A text without paths of this machine, durations and lines of hx's own code."""
    if isinstance(text, list):
        return [_plain(each) for each in text]
    text = text.replace(str(ROOT), ".").replace(_INSTALLED, "installed")
    text = re.sub(r"/\S+/site-packages", "installed", text)
    text = re.sub(r"(\./(?:core|converters)/\S+\.py):\d+", r"\1", text)
    return re.sub(r"\b\d+(\.\d+)? s\b", "... s", text)


def recorded(chosen: list[str], jobs: int) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """The record of each model, from worker processes: a file may bring a runtime down."""
    spawn = multiprocessing.get_context("spawn")
    while chosen:
        with concurrent.futures.ProcessPoolExecutor(jobs, spawn) as pool:
            waiting = {name: pool.submit(measure, name) for name in chosen}
            chosen = []
            for name, future in waiting.items():
                try:
                    yield name, future.result()
                except BrokenProcessPool:
                    if chosen or len(waiting) == 1:
                        chosen.append(name)
                    else:  # the first that has no result, or one beside it, ended its process
                        yield name, {**dict.fromkeys(FIELDS), "verdict": "ended the process"}
                        chosen = [n for n, f in waiting.items() if _is_broken(f) and n != name]
                        break
                except Exception as error:
                    yield name, {"verdict": f"not built: {type(error).__name__}: {error}"[:300]}
            if len(waiting) == 1 and chosen:
                yield chosen[0], {**dict.fromkeys(FIELDS), "verdict": "ended the process"}
                chosen = []


def _is_broken(future: concurrent.futures.Future) -> bool:
    return isinstance(future.exception(), BrokenProcessPool)


def differences(before: dict[str, Any], after: dict[str, Any], ignored: list[str]) -> list[str]:
    """One line for each field of a model that is not as before."""
    lines = []
    for name, now in after.items():
        if name not in before:
            lines.append(f"{name}: not in the record")
            continue
        was = before[name]
        for field in FIELDS:
            old, new = was.get(field), now.get(field)
            if old != new and field not in ignored:
                lines.append(f"{name}: {field}: {_short(old, new)}")
    return lines


def _short(old: Any, new: Any) -> str:
    """Both sides of a difference; of lists, the elements that only one side has."""
    if isinstance(old, list) and isinstance(new, list) and sorted(old) != sorted(new):
        old, new = [x for x in old if x not in new], [x for x in new if x not in old]
    if isinstance(old, str) and isinstance(new, str):
        same = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), 0)
        old, new = old[max(0, same - 40) :], new[max(0, same - 40) :]
    return f"{json.dumps(old)[:400]} -> {json.dumps(new)[:400]}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("action", choices=("record", "compare", "list"))
    parser.add_argument("file", type=Path, nargs="?", default=Path("oracle.json"))
    parser.add_argument("--only", default="", help="a regular expression that names match")
    parser.add_argument("--count", type=int, default=0, help="so many, spread over the set")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--ignore", action="append", default=[], choices=FIELDS)
    asked = parser.parse_args(argv)
    chosen = [name for name in names() if re.search(asked.only, name)]
    if 0 < asked.count < len(chosen):
        chosen = [chosen[i * len(chosen) // asked.count] for i in range(asked.count)]
    if asked.action == "list":
        print("\n".join(chosen))
        return 0
    after = {name: now for name, now in recorded(chosen, asked.jobs) if now is not None}
    if asked.action == "record":
        asked.file.write_text(json.dumps(after, indent=1) + "\n")
        print(f"{len(after)} models recorded")
        return 0
    lines = differences(json.loads(asked.file.read_text()), after, asked.ignore)
    print("\n".join([*lines, f"{len(after)} models compared, {len(lines)} differences"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
