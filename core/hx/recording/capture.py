"""One run of the model under the recording: inputs in, outputs by name, the world as it was."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ..errors import ConverterError, ExportError, HxError, Unsupported, Where
from ..inputs.grammar import Limits
from ..packs import containers
from ..packs.findings import brief, origin
from ..packs.registry import Registry
from ..saving.ahead import Ahead
from ..saving.forecast import Forecast
from ..sizes.leftover import LeftOver
from ..surely import inside
from ..tensors.values import Value
from ..world import training
from ..world.modelstate import preserved
from ..world.world import recorded
from . import binding, foreign, layers, outside
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
    # Whether it was given up on some inputs, which it may never be through with.
    endless: bool = False
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
    recording = _begun(prepared, registry, opset, guard)
    recording.live.keep = keep
    forecast = None if ahead is None else Forecast(ahead, recording.folds)
    heard_of = None if forecast is None else forecast.node
    recording.builder.added = heard_of if prepared.room is None else _Room(prepared.room, heard_of)
    guard.draws.seen = False
    inputs = binding.of_inputs(prepared, recording)
    binding.name_tensors(recording)
    asked: dict[str, Any] = {}
    watch = binding.watcher(outputs, asked, recording)
    args, kwargs = prepared.with_tensors(recording.given)
    recording.frames.begin()
    found = Capture(prepared, recording, inputs, [], [], list(outputs) if outputs else None)
    found.registry, found.opset = registry, opset
    found.notes = recording.notes
    found.notes += training.notes(guard.trained)
    found.notes += recording.choices.idle

    def run(_: None) -> None:
        began = time.perf_counter()
        result = called(recording.model, args, kwargs)
        found.seconds = time.perf_counter() - began
        if guard.draws.seen:
            binding.require_built(prepared.root, recording)
        if outputs is not None:
            result = {path: asked[path] for path in outputs if path in asked}
            layers.require_run(outputs, asked)
        # In here: a converter may be asked once more, for a view that was written to.
        recording.busy = True
        with torch._C.DisableTorchFunction():
            binding.of_outputs(found, result)
            found.returned = binding.structure(result)

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
    _look_back(found, guard)
    return found


def _begun(prepared: Prepared, registry: Registry, opset: int, guard: preserved) -> Recording:
    """A recording that has yet to hear the model."""
    recording = Recording(Choices(registry, opset), opset, guard, prepared.slim)
    recording.dry = prepared.dry
    recording.unfolded = recording.builder.unfolded = prepared.unfolded
    recording.counts, recording.numbered = prepared.counts, prepared.numbered
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
    recording.model = prepared.recorded or prepared.model
    recording.modules, recording.things = guard.modules, guard.things
    return recording


def _look_back(found: Capture, guard: preserved) -> None:
    """What the model did besides computing: compiled code, writes to what it has, draws."""
    recording, slim = found.recording, found.prepared.slim
    found.compiled = foreign.unseen(recording)
    for one in found.compiled:
        found.notes.append(
            f"{one} is compiled code: what it computes by itself is not in the graph"
        )
    found.notes += [] if slim is None else slim.notes
    binding.require_apart(found)
    found.changed_buffers, found.changed_parameters = guard.changed()
    found.changed_buffers = sorted({*found.changed_buffers, *binding.traced_buffers(recording)})
    found.touched, found.keeps = guard.touched(), guard.kept()
    found.set_by_scripts = recording.set_by_scripts
    found.keeps += sorted({name for _, name in found.set_by_scripts})
    found.drew = guard.draws.seen
    if found.changed_parameters:
        told = ", ".join(found.changed_parameters[:5])
        found.notes.append(f"the model writes to its parameters: {told}")
