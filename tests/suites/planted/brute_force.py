"""Runs of files in onnxruntime beside each other: whether a mistake changes any result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
import torch

from .drawn_inputs import NEAR as NEAR_SIZES
from .drawn_inputs import draw, plans
from .graph_places import Seen
from .subject import Planted

CLOSE = 1e-3  # of the largest value: results that are nearer do not differ
FLOOR = 1e-6

Arrays = Mapping[str, np.ndarray]


def session(model: onnx.ModelProto | bytes, optimized: bool = True) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = model if isinstance(model, bytes) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def run(loaded: onnxruntime.InferenceSession, feeds: Arrays) -> list[np.ndarray] | None:
    """Return the results; None if the file does not run on these inputs."""
    declared = {each.name for each in loaded.get_inputs()}
    try:
        return loaded.run(None, {k: v for k, v in feeds.items() if k in declared})
    except Exception:  # onnxruntime's errors share no base
        return None


def differ(some: Sequence[np.ndarray] | None, others: Sequence[np.ndarray] | None) -> bool:
    """Return True if results differ by more than rounding."""
    if some is None or others is None or len(some) != len(others):
        return some is not others
    return any(_apart(a, b) for a, b in zip(some, others))


def _apart(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return True
    if a.dtype.kind != "f":
        return bool((a != b).any())
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return True
    if not finite.any():
        return False
    gap, most = np.abs(a[finite] - b[finite]).max(), np.abs(a[finite]).max()
    return bool(gap > CLOSE * most + FLOOR)


@dataclass
class Probe:
    """Inputs that the model takes, and the results of the correct file."""

    sizes: dict[str, int]
    values: str
    feeds: dict[str, np.ndarray]
    results: list[np.ndarray]
    is_recorded: bool = False  # at the recorded sizes

    @property
    def is_far(self) -> bool:
        return max(self.sizes.values(), default=0) > max(NEAR_SIZES)

    def __str__(self) -> str:
        sizes = ", ".join(f"{word}={n}" for word, n in self.sizes.items())
        return f"{self.values} values at {sizes}"


@dataclass
class Probes:
    """Inputs that tell correct files from others, the smallest first.

    Left out is where the correct file differs from the model, by rounding or ties.
    """

    right: list[Probe] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, planted: Planted, model: object, file: onnx.ModelProto) -> Probes:
        loaded, found = session(file), cls()
        for place, (sizes, values) in enumerate(plans(name, planted.sizes)):
            tensors = draw(planted.inputs, sizes, values, 1000 + place)
            expected = _expected(planted, model, tensors)
            if expected is None:
                continue
            feeds = {key: tensor.numpy() for key, tensor in tensors.items()}
            results = run(loaded, feeds)
            probe = Probe(sizes, values, feeds, results or [], place == 0)
            if results is None or differ(results, expected):
                found.apart.append(str(probe))
            else:
                found.right.append(probe)
        found.right.sort(key=lambda probe: sum(array.size for array in probe.feeds.values()))
        return found

    def run_with(self, loaded: onnxruntime.InferenceSession) -> bool:
        """Return True if a file runs on any of these inputs."""
        return any(run(loaded, probe.feeds) is not None for probe in self.right)

    def that_differ(self, loaded: onnxruntime.InferenceSession, far: bool) -> Iterator[Probe]:
        """Yield the inputs on which a file gives other results; with far sizes, where asked."""
        for probe in self.right:
            if (far or not probe.is_far) and differ(probe.results, run(loaded, probe.feeds)):
                yield probe


def _expected(
    planted: Planted, model: object, tensors: Mapping[str, torch.Tensor]
) -> list[np.ndarray] | None:
    args, kwargs = planted.called({k: t.clone() for k, t in tensors.items()})
    try:
        with torch.no_grad():
            result = model(*args, **kwargs)  # type: ignore[operator]
    except Exception:  # the model's own error: it refuses these inputs
        return None
    leaves = torch.utils._pytree.tree_leaves(result)
    return [each.numpy() for each in leaves if isinstance(each, torch.Tensor)]


def seen(file: onnx.ModelProto, probes: Sequence[Probe]) -> Seen:
    """Run a file at some sizes, with every value of its graph as a result."""
    tapped = onnx.ModelProto()
    tapped.CopyFrom(file)
    given = {each.name for each in file.graph.output}
    made = [name for node in file.graph.node for name in node.output if name and name not in given]
    del tapped.graph.value_info[:]
    for name in made:
        tapped.graph.output.add(name=name)
    loaded = session(tapped, optimized=False)
    names = [each.name for each in loaded.get_outputs()]
    runs = [run(loaded, probe.feeds) for probe in probes]
    return Seen.of([dict(zip(names, each)) for each in runs if each is not None])


def at_other_sizes(probes: Sequence[Probe]) -> Iterator[Probe]:
    """Yield inputs at the recorded sizes, and one for each size that differs."""
    first = max(probes, key=lambda probe: probe.is_recorded)
    yield first
    for word, n in first.sizes.items():
        others = (p for p in probes if 1 < p.sizes[word] != n and p.sizes[word] < 60)
        yield from list(others)[:1]
