"""The values of a model's inputs and weights before it runs, and of its outputs after."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy
import torch

from .. import dtypes
from ..errors import Unsupported, UsageError
from ..findings import CHECKED, Finding
from ..graph import complex_pairs
from ..graph.op import Op
from ..ir import dynamic_axes
from ..ir.recipe import Recipe
from ..ir.sizes import dims
from ..ir.value import Constant, Value
from ..packs import nesting
from ..tensor_bytes import as_tensor, is_wrapper, storage_key
from ..text import with_article
from ..torchworld.state import shallow
from . import layers
from .memory import quantized, sparse_tensors, unrecorded_tensors, wrapper_tensors
from .memory.tensor_values import array_value, output_value, value_of
from .reads import size_questions
from .recording import Recording

if TYPE_CHECKING:
    from .trace import Trace


def of_inputs(recipe: Recipe, recording: Recording) -> list[tuple[str, Value]]:
    """Bind the inputs; each is a tensor of its own, so that a model may write to it."""
    recording.model.inputs = {}
    inputs = []
    sizes = recording.builder.sizes
    named = _named_sizes(recipe)
    for name, tensor in recipe.inputs.items():
        quantized.require_plain(f"the input {name}", tensor)
        sparse_tensors.require_plain(f"the input {name}", tensor)
        shape: list[int] = list(tensor.shape)
        dtype = tensor.dtype
        if dtype in complex_pairs.REAL:  # both parts, as a last axis
            shape, dtype = [*shape, 2], complex_pairs.REAL[dtype]
        value = recording.builder.value(dtype, shape, name)
        for axis, word in recipe.request.sizes.get(name, {}).items():
            if word in named:
                sizes.named.setdefault(word, (value, axis))
            shape[axis] = dynamic_axes.total(word, named)
        value.shape, value.dynamic = tuple(shape), any(map(dims.is_dynamic, shape))
        with torch.inference_mode(False):  # such a tensor would not tell that it is written to
            copy = tensor.detach().clone()
        recording.model.inputs[name] = copy
        inputs.append((name, value))
        if tensor.is_complex():
            recording.findings.messages.append(_told_as_pair("input", name, tensor))
            value = complex_pairs.joined(Op(recording.builder), value)
        recording.memory.live.bind(copy, value)
    return inputs


def _told_as_pair(what: str, name: str, tensor: torch.Tensor) -> Finding:
    dtype = dtypes.name(complex_pairs.REAL.get(tensor.dtype, tensor.dtype))
    text = (
        f"the {what} {name} is complex: in the graph it is {dtype} with one more axis at the end, "
        "for the real and the imaginary part, as torch.view_as_real gives it"
    )
    return Finding(CHECKED, text)


def _named_sizes(recipe: Recipe) -> dict[str, dims.Dim]:
    named = {}
    for name, axes in recipe.request.sizes.items():
        for axis, word in axes.items():
            if not dynamic_axes.is_sum(word):
                limits = recipe.request.sizes.limits[word]
                high = math.inf if limits.high is None else limits.high
                size = recipe.inputs[name].shape[axis]
                named[word] = dims.Dim.leaf(word, 0, size, limits.step, limits.low, high)
    return named


def require_apart(recording: Recording, inputs: Mapping[str, torch.Tensor]) -> None:
    """Raise if inputs share memory: a graph cannot show a write to one in another."""
    memory: dict[int, str] = {}
    written = {n for n, t in recording.model.inputs.items() if t._version > 0}
    for name, tensor in inputs.items():
        first = memory.setdefault(storage_key(tensor), name)
        if first != name and written & {first, name}:
            raise Unsupported(
                f"{first} and {name} share memory, and the model writes to it",
                why="in a graph each input has its own: what is written to one is not in the other",
                hint=f"give {name} memory of its own: {name}.clone()",
            )


def name_tensors(recording: Recording) -> None:
    """Name parameters and buffers as in the state_dict, other tensors that modules hold by path."""
    for held in (shallow.parameters, shallow.buffers):
        for path, module in recording.model.modules:
            for name, tensor in held(module).items():
                whole = f"{path}.{name}" if path else name
                if not is_wrapper(tensor):
                    recording.model.name_tensor(tensor, whole)
                    continue
                if type(tensor).__name__ == "DTensor":
                    raise UsageError(
                        f"{whole} is a DTensor, whose parts may be in other processes",
                        hint="export the model before it is sharded, or load into a plain one what "
                        "get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)) "
                        "gives",
                    )
                recording.memory.has_wrappers = True
                for each, part in wrapper_tensors.inside(tensor, whole):
                    recording.model.name_tensor(part, each)
    recording.model.attribute_dicts.update(
        id(vars(module)) for _, module in recording.model.modules
    )
    for path, _, attribute, thing in recording.model.attributes:
        if isinstance(thing, torch.Tensor):
            recording.model.name_tensor(thing, f"{path}.{attribute}" if path else attribute)
        elif isinstance(thing, nesting.OF_MANY) and _may_hold_tensors(thing):
            full = f"{path}.{attribute}" if path else attribute
            for name, tensor in nesting.held(thing, full):
                recording.model.name_tensor(tensor, name)


def require_built(root: torch.nn.Module, recording: Recording) -> None:
    """Raise if the model made a parameter while it ran: an export would remove that layer again."""
    for name, parameter in root.named_parameters():
        entry = (
            None
            if id(parameter) in recording.model.names
            else recording.memory.live.find(parameter)
        )
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
    for path, module in recording.model.modules:
        for name, tensor in shallow.buffers(module).items():
            entry = recording.memory.live.find(tensor)
            whole = None if entry is None else entry.family.root
            if (
                whole is not None
                and not isinstance(whole, Constant)
                and not size_questions.alone(whole)
            ):
                found.append(f"{path}.{name}" if path else name)
    return found


def _may_hold_tensors(thing: Any) -> bool:
    """Return True if something may hold tensors; most hold numbers, such as strides."""
    inside = dict.values(thing) if isinstance(thing, dict) else thing
    return any(type(each) not in (int, float, str, bool, type(None)) for each in inside)


def watcher(outputs: Sequence[str] | None, asked: dict, recording: Recording):
    """Keep the results of the requested modules as values: tensors may change later."""
    if outputs is None:
        return None
    paths = dict(recording.model.modules)
    layers.require_there(outputs, paths)
    wanted = {id(paths[path]): path for path in outputs}

    def watch(path: str, module: Any, result: Any) -> None:
        name = wanted.get(id(module))
        if name is not None:
            if name in asked:
                told = f"{name} runs more than once: the output is what it gives last"
                twice, messages = Finding(CHECKED, told), recording.findings.messages
                messages += [] if twice in messages else [twice]
            with torch._C.DisableTorchFunction():
                asked[name] = nesting.replace(result, lambda n, leaf: _Kept.of(recording, leaf))

    return watch


class _Kept:
    """A leaf of an intermediate result: its value, and its contents, at that moment."""

    __slots__ = ("real", "value")

    def __init__(self, value: Value, real: torch.Tensor) -> None:
        self.value = value
        self.real = real

    @staticmethod
    def of(recording: Recording, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return _Kept(value_of(recording, leaf), leaf.detach().clone())
        return leaf

    @staticmethod
    def of_array(recording: Recording, array: numpy.ndarray) -> Any:
        real = as_tensor(array)
        if real is array:  # of texts or objects
            return array
        return _Kept(array_value(recording, array)[1], real)


def structure(result: Any) -> Any:
    """The structure of a result; None for one that cannot be built again."""

    def put(name: str, leaf: Any) -> Any:
        if isinstance(as_tensor(leaf), (torch.Tensor, _Kept)):
            return torch.empty(0, device="meta")
        return dims.plain(leaf) if isinstance(leaf, (int, float)) else leaf

    try:
        return nesting.replace(result, put)
    except Exception:
        # A class of the model's, whose constructor may want more, and raise anything. Nothing is lost:
        # the file's results are then returned in a dict, by the names of its outputs.
        return None


def _require_int64(name: str, number: Any) -> None:
    """Refuse a whole number that no tensor of a graph can hold."""
    plain = dims.plain(number)
    if isinstance(plain, int) and not -(2**63) <= plain < 2**63:
        raise Unsupported(
            f"the output {name or 'of the model'} is a whole number beyond int64, of "
            f"{plain.bit_length()} bits, and a graph has no larger ones",
            hint="return a float, or several smaller numbers",
        )


def _named(result: Any) -> list[tuple[str, Any]]:
    """List the leaves of a model's result, with the names of the outputs."""
    if isinstance(result, (tuple, list)) and not hasattr(result, "_fields"):
        several = len(result) > 1
        return [
            leaf
            for i, part in enumerate(result)
            for leaf in nesting.leaves(part, f"output_{i}" if several else "output")
        ]
    single = isinstance(as_tensor(result), (torch.Tensor, _Kept, int, float))
    return list(nesting.leaves(result, "output" if single else ""))


