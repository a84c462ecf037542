"""Public functions `hx.export` and `hx.scan`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

from .attempts import Attempts, count_nodes, report_of
from .cleanup import run_inside, runs_inside
from .errors import Differentiates, ExportError, HxError, UsageError, is_environment_error
from .findings import CHECKED, FOLLOWED, Finding
from .frame_stack import with_large_frame
from .garbage_collection import fewer_collections
from .ir import dynamic_axes
from .ir.outcome import Outcome, Refused, Right, Wrong
from .ir.proposed_sizes import Proposal
from .ir.recipe import Promise, Recipe
from .ir.request import Destination, Options, Request
from .ir.spending import Effort, Spending
from .packs import containers
from .packs.registry import Registry
from .program import Program
from .proof.subject import Subject
from .recording.calls.choices import Choices
from .recording.hooks.install_hooks import aside
from .recording.other_inputs import other_inputs, with_others
from .recording.prepare import explained, prepare, require_names
from .recording.reads import numpy_results
from .recording.recorder import Recorder
from .recording.runs import derivatives
from .recording.runs.known_results import KnownResults
from .recording.trace import Trace
from .registration import OPSETS
from .report import Report
from .report.timeline import Progress, Timeline
from .safe_import import safe_import
from .saving import destinations, model_file
from .search import automatic_sizes, offers
from .search.both_sides import both_sides
from .search.history import History
from .search.loop_inputs import with_loops
from .search.recipe_findings import follow_sizes, recipe_findings
from .search.strategies import strategies
from .torchworld.modes.absent_weights import Slim
from .torchworld.modes.modes import apart
from .unknown_options import explains_unknown_options

P = ParamSpec("P")
T = TypeVar("T")


def front_door(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a public function that runs a model: what it changes in the process is undone."""
    inside = runs_inside(fewer_collections)(runs_inside(aside)(runs_inside(apart)(function)))
    return explains_unknown_options(with_large_frame(inside))


@front_door
def export(
    model: Any,
    args: Any = (),
    path: str | os.PathLike | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    dynamic: Mapping[str, Any] | str | None = None,
    others: Sequence[Any] | Mapping[str, Any] | None = None,
    opset: int = 20,
    verify: bool = True,
    strict: bool = False,
    external_data: bool | None = None,
    keep_rejected: str | os.PathLike | None = None,
    check_every_node: bool = False,
    effort: str = "normal",
    weights: str | os.PathLike | None = None,
    dtype: Any = None,
    packs: Registry | None = None,
    progress: Progress | None = None,
) -> Program:
    """Run `model(*args, **kwargs)` once, in eval mode, and write its operations to `path` as ONNX.

    model          a torch.nn.Module, or a function of tensors
    args, kwargs   what it is called with; tensors in them become the inputs of the graph
    path           where to write; None keeps the graph in memory
    input_names    names for the inputs, in order; by default, and where there are fewer, those of
                   forward's parameters
    output_names   names for the outputs; by default the keys or fields of the result
    outputs        modules whose outputs are wanted instead: ["layer4", "avgpool"]
    dynamic        sizes that may change: {"x": {0: "batch", 2: "height"}}; the same name is the
                   same size everywhere. "height>=32<=512" has limits, and "height%8" is a multiple
                   of 8: the file is proved at such sizes, and promised for no others. "auto" names
                   the sizes that differ between `args` and `others`, or else those at which the
                   model runs as well, and leaves out what cannot be proved: report.file.proposed
    others         further valid inputs, each as `args`, or as a dict of arguments by name: at other
                   sizes, with other values. The file is proved on each of them, and they show which
                   sizes belong together
    opset          13 to 26
    verify         compare the file with the model: on the recorded inputs, on others, at other
                   sizes, and on the other side of its questions about sizes (`if n > 64`)
    strict         an open finding is an error: a number or an answer of the recording in the file,
                   where other inputs may need a different one
    external_data  weights in a file of their own; None decides by size
    keep_rejected  where to keep a file that failed its proof; without it, the file is deleted
    check_every_node  compare every node's result with the model's own: report.node_table
    effort         "low", "normal" or "high": runs of the model after which nothing new is tried. With
                   "low", a file that is promised for some sizes is taken. Each file is proved in
                   full all the same
    weights        a file or folder that holds the weights: they are streamed from there, and the
                   model may be on the meta device (`with torch.device("meta"): model = ...`)
    dtype          "float16", "bfloat16", ...: floating-point weights and inputs are cast to it
    packs          a Registry; None takes the packs that are installed
    progress       called with the name of each stage as it begins, and from the second strategy
                   on with the strategy's name, too
    """
    timeline, spending = Timeline(progress), Spending(Effort(effort))
    registry = _registry(packs)
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise UsageError(f"path cannot be {path!r}", hint='a name, as "m.onnx", or None')
    options = Options(opset, outputs, output_names, verify, strict, check_every_node)
    destination = Destination(path, external_data, keep_rejected)
    _check_opset(opset)
    for each in (path, keep_rejected):
        destinations.require_unused(each, weights)

    named, automatic = _named_or_automatic(dynamic)
    known = KnownResults()  # of all exports with fewer and fewer sizes

    def once(request: Request, slim: Slim | None) -> Program:
        if output_names is not None and outputs is None:
            request.sizes.of_outputs(dict.fromkeys(output_names))
        wanted = list(outputs) if outputs else None
        recorder = Recorder(registry, opset, wanted, slim, known=known, spending=spending)
        return _export(request, recorder, timeline)

    def run(_: None) -> Program:
        safe_import("onnx", *(["onnxruntime"] if verify else []))
        request, slim = prepare(
            model,
            args,
            kwargs,
            input_names,
            named,
            dynamic_axes.axes,
            weights=weights,
            dtype=dtype,
            options=options,
            destination=destination,
        )
        if output_names is not None:
            require_names("output_names", output_names)
        if not automatic:
            request = with_others(request, others, slim)
        try:
            if automatic:
                recorder = Recorder(registry, opset, list(outputs) if outputs else None, slim)
                program = _with_found_sizes(request, others, recorder, timeline, once)
            else:
                program = once(request, slim)
        except HxError as error:
            timeline.finish_failed(error, type(request.call.root).__name__, opset)
            assert error.report is not None
            error.report.spent = str(spending)
            raise
        except TypeError as error:
            raise explained(error, model, args) or error from error
        timeline.finish(program.report)
        program.report.spent = str(spending)
        return program

    return run_inside(containers.using(registry.containers), run)


