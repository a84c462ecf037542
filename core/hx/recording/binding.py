"""What the tensors of a model stand for: its inputs and weights before it runs, and its outputs after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..errors import Unsupported, UsageError
from ..graph.op import Op
from ..inputs.grammar import Limits
from ..sizes import dims
from ..sizes import dynamic as dynamic_axes
from ..tensors import accounts, dtypes, pairs, quantized, sparse, structures, wrappers
from ..tensors.liveness import storage_key
from ..tensors.memory import is_wrapper
from ..tensors.values import Constant, Value
from ..words import a
from ..world import shallow
from . import layers, sized
from .prepared import Prepared
from .recording import Recording

if TYPE_CHECKING:
    from .capture import Capture


def of_inputs(prepared: Prepared, recording: Recording) -> list[tuple[str, Value]]:
    """Each input is a tensor of its own, so that a model may write to it."""
    recording.given = {}
    inputs = []
    sizes = recording.builder.sizes
    named = _named_sizes(prepared)
    for name, tensor in prepared.tensors.items():
        quantized.require_plain(f"the input {name}", tensor)
        sparse.require_plain(f"the input {name}", tensor)
        shape: list[int] = list(tensor.shape)
        dtype = tensor.dtype
        if dtype in pairs.REAL:  # both parts, as a last axis
            shape, dtype = [*shape, 2], pairs.REAL[dtype]
        value = recording.builder.value(dtype, shape, name)
        for axis, word in prepared.dynamic.get(name, {}).items():
            if word in named:
                sizes.named.setdefault(word, (value, axis))
            shape[axis] = dynamic_axes.total(word, named)
        value.shape, value.dynamic = tuple(shape), any(map(dims.is_dynamic, shape))
        with torch.inference_mode(False):  # such a tensor would not tell that it is written to
            copy = tensor.detach().clone()
        recording.given[name] = copy
        inputs.append((name, value))
        if tensor.is_complex():
            recording.notes.append(_told_as_pair("input", name, tensor))
            value = pairs.joined(Op(recording.builder), value)
        recording.live.bind(copy, value)
    return inputs


def _told_as_pair(what: str, name: str, tensor: torch.Tensor) -> str:
    dtype = dtypes.name(pairs.REAL.get(tensor.dtype, tensor.dtype))
    return (
        f"the {what} {name} is complex: in the graph it is {dtype} with one more axis at the end, "
        "for the real and the imaginary part, as torch.view_as_real gives it"
    )


def _named_sizes(prepared: Prepared) -> dict[str, dims.Dim]:
    named = {}
    for name, axes in prepared.dynamic.items():
        for axis, word in axes.items():
            if not dynamic_axes.is_sum(word):
                limits = prepared.dynamic.limits.get(word, Limits())
                high = math.inf if limits.high is None else limits.high
                size = prepared.tensors[name].shape[axis]
                named[word] = dims.Dim.leaf(word, 0, size, limits.step, limits.low, high)
    return named


def require_apart(found: Capture) -> None:
    """Inputs of a graph have memory of their own: what is written to one is not in another."""
    memory: dict[int, str] = {}
    written = {n for n, t in found.recording.given.items() if t._version > 0}
    for name, tensor in found.prepared.tensors.items():
        first = memory.setdefault(storage_key(tensor), name)
        if first != name and written & {first, name}:
            raise Unsupported(
                f"{first} and {name} share memory, and the model writes to it",
                why="in a graph each input has its own: what is written to one is not in the other",
                hint=f"give {name} memory of its own: {name}.clone()",
            )


def name_tensors(recording: Recording) -> None:
    """Parameters and buffers by their state_dict names, other tensors that modules hold by path."""
    for held in (shallow.parameters, shallow.buffers):
        for path, module in recording.modules:
            for name, tensor in held(module).items():
                whole = f"{path}.{name}" if path else name
                if not is_wrapper(tensor):
                    recording.name_tensor(tensor, whole)
                    continue
                if type(tensor).__name__ == "DTensor":
                    raise UsageError(
                        f"{whole} is a DTensor, whose parts may be in other processes",
                        hint="export the model before it is sharded, or load into a plain one what "
                        "get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)) "
                        "gives",
                    )
                recording.wraps = True
                for each, part in wrappers.inside(tensor, whole):
                    recording.name_tensor(part, each)
    recording.states.update(id(vars(module)) for _, module in recording.modules)
    for path, _, attribute, thing in recording.things:
        if isinstance(thing, torch.Tensor):
            recording.name_tensor(thing, f"{path}.{attribute}" if path else attribute)
        elif isinstance(thing, structures.OF_MANY) and _may_hold_tensors(thing):
            full = f"{path}.{attribute}" if path else attribute
            for name, tensor in structures.held(thing, full):
                recording.name_tensor(tensor, name)


def require_built(root: torch.nn.Module, recording: Recording) -> None:
    """A layer that a model makes as it first runs is to be there before: else nobody has it."""
    for name, parameter in root.named_parameters():
        entry = None if id(parameter) in recording.names else recording.live.find(parameter)
        if entry is not None and not entry.value.fixed:
            raise UsageError(
                f"the model makes the parameter {name} as it runs, and draws what is in it",
                why="an export leaves the model as it was: the file would draw others, each time",
                hint="run the model once on an example before exporting it",
            )


def traced_buffers(recording: Recording) -> list[str]:
    """The names of buffers that hold what follows from inputs when the model has run.

    What they hold may be what they held before, as when it ran on the same inputs.
    """
    found = []
    for path, module in recording.modules:
        for name, tensor in shallow.buffers(module).items():
            entry = recording.live.find(tensor)
            whole = None if entry is None else entry.family.root
            if whole is not None and not isinstance(whole, Constant) and not sized.alone(whole):
                found.append(f"{path}.{name}" if path else name)
    return found


def _may_hold_tensors(thing: Any) -> bool:
    """Most are pairs of numbers, such as the stride of a convolution."""
    inside = dict.values(thing) if isinstance(thing, dict) else thing
    return any(type(each) not in (int, float, str, bool, type(None)) for each in inside)


def watcher(outputs: Sequence[str] | None, asked: dict, recording: Recording):
    """Keeps what the modules that were asked for returned, as values: tensors may change later."""
    if outputs is None:
        return None
    paths = dict(recording.modules)
    layers.require_there(outputs, paths)
    wanted = {id(paths[path]): path for path in outputs}

    def watch(path: str, module: Any, result: Any) -> None:
        name = wanted.get(id(module))
        if name is not None:
            if name in asked:
                told = f"{name} runs more than once: the output is what it gives last"
                recording.notes += [] if told in recording.notes else [told]
            with torch._C.DisableTorchFunction():
                asked[name] = structures.replace(result, lambda n, leaf: _Kept.of(recording, leaf))

    return watch


def _is_part(tensor: torch.Tensor) -> bool:
    if tensor.layout is not torch.strided:
        return False
    return tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes()


class _Kept:
    """A leaf of an intermediate result: its value, and its contents, at that moment."""

    __slots__ = ("real", "value")

    def __init__(self, value: Value, real: torch.Tensor) -> None:
        self.value = value
        self.real = real

    @staticmethod
    def of(recording: Recording, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return _Kept(recording.value_of(leaf), leaf.detach().clone())
        return leaf


def structure(result: Any) -> Any:
    """The structure of a result; None for one that cannot be built again."""

    def put(name: str, leaf: Any) -> Any:
        if isinstance(leaf, (torch.Tensor, _Kept)):
            return torch.empty(0, device="meta")
        return dims.plain(leaf) if isinstance(leaf, (int, float)) else leaf

    try:
        return structures.replace(result, put)
    except Exception:
        # A class of the model's, whose constructor may want more, and raise anything. Nothing is lost:
        # what the file gives is returned in a dict then, by the names of its outputs.
        return None


def of_outputs(found: Capture, result: Any) -> None:
    recording = found.recording
    single = isinstance(result, (torch.Tensor, _Kept, int, float))
    flat: list[tuple[str, Any]] = []
    if isinstance(result, (tuple, list)) and not hasattr(result, "_fields"):
        for i, part in enumerate(result):
            flat.extend(structures.leaves(part, f"output_{i}" if len(result) > 1 else "output"))
    else:
        flat = list(structures.leaves(result, "output" if single else ""))
    names: list[str] = []
    values: list[Any] = []
    shared = set(map(storage_key, (*recording.named, *recording.given.values())))
    for name, leaf in flat:
        real = leaf.real if isinstance(leaf, _Kept) else leaf
        quantized.require_plain(f"the output {name or 'of the model'}", real)
        sparse.require_plain(f"the output {name or 'of the model'}", real)
        if isinstance(leaf, _Kept):
            values.append(leaf.value)
            found.real.append(leaf.real)
        elif isinstance(leaf, torch.Tensor):
            values.append(recording.value_of(leaf))
            if recording.live.keep is not None:
                recording.live.keep.look(values[-1], leaf, "the end of the model")
            accounts.require_filled(recording, [leaf])
            real = leaf.detach()
            # A buffer is about to be put back, and a part would keep all that it is a part of.
            copied = storage_key(leaf) in shared or _is_part(leaf)
            found.real.append(real.clone() if copied else real)
        elif isinstance(leaf, (bool, int, float)):
            values.append(leaf)
            found.real.append(dims.plain(leaf))
        elif leaf is None:
            continue
        else:
            found.notes.append(
                f"the output {name} is {a(leaf)}, which a graph cannot return: left out"
            )
            continue
        names.append(name or "output")
    found.outputs = list(zip(structures.unique(names), values))
    for (name, _), real in zip(found.outputs, found.real):
        if isinstance(real, torch.Tensor) and real.is_complex():
            found.notes.append(_told_as_pair("output", name, real))