def of_outputs(recording: Recording, found: Trace, result: Any) -> None:
    names: list[str] = []
    values: list[Any] = []
    for name, leaf in _named(result):
        if isinstance(leaf, numpy.ndarray):
            leaf = _Kept.of_array(recording, leaf)
        real = leaf.real if isinstance(leaf, _Kept) else leaf
        quantized.require_plain(f"the output {name or 'of the model'}", real)
        sparse_tensors.require_plain(f"the output {name or 'of the model'}", real)
        if isinstance(leaf, _Kept):
            values.append(leaf.value)
            found.results.append(leaf.real)
        elif isinstance(leaf, torch.Tensor):
            values.append(value_of(recording, leaf))
            if recording.memory.live.keep is not None:
                recording.memory.live.keep.look(values[-1], leaf, "the end of the model")
            unrecorded_tensors.require_filled(recording, [leaf])
            # The model may write to its results when it runs again.
            found.results.append(leaf.detach().clone())
        elif isinstance(leaf, (bool, int, float)):
            _require_int64(name, leaf)
            values.append(leaf)
            found.results.append(dims.plain(leaf))
        elif leaf is None:
            continue
        else:
            left_out = (
                f"the output {name} is {with_article(leaf)}, which a graph cannot return: left out"
            )
            found.findings.append(Finding(CHECKED, left_out))
            continue
        names.append(name or "output")
    outputs = [output_value(recording.builder, x) for x in values]
    found.outputs = list(zip(nesting.unique(names), outputs))
    for (name, _), real in zip(found.outputs, found.results):
        if isinstance(real, torch.Tensor) and real.is_complex():
            found.findings.append(_told_as_pair("output", name, real))
