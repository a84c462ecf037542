"""One call exported, run in onnxruntime and compared with PyTorch: what came of it.

right      the file computes what PyTorch computes, within PyTorch's own tolerance
refused    the exporter said what it cannot do
wrong      the file runs, and computes something else
crashed    anything else: an exporter's own error, a file that does not load or run
excluded   nothing that a graph could say: see exclusions.py
"""

from __future__ import annotations

import functools
import importlib
import io
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from hx import runtime
from hx.packs import nesting

WORST_FIRST = ("crashed", "wrong", "refused", "right", "excluded")


@dataclass
class Outcome:
    kind: str
    detail: str = ""
    nodes: int = 0
    ops: list[str] = field(default_factory=list)
    escapes: list[str] = field(default_factory=list)


class Call(torch.nn.Module):
    """A function as a model: its tensors are the inputs of the graph."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


@dataclass
class Exported:
    """A file in memory, and what its inputs are called, in the order of the tensors given."""

    data: bytes
    inputs: list[str]
    nodes: int = 0
    ops: list[str] = field(default_factory=list)
    escapes: list[str] = field(default_factory=list)


class Refused(Exception):
    """An exporter said that it cannot, and why."""


def tensors_of(args: tuple, kwargs: dict) -> list[torch.Tensor]:
    leaves = [leaf for x in (*args, *kwargs.values()) for _, leaf in nesting.leaves(x, "")]
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def copied(tree: Any) -> Any:
    """Arguments of their own for every use: some calls write to theirs."""
    return nesting.replace(
        tree, lambda _, leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf
    )


def with_hx(model, args, kwargs, dynamic=None, opset=20) -> Exported:
    import hx

    try:
        program = hx.export(
            model,
            args,
            kwargs=kwargs,
            verify=False,
            dynamic=dynamic,
            packs=_registry(),
            opset=opset,
        )
    except hx.HxError as error:
        if isinstance(error, hx.ConverterError):
            raise  # a converter's own mistake is no refusal
        raise Refused(f"{type(error).__name__}: {error}") from error
    graph = program.model.graph
    return Exported(
        _bytes(program.model),
        [value.name for value in graph.inputs],
        program.report.nodes,
        sorted({node.op_type for node in graph.all_nodes()}),
        [str(e) for e in program.report.escapes],
    )


def _bytes(model: Any) -> bytes:
    import onnx_ir

    return onnx_ir.to_proto(model).SerializeToString()


EXAMPLES = Path(__file__).parents[2] / "plugins_example"


@functools.cache
def _registry(*packs: str) -> Any:
    """The standard converters and those of example packs, read from the tree as it is now."""
    from hx.packs.registry import Registry
    from hx_converters import standard_pack

    modules = [*standard_pack.hx_converters()]
    for name in packs:
        sys.path.insert(0, str(EXAMPLES / name / "src"))
        plugin = f"{name.replace('-', '_')}.plugin"
        modules += importlib.import_module(plugin).hx_converters()
    return Registry.of(*map(importlib.import_module, modules))


def with_dynamo(model, args, kwargs, dynamic=None, opset=20) -> Exported:
    program = torch.onnx.export(model, args, kwargs=kwargs, dynamo=True, verbose=False)
    assert program is not None
    file = io.BytesIO()
    program.save(file)
    graph = program.model.graph
    ops = sorted({node.op_type for node in graph.all_nodes()})
    return Exported(file.getvalue(), [v.name for v in graph.inputs], len(graph), ops)


def with_torchscript(model, args, kwargs, dynamic=None, opset=17) -> Exported:
    import onnx

    file = io.BytesIO()
    torch.onnx.export(model, (*args, kwargs) if kwargs else args, file, dynamo=False,
                      opset_version=17)  # fmt: skip
    loaded = onnx.load_from_string(file.getvalue())
    held = {i.name for i in loaded.graph.initializer}
    inputs = [i.name for i in loaded.graph.input if i.name not in held]
    ops = sorted({node.op_type for node in loaded.graph.node})
    return Exported(file.getvalue(), inputs, len(loaded.graph.node), ops)


EXPORTERS: dict[str, Callable[..., Exported]] = {
    "hx": with_hx,
    "dynamo": with_dynamo,
    "torchscript": with_torchscript,
}


def attempt(
    function: Callable,
    args: tuple,
    kwargs: dict,
    *,
    exporter: str = "hx",
    tolerance: tuple[float, float] | None = None,
    dynamic: bool = False,
    opset: int = 20,
    same: Callable[[list, list], bool] | None = None,
) -> Outcome:
    """Exports `function(*args, **kwargs)`, runs the file on the same tensors, compares.

    `same` says of outputs that differ whether both are what PyTorch promises.
    """
    model = Call(function).eval()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            expected = flat(model(*copied(args), **copied(kwargs)))
        except Exception as error:
            return Outcome("excluded", f"PyTorch itself refuses: {first_line(error)}")
        reason = unsayable(tensors_of(args, kwargs), expected, exporter)
        if reason:
            return Outcome("excluded", reason)
        try:
            made = EXPORTERS[exporter](
                model, copied(args), copied(kwargs), axes(args, kwargs) if dynamic else None, opset
            )
        except Refused as error:
            return Outcome("refused", str(error))
        except Exception as error:
            kind = "crashed" if exporter == "hx" else "refused"
            return Outcome(kind, f"{type(error).__name__}: {error}")
        outcome = Outcome("right", "", made.nodes, made.ops, made.escapes)
        try:
            found = run(made, tensors_of(args, kwargs))
        except Exception as error:
            outcome.kind, outcome.detail = "crashed", f"runtime: {error}"
            return outcome
    outcome.detail = difference(found, expected, tolerance)
    if outcome.detail and same is not None and same(found, expected):
        outcome.detail = ""
    if outcome.detail and as_exact(model, args, kwargs, found, expected, tolerance):
        outcome.detail = ""
    if outcome.detail:
        outcome.kind = "wrong"
    return outcome


SHORT = (torch.float16, torch.bfloat16, torch.float32)


def as_exact(model, args, kwargs, found, expected, tolerance) -> bool:
    """Whether each number is as near to the exact one, that of float64, as PyTorch's own is.

    Kernels round where they like: where two differ, the exact number says who is off.
    """
    if not any(t.dtype in SHORT for t in expected):
        return False

    def exactly(leaf: Any) -> Any:
        if isinstance(leaf, torch.dtype):
            return torch.float64 if leaf in SHORT else leaf
        if getattr(leaf, "dtype", None) == torch.complex64:
            return leaf.to(torch.complex128)
        return leaf.double() if getattr(leaf, "dtype", None) in SHORT else leaf

    def doubled(tree: Any) -> Any:
        return nesting.replace(tree, lambda _, leaf: exactly(leaf))

    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            exact = flat(model(*doubled(copied(args)), **doubled(copied(kwargs))))
    except Exception:
        return False
    if [t.shape for t in exact] != [t.shape for t in found]:
        return False
    for mine, real, true in zip(found, expected, exact):
        if mine.dtype != real.dtype or mine.shape != real.shape:
            return False
        if real.dtype not in SHORT:
            if difference([mine], [real], tolerance):
                return False
            continue
        info = torch.finfo(real.dtype)
        atol, rtol = tolerance or (1e-5, 4 * info.eps)
        off = (real - true).abs().nan_to_num(0, 0, 0)  # where PyTorch has no number, be exact
        allowed = torch.maximum(off, atol + rtol * true.abs())
        good = ((mine - true).abs() <= allowed) | (mine == real) | (mine.isnan() & real.isnan())
        # Where the exact number is out of range, so may be any way to compute it.
        if not (good | ((true.abs() > info.max) & mine.isinf())).all():
            return False
    return True


def flat(result: Any) -> list[torch.Tensor]:
    """Every number that a call returned, as tensors: the outputs of its graph."""
    found = []
    for _, leaf in nesting.leaves(result, ""):
        if isinstance(leaf, torch.Tensor):
            found.append(leaf.detach().clone())
        elif isinstance(leaf, (bool, int, float)):
            kind = {bool: torch.bool, int: torch.int64, float: torch.float32}[type(leaf)]
            found.append(torch.tensor(leaf, dtype=kind))
    return [as_pairs(tensor) for tensor in found]


def as_pairs(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers as hx writes them: both parts, as a last axis."""
    if not tensor.is_complex() or tensor.layout is not torch.strided:
        return tensor
    return torch.view_as_real(tensor.resolve_conj())


