"""Recordings: the model runs once, its calls become nodes, and its state is restored."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..budget import BUDGET
from ..cleanup import run_inside
from ..errors import Unsupported, Where
from ..findings import CHECKED, OPEN, Finding
from ..graph.builder import Builder
from ..ir.dialect import Dialect
from ..ir.escapes import Escape
from ..ir.knowledge import Knowledge
from ..ir.recipe import Folding, Recipe
from ..ir.sizes.remainders import LeftOver
from ..ir.spending import Spending
from ..ir.value import Value
from ..packs.registry import Registry
from ..saving.forecast import Forecast
from ..saving.write_ahead import WriteAhead
from ..torchworld import training
from ..torchworld.modes.absent_weights import Slim
from ..torchworld.modes.meta_tensors import Blend
from ..torchworld.state.modelstate import preserved
from . import binding, layers
from .call_model import call_model
from .calls import compiled_calls
from .calls.choices import Choices
from .hooks.install_hooks import recorded
from .memory.constants import constant_of
from .memory.tensor_values import value_of
from .prepare import arguments
from .reads.note_escapes import note_escape
from .recording import Recording
from .records import ModelParts, Switches
from .rounds.loop_lengths import Lengths
from .runs import other_generators
from .runs.carried_state import CarriedState
from .runs.cpu_stand_ins import StandIns
from .runs.known_results import KnownResults
from .trace import CallCounts, RecordedGraph, Trace


@dataclass(frozen=True)
class Recorder:
    """The parts that all recordings of one model share."""

    registry: Registry
    opset: int
    outputs: list[str] | None = None  # modules whose outputs are wanted instead
    slim: Slim | None = None  # how the model runs without its weights
    stand_ins: StandIns = field(default_factory=StandIns)
    knowledge: Knowledge = field(default_factory=Knowledge)
    carried: CarriedState = field(default_factory=CarriedState)
    known: KnownResults = field(default_factory=KnownResults)
    # The questions of recordings that were made for them alone, and whether values lead there.
    heard: dict[Hashable, tuple[dict[tuple, Escape], bool]] = field(default_factory=dict)
    spending: Spending = field(default_factory=Spending)
    guards: dict[int, preserved] = field(default_factory=dict)  # by the id of the model

    def record(
        self,
        recipe: Recipe,
        *,
        keep: Any = None,
        ahead: WriteAhead | None = None,
        dry: bool = False,
        one_thread: bool = False,
        escapes: dict[tuple, Escape] | None = None,
    ) -> Trace:
        """Run the model once, and return what it did.

        `keep` gets every value and its contents on the way, and `ahead` the weights that nodes
        read. A `dry` run is for a report without a file. A proof runs the model in `one_thread`.
        `escapes` gets those of this recording, also if it ends with an error.
        """
        model, root = recipe.call.model, recipe.call.root
        self.stand_ins.survives(recipe)

        def run(guard: preserved) -> Trace:
            if one_thread:
                torch.set_num_threads(1)  # the guard restores this
            return _run(self, recipe, keep, ahead, dry, guard, escapes)

        def guarded() -> Trace:
            guard = self.guard_of(root)
            return run_inside(self.without_weights(), lambda _: run_inside(guard, run))

        found = None
        try:
            found = self.carried.run(recipe.call, guarded)
        finally:
            self.spending.record(0 if found is None else len(found.nodes))
        if root is not model:
            found.classes.pop("", None)
        own = root is model
        found.name = type(root).__name__ if own else getattr(model, "__name__", "function")
        return found

    def unrecorded(self, recipe: Recipe, outputs: Sequence[str]) -> Trace:
        """Return the trace of a file that was made elsewhere: nothing but its outputs is known.

        It is not known which values left its graph when it was made, so other paths are tried, too.
        """
        escapes = {("unknown", "", 0): Escape("unknown", Where("", 0), "")}
        values = [(name, None) for name in outputs]
        graph = RecordedGraph([], Dialect(self.opset))
        return Trace(recipe, graph, [], values, escapes, is_recorded=False)

    def guard_of(self, root: torch.nn.Module, writes: Collection[str] = ()) -> preserved:
        """Return a guard for a run: that of an earlier one, which remembers the model already."""
        guard = self.guards.get(id(root))
        if guard is None or not guard.may_guard(root, writes):
            guard = preserved(root, writes)
            if self.slim is None:  # else stand-ins for weights are others each time
                self.guards[id(root)] = guard
        return guard

    def without_weights(self) -> Any:
        """Put the stand-ins for weights that are elsewhere into the model, if there are any."""
        return _Nothing() if self.slim is None else self.slim.placed()


class _Nothing(contextlib.nullcontext):
    def close(self) -> None:
        pass


class _RecordingLimit:
    """Ends a recording that takes many times the nodes of another, or asks many questions.

    A loop over plain numbers asks, and makes no nodes. Each of its questions is about a longer
    formula.
    """

    def __init__(self, nodes: int, note_node: Callable[[Any], None] | None) -> None:
        limits = BUDGET.questions
        few = min(nodes, limits.of_a_recording)
        self._left, self._questions_left = nodes, max(nodes // limits.nodes_for_each, few)
        self._note_node = note_node

    def node(self, node: Any) -> None:
        if self._note_node is not None:
            self._note_node(node)
        self._left -= 1
        if self._left < 0:
            raise Unsupported("this way has many times as many nodes as the one that was recorded")

    def question(self) -> None:
        self._questions_left -= 1
        if self._questions_left < 0:
            raise Unsupported(
                "this way asks many times as many questions as the one that was recorded"
            )


def _run(
    recorder: Recorder,
    recipe: Recipe,
    keep: Any,
    ahead: WriteAhead | None,
    dry: bool,
    guard: preserved,
    escapes: dict[tuple, Escape] | None,
) -> Trace:
    recording = _not_yet_run(recorder, recipe, dry, guard)
    outputs, knowledge = recorder.outputs, recorder.knowledge
    recording.memory.live.keep = keep
    forecast = None if ahead is None else Forecast(ahead, recording.folds)
    note_node = None if forecast is None else forecast.node
    recording.builder.added = note_node
    if recipe.limit is not None:
        limit = _RecordingLimit(recipe.limit, note_node)
        recording.builder.added, recording.questions.counted = limit.node, limit.question
    guard.draws.seen = False
    inputs = binding.of_inputs(recipe, recording)
    binding.name_tensors(recording)
    module_outputs: dict[str, Any] = {}  # of the modules that the user named
    watch = binding.watcher(outputs, module_outputs, recording)
    args, kwargs = arguments(recipe.call, recording.model.inputs)
    recording.position.frames.begin()
    found = _trace_of(recording, recipe, inputs)
    found.findings += training.findings(guard.trained)
    found.findings += [Finding(CHECKED, text) for text in recording.choices.idle]

    def run(_: None) -> None:
        result = call_model(recording.model.function, args, kwargs)
        if guard.draws.seen:
            binding.require_built(recipe.call.root, recording)
        if outputs is not None:
            result = {path: module_outputs[path] for path in outputs if path in module_outputs}
            layers.require_run(outputs, module_outputs)
        # In here: a converter may be asked once more, for a view that was written to.
        recording.running.busy = True
        with torch._C.DisableTorchFunction():
            binding.of_outputs(recording, found, result)
            found.structure = binding.structure(result)

    generators, state = other_generators.Generators(), torch.get_rng_state()
    try:
        run_inside(recorded(recording, watch), run)
        for told, where, decided in recording.findings.raised.caught(recording.position.frames):
            note_escape(recording, "caught", told, where, decided)
    finally:
        if escapes is not None:
            escapes.update(recording.findings.escapes)
        recording.findings.raised.forget()
        if recording.questions.padded_line is not None:
            knowledge.padded_lines.append(recording.questions.padded_line)
    knowledge.met.update(code for code, _ in recording.position.frames.visited)
    knowledge.met.update(recording.code.lost_sizes)
    knowledge.respelled.update(recording.code.respelled)
    found.effects.drew_outside = generators.tell(recording)
    found.effects.still = torch.equal(state, torch.get_rng_state())
    found.effects.still &= not (found.effects.drew_outside or recording.draws.own_generator)
    if forecast is not None:
        forecast.node(None)
    _look_back(recording, found, recorder.slim, guard)
    recording.let_go()
    return found


def _trace_of(recording: Recording, recipe: Recipe, inputs: list[tuple[str, Value]]) -> Trace:
    """A trace that shares its data with a recording, and outlives it."""
    builder, findings, tallies = recording.builder, recording.findings, recording.tallies
    return Trace(
        recipe,
        RecordedGraph(
            builder.nodes,
            builder.dialect,
            recording.folds,
            recording.memory.constants,
            None if builder.lengths is None else builder.lengths.marks,
        ),
        inputs,
        outputs=[],
        escapes=findings.escapes,
        questions=recording.questions.each,
        calls=CallCounts(tallies.converted, tallies.declined, tallies.by_pack, findings.missing),
        findings=findings.messages,
        classes={path: type(module).__name__ for path, module in recording.model.modules},
    )


def _not_yet_run(recorder: Recorder, recipe: Recipe, dry: bool, guard: preserved) -> Recording:
    """A recording that has not run the model yet."""
    flow, slim, knowledge = recipe.flow, recorder.slim, recorder.knowledge
    unfolded = recipe.folding is not Folding.FOLDED
    builder = Builder(Dialect(recorder.opset, unfolded=unfolded))
    switches = Switches(
        recipe.answers,
        dry,
        unfolded,
        recipe.folding in (Folding.COUNTING, Folding.SELECTING),
        flow.loops is not None and flow.loops.numbered,
        recipe.folding is Folding.SELECTING,
    )
    model = ModelParts(
        recipe.body or recipe.call.model,
        guard.modules,
        guard.things,
        guard=guard,
        slim=slim,
        blend=Blend() if slim is not None and slim.hollow else None,
    )
    recording = Recording(Choices(recorder.registry, recorder.opset), builder, switches, model)
    builder.value_of = functools.partial(value_of, recording)
    builder.keep = functools.partial(constant_of, recording)
    builder.entry_of = recording.memory.live.find
    builder.note_escape = functools.partial(note_escape, recording)
    recording.findings.tracing_questions = knowledge.asked
    recording.code.unnamed_functions = knowledge.unnamed
    recording.code.selectable = knowledge.selectable
    questions = recording.questions
    questions.forced, questions.until, questions.padding = recipe.forced, flow.until, recipe.padding
    if recipe.padding is not None or recipe.at_odd_sizes:
        questions.left_over = LeftOver(lambda: recording.running.busy)
    recording.builder.sizes.once = not flow.reorders
    recording.builder.equal.learns = flow.branches is not None
    if flow.loops is not None:
        recording.builder.lengths = Lengths(recording.builder, recording.findings.escapes)
    return recording


def _look_back(recording: Recording, found: Trace, slim: Slim | None, guard: preserved) -> None:
    """Collect the effects of the run: compiled code, writes to the model's state, draws."""
    effects = found.effects
    effects.compiled = compiled_calls.unseen(
        recording.findings, recording.position, recording.tallies
    )
    for one in effects.compiled:
        text = f"{one} is compiled code: what it computes by itself is not in the graph"
        found.findings.append(Finding(OPEN, text, hint=compiled_calls.how(one)))
    found.findings += [] if slim is None else slim.findings
    binding.require_apart(recording, found.recipe.inputs)
    effects.changed_buffers, effects.changed_parameters = guard.changed()
    effects.changed_buffers = sorted({*effects.changed_buffers, *binding.traced_buffers(recording)})
    effects.touched, effects.keeps = guard.touched(), guard.kept()
    effects.script_attributes = recording.findings.script_attributes
    effects.keeps += sorted({name for _, name in effects.script_attributes})
    effects.drew = guard.draws.seen
    effects.size_in_text = recording.findings.size_in_text
    effects.knows_sizes = recording.running.told or bool(found.escapes or effects.compiled)
    effects.wrong_constants = recording.findings.wrong_constants
    effects.outside_tensors = recording.memory.outside_tensors
    if effects.changed_parameters:
        told = ", ".join(effects.changed_parameters[:5])
        text = f"the model writes to its parameters: {told}"
        found.findings.append(Finding(CHECKED, text))