def _named_or_automatic(dynamic: Mapping[str, Any] | str | None) -> tuple[Any, bool]:
    """Return the sizes that are named, and whether hx is to find them."""
    if not isinstance(dynamic, str):
        return dynamic, False
    if dynamic != "auto":
        hint = 'write {"x": {0: "batch"}}, or "auto"'
        raise UsageError(f"dynamic= cannot be {dynamic!r}", hint=hint)
    return None, True


def _with_found_sizes(
    request: Request,
    others: Any,
    recorder: Recorder,
    timeline: Timeline,
    once: Callable[[Request, Slim | None], Program],
) -> Program:
    """Export with the sizes that the user's calls, or trials of the model, show as dynamic."""
    slim = recorder.slim
    further = other_inputs(request.call, others, slim) if others else {}
    found = automatic_sizes.seen_sizes(request, further)
    seen = bool(found)
    if not seen:
        timeline.tell("trying other sizes")
        try:
            found = automatic_sizes.found_by_trial(request, recorder)
        except Exception as problem:
            if is_environment_error(problem):
                raise  # else the export raises it, or knows another way

    def exported(request: Request) -> automatic_sizes.Exported[Program]:
        program = once(request, slim)
        promised = program._made.subject.promised
        return automatic_sizes.Exported(program, program.report, promised)

    return automatic_sizes.Proposed(request, further, found, seen, exported).proved()


def _export(request: Request, recorder: Recorder, timeline: Timeline) -> Program:
    history = History(recorder.knowledge)
    attempts = Attempts(request, recorder, history, timeline)
    choices = functools.partial(Choices, recorder.registry, recorder.opset)
    steps = strategies(request, history, choices)
    recipe: Recipe | None = next(steps)  # the first recipe always exists
    as_given: Recipe | None = None  # the first one whose file is right at the given sizes
    while recipe is not None:
        spent = recorder.spending.is_over and not recipe.is_plain
        outcome = _untried(recorder) if spent else attempts.attempt(recipe)
        if isinstance(outcome, Right):
            return _finish(*_with_both_sides(outcome.made, recipe, attempts), attempts)
        history.add(recipe, outcome)
        if isinstance(outcome, Wrong) and outcome.as_given:
            as_given = as_given or recipe
        recipe = _advance(steps, outcome)
    if recorder.spending.is_over and as_given is not None:
        recipe = replace(as_given.derived, promise=Promise.ANY)
        outcome = attempts.attempt(recipe)
        if isinstance(outcome, Right):
            return _finish(outcome.made, recipe, attempts)
    timeline.enter("explain")
    error = history.error_to_report()
    if recorder.spending.is_over and isinstance(error, HxError):
        more = f"nothing new was tried after {recorder.spending}; a higher effort tries more"
        error.hint = f"{error.hint}; {more}" if error.hint else more
    raise error


def _advance(steps: Generator[Recipe, Outcome, None], outcome: Outcome) -> Recipe | None:
    """Return the next recipe, or None at the end of the search."""
    try:
        return steps.send(outcome)
    except StopIteration:
        return None


def _untried(recorder: Recorder) -> Refused:
    """Return the outcome of a recipe that is skipped because the budget is used up.

    Plain recordings are still made: they cost least, and explain a failed export best.
    """
    return Refused(ExportError(f"not tried after {recorder.spending}"))


