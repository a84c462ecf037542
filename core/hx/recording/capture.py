"""One run of the model under the recording: inputs in, outputs by name, the world as it was."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ..errors import ConverterError, ExportError, HxError, Unsupported, UsageError, Where
from ..graph.op import Op
from ..inputs.grammar import Limits
from ..packs import containers
from ..packs.findings import brief, origin
from ..packs.registry import Registry
from ..saving.ahead import Ahead
from ..saving.forecast import Forecast
from ..sizes import dims
from ..sizes import dynamic as dynamic_axes
from ..sizes.leftover import LeftOver
from ..surely import inside
from ..tensors import accounts, dtypes, pairs, quantized, sparse, structures, wrappers
from ..tensors.liveness import storage_key
from ..tensors.memory import is_wrapper
from ..tensors.values import Constant, Value
from ..words import a
from ..world import shallow, training
from ..world.modelstate import preserved
from ..world.world import recorded
from . import foreign, layers, outside, sized
from .choices import Choices
from .prepared import Prepared
from .recording import Recording

if TYPE_CHECKING:
    from ..contributions import GraphPass
    from ..proof.cases.across import Move
    from ..report import Escape


@dataclass
class Capture:
    """What one recorded run left."""

    prepared: Prepared
    recording: Recording
    inputs: list[tuple[str, Value]]
    outputs: list[tuple[str, Any]]  # flat name -> Value, number or size
    real: list[Any]  # what the model itself returned for each output
    wanted: list[str] | None  # modules whose outputs were asked for
    changed_buffers: list[str] = field(default_factory=list)
    changed_parameters: list[str] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)  # and those that only were written to
    keeps: list[str] = field(default_factory=list)  # attributes: what it has for its next call
    set_by_scripts: set[tuple[Any, str]] = field(default_factory=set)  # attributes, by object
    drew_outside: bool = False  # whether Python or numpy drew some for it
    runs: int = 0  # of the model since, for its proof
    drew: bool = True  # whether the model drew random numbers, as far as is known
    still: bool = False  # whether every generator that one can ask is as it was before it ran
    notes: list[str] = field(default_factory=list)
    classes: dict[str, str] = field(default_factory=dict)
    name: str = "model"
    registry: Any = None
    opset: int = 0
    rewrote: list[GraphPass] = field(default_factory=list)  # passes of packs, where they did
    cases: list[Any] = field(default_factory=list)  # what it was proved on
    # Of those that are there for a question: the escape that it is, and the limits without it.
    beyond: dict[str, tuple[Escape, Move]] = field(default_factory=dict)
    at_large: set[str] = field(
        default_factory=set
    )  # of those at sizes far off, see `recorded_there`
    # By name, the sizes that the file is promised for, where the proof found it wrong at others.
    promised: dict[str, Limits] = field(default_factory=dict)
    compiled: list[foreign.Compiled] = field(default_factory=list)  # called out of sight, maybe
    # Recordings that it was joined with, and those of them where the model heard what is not true.
    others: list[Capture] = field(default_factory=list)
    heard: list[Capture] = field(default_factory=list)
    rounds: set[str] = field(default_factory=set)  # names of sizes that loops of the graph go over
    otherwise: str = ""  # said where the model computes otherwise when it is not recorded
    seconds: float = 0.0  # that the model ran while it was recorded
    endless: bool = (
        False  # whether it was given up on some inputs, which it may never be through with
    )
    returned: Any = None  # what the model returned, without the contents of its tensors
    _kept_results: bool = False

    def keep_results(self) -> None:
        """The model is about to run again, and may write to what it returned: copies, from now on."""
        if not self._kept_results:
            self.real = [x.clone() if isinstance(x, torch.Tensor) else x for x in self.real]
            self._kept_results = True

    def check_constants(self) -> None:
        """Constants that were written to after somebody read them would be stored wrong."""
        for over_one_memory in self.recording.constants.values():
            for held in list(over_one_memory):
                constant = held()
                # Parameters and buffers, which have names, were put back: they hold again what the
                # reader saw.
                if constant is None or constant.name or not constant.used:
                    continue
                if constant.written():
                    raise Unsupported(
                        "a constant was written to after it was used",
                        why="the write happened where hx could not see it coming",
                        hint="write to a clone of it",
                    )


def capture(
    prepared: Prepared,
    registry: Registry,
    opset: int,
    outputs: Sequence[str] | None,
    keep: Any = None,
    ahead: Ahead | None = None,
) -> Capture:
    """One run of the model; `keep` is told of every value and its contents on the way.

    `ahead` gets the weights that nodes read.
    """
    root = prepared.root
    prepared.stand_ins.survives(prepared)
    found = inside(
        without_weights(prepared),
        lambda _: inside(
            preserved(root),
            lambda guard: _run(prepared, registry, opset, outputs, keep, ahead, guard),
        ),
    )
    found.classes = {path: type(m).__name__ for path, m in found.recording.modules}
    if root is not prepared.model:
        found.classes.pop("", None)
    found.name = (
        type(root).__name__
        if root is prepared.model
        else getattr(prepared.model, "__name__", "function")
    )
    return found


def called(model: Any, args: tuple, kwargs: dict) -> Any:
    """What the model gives; one that ends the process is an error, and no end."""
    try:
        return model(*args, **kwargs)
    except SystemExit as end:
        file, line = origin(end)
        raise ExportError(
            f"the model calls sys.exit({end.code!r})", where=Where(file, line) if file else None
        ) from end
    except NotImplementedError as problem:
        # What PyTorch says of an operator whose arguments are functions, and of our door.
        found = re.search(r"no rule registered for HigherOrderOperator (\w+)", str(problem))
        if found is None:
            raise
        file, line = origin(problem)
        raise Unsupported(
            f"{found[1]} takes functions, and hx does not know what it does with them",
            where=Where(file, line) if file else None,
            hint="give what calls it a converter, whose `op.instead(...)` says the same in plain "
            "functions: hx packs new",
        ) from problem
    except HxError:
        raise
    except Exception as problem:
        if not (left_out := containers.forgotten()):
            raise
        file, line = origin(problem)
        raise ConverterError(
            f"the model raised {brief(problem)}",
            where=Where(file, line) if file else None,
            why=left_out,
        ) from problem


def without_weights(prepared: Prepared) -> Any:
    """The stand-ins for weights that are elsewhere are in the model, if it has any."""
    return _Nothing() if prepared.slim is None else prepared.slim.placed()


class _Nothing(contextlib.nullcontext):
    def close(self) -> None:
        pass


class _Room:
    """Ends a recording that takes many times the nodes of another one: a loop over what was found."""

    def __init__(self, nodes: int, told: Callable[[Any], None] | None) -> None:
        self._left, self._told = nodes, told

    def __call__(self, node: Any) -> None:
        if self._told is not None:
            self._told(node)
        self._left -= 1
        if self._left < 0:
            raise Unsupported("this way has many times the nodes of the one that was recorded")


def _run(
    prepared: Prepared,
    registry: Registry,
    opset: int,
    outputs: Sequence[str] | None,
    keep: Any,
    ahead: Ahead | None,
    guard: preserved,
) -> Capture:
    model = prepared.recorded or prepared.model
    recording = Recording(Choices(registry, opset), opset, guard, prepared.slim)
    recording.dry = prepared.dry
    recording.unfolded = recording.builder.unfolded = prepared.unfolded
    recording.counts = prepared.counts
    recording.yes, recording.asked = prepared.yes, prepared.asked
    recording.unnamed = prepared.unnamed
    recording.questions.answers, recording.questions.until = prepared.answers, prepared.until
    recording.questions.told = prepared.told
    recording.questions.pads = prepared.pads
    if prepared.pads is not None or (prepared.given and prepared.rolls is None):
        recording.questions.left_over = LeftOver(lambda: recording.busy)
    recording.builder.sizes.once = not prepared.laid_out
    if prepared.rolls:
        from .rolled import Lengths

        recording.builder.lengths = Lengths(recording)
    recording.live.keep = keep
    forecast = None if ahead is None else Forecast(ahead, recording.folds)
    heard_of = None if forecast is None else forecast.node
    recording.builder.added = heard_of if prepared.room is None else _Room(prepared.room, heard_of)
    recording.model = model
    guard.draws.seen = False
    recording.modules, recording.things = guard.modules, guard.things
    inputs = _bind_inputs(prepared, recording)
    _name_tensors(recording)
    asked: dict[str, Any] = {}
    watch = _watcher(outputs, asked, recording)
    args, kwargs = prepared.with_tensors(recording.given)
    recording.frames.begin()
    found = Capture(prepared, recording, inputs, [], [], list(outputs) if outputs else None)
    found.registry, found.opset = registry, opset
    found.notes = recording.notes
    found.notes += training.notes(guard.trained)
    found.notes += recording.choices.idle

    def run(_: None) -> None:
        began = time.perf_counter()
        result = called(model, args, kwargs)
        found.seconds = time.perf_counter() - began
        if guard.draws.seen:
            _require_built(prepared.root, recording)
        if outputs is not None:
            result = {path: asked[path] for path in outputs if path in asked}
            layers.require_run(outputs, asked)
        # In here: a converter may be asked once more, for a view that was written to.
        recording.busy = True
        with torch._C.DisableTorchFunction():
            _bind_outputs(found, result)
            found.returned = _structure(result)

    generators, state = outside.Generators(), torch.get_rng_state()
    try:
        inside(recorded(recording, watch), run)
        recording.raised.tell(recording)
    finally:
        recording.raised.forget()
    prepared.met |= {code for code, _ in recording.frames.visited} | recording.lost
    prepared.respelled |= recording.respelled
    found.drew_outside = generators.tell(recording)
    found.still = torch.equal(state, torch.get_rng_state())
    found.still &= not (found.drew_outside or recording.own_draws)
    if forecast is not None:
        forecast.node(None)
    found.compiled = foreign.unseen(recording)
    for one in found.compiled:
        found.notes.append(
            f"{one} is compiled code: what it computes by itself is not in the graph"
        )
    found.notes += [] if prepared.slim is None else prepared.slim.notes
    _require_apart(found)
    found.changed_buffers, found.changed_parameters = guard.changed()
    found.changed_buffers = sorted({*found.changed_buffers, *_traced_buffers(recording)})
    found.touched, found.keeps = guard.touched(), guard.kept()
    found.set_by_scripts = recording.set_by_scripts
    found.keeps += sorted({name for _, name in found.set_by_scripts})
    found.drew = guard.draws.seen
    if found.changed_parameters:
        told = ", ".join(found.changed_parameters[:5])
        found.notes.append(f"the model writes to its parameters: {told}")
    return found


def _bind_inputs(prepared: Prepared, recording: Recording) -> list[tuple[str, Value]]:
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


def _require_apart(found: Capture) -> None:
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


def _name_tensors(recording: Recording) -> None:
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


def _require_built(root: torch.nn.Module, recording: Recording) -> None:
    """A layer that a model makes as it first runs is to be there before: else nobody has it."""
    for name, parameter in root.named_parameters():
        entry = None if id(parameter) in recording.names else recording.live.find(parameter)
        if entry is not None and not entry.value.fixed:
            raise UsageError(
                f"the model makes the parameter {name} as it runs, and draws what is in it",
                why="an export leaves the model as it was: the file would draw others, each time",
                hint="run the model once on an example before exporting it",
            )


def _traced_buffers(recording: Recording) -> list[str]:
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


def _watcher(outputs: Sequence[str] | None, asked: dict, recording: Recording):
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


def _structure(result: Any) -> Any:
    """The structure of a result; None for one that cannot be built again."""

    def put(name: str, leaf: Any) -> Any:
        if isinstance(leaf, (torch.Tensor, _Kept)):
            return torch.empty(0, device="meta")
        return dims.plain(leaf) if isinstance(leaf, (int, float)) else leaf

    try:
        return structures.replace(result, put)
    except Exception:  # a class of the model's whose constructor wants more
        return None


def _bind_outputs(found: Capture, result: Any) -> None:
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
