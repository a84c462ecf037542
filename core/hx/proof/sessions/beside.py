"""Runs of graphs with Python kernels for some operators; onnxruntime runs the rest.

onnx's reference evaluator could run both, but it does not follow the standard for every operator
(BatchNormalization of opset 9, cubic Resize, grouped ConvTranspose). So it gets only the nodes that
need a kernel, one by one. onnxruntime runs the nodes in between, in stages.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator

from ... import dtypes, tensor_bytes
from ...errors import PackError
from ...graph.file_nodes import all_nodes, bodies_of
from ...runtime import Refused, Session, as_pairs

Run = Callable[[Mapping[str, Any]], list]


def loaded(
    source: Path | bytes, kernels: Sequence[type], libraries: Sequence[Any], optimized: bool
) -> Run:
    """Return a function that runs a file with these kernels, and those of `libraries`."""
    model = onnx.load_from_string(source) if isinstance(source, bytes) else onnx.load(source)
    wanted = {(kernel.op_domain, kernel.__name__) for kernel in kernels}  # type: ignore[attr-defined]
    if _below(model, wanted):
        return _evaluated(model, kernels)
    load = functools.partial(Session, optimized=optimized, libraries=libraries)
    stages = list(_stages(model, kernels, wanted, load))
    weights = {each.name: each for each in model.graph.initializer}
    outputs = [value.name for value in model.graph.output]

    def run(feeds: Mapping[str, Any]) -> list:
        values = dict(feeds)

        def value(name: str) -> Any:
            if name not in values:
                values[name] = tensor_bytes.of_numpy(onnx.numpy_helper.to_array(weights[name]))
            return values[name]

        for stage in stages:
            values.update(stage(value))
        return [value(name) for name in outputs]

    return run


Stage = Callable[[Callable[[str], Any]], dict[str, Any]]


def _stages(
    model: onnx.ModelProto,
    kernels: Sequence[type],
    wanted: Container[tuple[str, str]],
    load: Callable[[bytes], Session],
) -> Iterator[Stage]:
    """Yield the stages in order: all that onnxruntime can run so far, then the kernels after it."""
    behind: dict[str, int] = {}  # number of kernels in sequence that a value waits for
    plain: dict[int, list[onnx.NodeProto]] = defaultdict(list)
    own: dict[int, list[onnx.NodeProto]] = defaultdict(list)
    for node in model.graph.node:
        level = max((behind.get(name, 0) for name in read(node)), default=0)
        is_own = (node.domain, node.op_type) in wanted
        (own if is_own else plain)[level].append(node)
        behind.update(dict.fromkeys(node.output, level + is_own))
    for level in sorted({*plain, *own}):
        if plain[level]:
            yield _Stretch(model, plain[level], load)
        for node in own[level]:
            yield _kernel(model, node, kernels)


class _Stretch:
    """Nodes that onnxruntime runs; the types of their inputs are known only when these arrive."""

    def __init__(
        self,
        model: onnx.ModelProto,
        nodes: list[onnx.NodeProto],
        load: Callable[[bytes], Session],
    ) -> None:
        self._model, self._nodes, self._load = model, nodes, load
        made = {name for node in nodes for name in node.output if name}
        mine = set(map(id, nodes))
        elsewhere = {value.name for value in model.graph.output}
        elsewhere.update(n for x in model.graph.node if id(x) not in mine for n in read(x))
        self.outputs = sorted(made & elsewhere)
        needed = {name for node in nodes for name in read(node)} - made
        self._weights = [each for each in model.graph.initializer if each.name in needed]
        self.inputs = sorted(needed - {each.name for each in self._weights})
        self._sessions: dict[Any, Session] = {}

    def __call__(self, value: Callable[[str], Any]) -> dict[str, Any]:
        if not self.outputs:
            return {}
        feeds = {name: as_pairs(value(name)) for name in self.inputs}
        kinds = tuple((tensor.dtype, tensor.dim()) for tensor in feeds.values())
        if kinds not in self._sessions:
            self._sessions[kinds] = self._session(feeds)
        return dict(zip(self.outputs, self._sessions[kinds].run(feeds)))

    def _session(self, feeds: Mapping[str, torch.Tensor]) -> Session:
        part = onnx.ModelProto(ir_version=self._model.ir_version)
        part.opset_import.extend(self._model.opset_import)
        part.functions.extend(self._model.functions)
        part.graph.name = self._model.graph.name
        part.graph.node.extend(self._nodes)
        part.graph.initializer.extend(self._weights)
        for name, tensor in feeds.items():
            kind = part.graph.input.add(name=name).type.tensor_type
            kind.elem_type = dtypes.number(tensor.dtype)
            kind.shape.SetInParent()
            for _ in range(tensor.dim()):
                kind.shape.dim.add()
        for name in self.outputs:
            part.graph.output.add(name=name)
        return self._load(part.SerializeToString())


def _kernel(model: onnx.ModelProto, node: onnx.NodeProto, kernels: Sequence[type]) -> Stage:
    part = onnx.ModelProto(ir_version=model.ir_version)
    part.opset_import.extend(model.opset_import)
    part.graph.name = model.graph.name
    part.graph.node.append(node)
    names = [name for name in dict.fromkeys(node.input) if name]
    for name in names:
        part.graph.input.add(name=name)
    outputs = [name for name in node.output if name]
    for name in outputs:
        part.graph.output.add(name=name)
    run = _evaluated(part, kernels)
    return lambda value: dict(zip(outputs, run({name: value(name) for name in names})))


def _evaluated(model: onnx.ModelProto, kernels: Sequence[type]) -> Run:
    """Run a whole model in onnx's evaluator."""
    try:
        evaluator = ReferenceEvaluator(model, new_ops=list(kernels))
    except Exception as error:  # its exceptions share no base
        raise Refused(error) from error

    def run(feeds: Mapping[str, Any]) -> list:
        arrays = {name: tensor_bytes.as_numpy(as_pairs(tensor)) for name, tensor in feeds.items()}
        try:
            with np.errstate(all="ignore"):  # infinity and NaN are results like others
                results: Any = evaluator.run(None, arrays)
        except PackError:  # two packs have a kernel for it
            raise
        except Exception as error:  # an error of numpy, the evaluator, or a kernel
            raise Refused(error) from error
        return list(map(tensor_bytes.of_numpy, results))

    return run


def read(node: onnx.NodeProto) -> Iterator[str]:
    """List the names that a node reads, and those that its bodies read from outside of them."""
    yield from filter(None, node.input)
    for body in bodies_of(node):
        made = {each.name for each in (*body.input, *body.initializer)}
        made.update(name for inner in body.node for name in inner.output)
        inside = (name for inner in body.node for name in read(inner))
        returned = (value.name for value in body.output)
        yield from (name for name in (*inside, *returned) if name not in made)


def _below(model: onnx.ModelProto, wanted: Container[tuple[str, str]]) -> bool:
    """Return True if a kernel is needed in the body of another node, or in a function."""
    bodies = [body for node in model.graph.node for body in bodies_of(node)]
    holders: list[Any] = [*bodies, *model.functions]
    return any((n.domain, n.op_type) in wanted for each in holders for n in all_nodes(each))