def _with_both_sides(
    program: Program, recipe: Recipe, attempts: Attempts
) -> tuple[Program, Recipe]:
    """Return a file that needs no promise, if both answers about sizes can be merged into one."""
    other = both_sides(recipe, program._subject, program.report)
    if other is None or attempts.recorder.spending.accepts_promise:
        return program, recipe
    attempts.history.is_settled = True
    outcome = attempts.attempt(other)
    return (outcome.made, other) if isinstance(outcome, Right) else (program, recipe)


def _finish(program: Program, recipe: Recipe, attempts: Attempts) -> Program:
    """Release what only the search needed, and note how the file was made."""
    for staged in attempts.staged:
        staged.forget()
    attempts.recorder.stand_ins.forget()
    attempts.recorder.guards.clear()
    report, destination = program.report, attempts.request.destination
    asked = attempts.recorder.knowledge.asked
    report.messages += recipe_findings(recipe, asked) if attempts.history else []
    beside = destination.path is None or report.data_path is not None
    if destination.external_data and report.initializers and not beside:
        small = f"every weight has less than {model_file.INLINE_BYTES} bytes"
        text = f"{small}: all are in the file, and none beside it"
        report.messages.append(Finding(CHECKED, text))
    if recipe.flow.formulas:
        follow_sizes(report)
    return program


@front_door
def scan(
    model: Any,
    args: Any = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: Mapping[str, Any] | str | None = None,
    opset: int = 20,
    packs: Registry | None = None,
) -> Report:
    """Run an export without a file: list covered, missing and declined calls, and escapes.

    With dynamic="auto", report.file.proposed has the sizes at which the model runs as well.
    """
    _check_opset(opset)
    registry = _registry(packs)
    named, automatic = _named_or_automatic(dynamic)

    def look(_: None) -> Report:
        request, slim = prepare(model, args, kwargs, None, named, dynamic_axes.axes, dry=True)
        recipe = Recipe(request, request.call.tensors)
        recorder = Recorder(registry, opset, slim=slim)
        try:
            trace = recorder.record(recipe, dry=True)
        except Differentiates as refused:
            other = derivatives.traced(recipe, Choices(registry, opset), refused)
            if other is None:
                raise
            try:
                trace = recorder.record(other, dry=True)
            except Exception as problem:
                if is_environment_error(problem):
                    raise
                raise refused from None  # results of another way must not hide it
        request.sizes.of_outputs({name: None for name, _ in trace.outputs})
        trace.findings += [Finding(FOLLOWED, text) for text in _merged_by_export(trace, recorder)]
        report = report_of(trace, recorder)
        count_nodes(report, trace)
        report.calls.missing += numpy_results.missing(trace, recorder)
        if automatic and slim is None:
            report.file.proposed = automatic_sizes.sizes_of_trace(trace, recorder)
        return report

    return run_inside(containers.using(registry.containers), look)


def _merged_by_export(trace: Trace, recorder: Recorder) -> Iterator[str]:
    """Yield the control flow of one recording that an export merges with that of others."""
    if with_loops(Subject.of(trace, recorder)) is not None:
        yield "as many rounds as a size says: where they are alike, export writes them as a loop"
    if any(offers.asked_again(trace, each) for each in offers.until_ended(trace)):
        yield "rounds until values end them: where they are alike, export writes them as a loop"
    elif offers.may_be_merged(trace):
        yield (
            "the model branches on values: export records the other ways, too, and writes an If "
            "where they fit into one graph"
        )


@front_door
def propose(
    model: Any,
    args: Any = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    others: Sequence[Any] | Mapping[str, Any] | None = None,
    opset: int = 20,
    packs: Registry | None = None,
) -> Proposal:
    """Return the sizes that `dynamic="auto"` begins with, before anything is proved."""
    registry = _registry(packs)

    def look(_: None) -> Proposal:
        request, slim = prepare(model, args, kwargs, None, None, dynamic_axes.axes, dry=True)
        further = other_inputs(request.call, others, slim) if others else {}
        found = automatic_sizes.seen_sizes(request, further)
        if found or slim is not None:
            return found
        return automatic_sizes.found_by_trial(request, Recorder(registry, opset))

    return run_inside(containers.using(registry.containers), look)


def _registry(packs: Any) -> Registry:
    if packs is None:
        return Registry.standing()
    if not isinstance(packs, Registry):
        raise UsageError(
            f"packs= has to be an hx.Registry, and is {packs!r}",
            hint="those that are installed are used without it; hx.Registry() has none",
        )
    return packs


def _check_opset(opset: int) -> None:
    if not isinstance(opset, int):
        raise UsageError(f"opset is {opset!r}, a {type(opset).__name__}", hint="write opset=20")
    if opset not in OPSETS:
        raise UsageError(
            f"opset {opset!r} is not between {OPSETS[0]} and {OPSETS[-1]}",
            hint="20 is a good choice when the runtime does not ask for another",
        )