def unsayable(inputs: list[torch.Tensor], outputs: list[torch.Tensor], exporter: str) -> str:
    """Why no file could hold these tensors; nothing if one can."""
    if not inputs:
        return "no tensor goes in"
    if not outputs:
        return "no tensor comes out"
    for tensor, what in [(t, "input") for t in inputs] + [(t, "output") for t in outputs]:
        if tensor.layout is not torch.strided:
            return f"a sparse {what}"
        if tensor.dtype == torch.complex32 or (tensor.is_complex() and exporter != "hx"):
            return f"a complex {what}"
        if tensor.is_quantized:
            return f"a quantized {what}"
    return ""


def axes(args: tuple, kwargs: dict) -> dict:
    """Every axis longer than 1 as a dynamic one, the same name for the same length."""
    from hx.recording.prepare import prepare

    request, _ = prepare(Call(lambda x: x), args, kwargs, None, None, lambda *_: {})
    return {
        name: {i: f"n{size}" for i, size in enumerate(tensor.shape) if size > 1}
        for name, tensor in request.call.tensors.items()
    }


def run(made: Exported, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    session = runtime.Session(made.data)
    wanted = {v.name for v in session._session.get_inputs()}
    feeds = dict(zip(made.inputs, map(as_pairs, tensors)))
    return session.run({k: v for k, v in feeds.items() if k in wanted})


def difference(found, expected, tolerance) -> str:
    """How two lists of tensors differ, by torch.testing.assert_close; nothing if they do not."""
    if len(found) != len(expected):
        return f"{len(found)} outputs for {len(expected)}"
    for i, (mine, real) in enumerate(zip(found, expected)):
        loose = {}
        if tolerance is not None and real.dtype.is_floating_point:
            loose = {"atol": tolerance[0], "rtol": tolerance[1]}
        try:
            torch.testing.assert_close(mine, real, equal_nan=True, check_stride=False, **loose)
        except AssertionError as error:
            return f"output {i}: " + " ".join(str(error).split())
    return ""


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
