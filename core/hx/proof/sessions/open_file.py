"""A file that is compared several times: it is read once, and loaded once in each mode."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hx.budget import BUDGET
from hx.graph.file_nodes import all_nodes
from hx.proof.random.randomness import drawn
from hx.proof.sessions.session_mode import is_optimised
from hx.runtime import Session
from hx.saving import model_file

if TYPE_CHECKING:
    import onnx

Run = Callable[[Mapping[str, Any]], list]


class OpenFile:
    """A file, or a serialised model, and its sessions. Those of heavy files are not kept.

    `custom_ops` are as for `prove`.
    """

    def __init__(self, source: Path | bytes, custom_ops: Sequence[Any] = ()) -> None:
        self.source, self.custom_ops = source, custom_ops
        self._runs: dict[bool, Run] = {}

    @functools.cached_property
    def model(self) -> onnx.ModelProto:
        """The model without its weights."""
        return model_file.skeleton(self.source)

    @functools.cached_property
    def depth(self) -> int:
        """The longest path through the graph, in nodes."""
        return depth(self.model)

    @functools.cached_property
    def drawn(self) -> set[str]:
        """The names of the values that follow from random numbers."""
        return drawn(self.model)

    @functools.cached_property
    def optimised(self) -> bool:
        """True if the file runs with onnxruntime's optimisations."""
        return is_optimised(self.source)

    @functools.cached_property
    def _opened(self) -> tuple[str, Callable[[bool], Run]]:
        return loader(self.source, self.model, self.custom_ops)

    @property
    def runtime(self) -> str:
        return self._opened[0]

    def load(self, optimized: bool) -> Run:
        """Return a function that runs the file."""
        run = self._runs.get(optimized)
        if run is None:
            run = self._opened[1](optimized)
            if self._is_light:
                self._runs[optimized] = run
        return run

    @functools.cached_property
    def _is_light(self) -> bool:
        if isinstance(self.source, bytes):
            return len(self.source) <= BUDGET.bytes.light_weights
        return sum(map(sum, model_file.weight_sizes(self.source))) <= BUDGET.bytes.light_weights


def depth(model: onnx.ModelProto) -> int:
    """Return the longest path through the graph, in nodes; a function counts all its nodes."""
    functions = {(f.domain, f.name): len(f.node) for f in model.functions}
    reached: dict[str, int] = {}
    for node in model.graph.node:
        own = functions.get((node.domain, node.op_type), 1)
        own += sum(len(attribute.g.node) for attribute in node.attribute)
        at = own + max((reached.get(name, 0) for name in node.input), default=0)
        for name in node.output:
            reached[name] = at
    return max(reached.values(), default=0)


def loader(
    source: Path | bytes, model: onnx.ModelProto, custom_ops: Sequence = ()
) -> tuple[str, Callable[[bool], Run]]:
    """Return the name of the runtime, and a function to load the file: `load(optimized)(feeds)`.

    The runtime is onnxruntime; onnx's evaluator runs the nodes that have kernels in Python.
    """
    import onnxruntime

    name = f"onnxruntime {onnxruntime.__version__}"
    kernels = [op for op in custom_ops if isinstance(op, type) and uses_kernel(op, model)]
    names = ", ".join(sorted(f"{k.op_domain}::{k.__name__}" for k in kernels))  # type: ignore[attr-defined]
    libraries = [op for op in custom_ops if not isinstance(op, type)]
    if kernels:
        from hx.proof.sessions import beside

        name += f", and reference kernels ({names})"
        return name, lambda optimized: beside.loaded(source, kernels, libraries, optimized)
    return name, lambda optimized: Session(source, optimized=optimized, libraries=libraries).run


def uses_kernel(kernel: Any, model: onnx.ModelProto) -> bool:
    """Return True if a node of the file, at any depth, has the kernel's operator."""
    wanted = (kernel.op_domain, kernel.__name__)
    holders: list[Any] = [model.graph, *model.functions]
    return any((n.domain, n.op_type) == wanted for each in holders for n in all_nodes(each))
