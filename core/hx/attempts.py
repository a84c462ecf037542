"""Attempt with one recipe: record, merge, assemble, write a hidden file, prove it, move it."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from .cleanup import run_inside
from .errors import (
    HxError,
    MissingConverters,
    Unsupported,
    UsageError,
    VerificationError,
    Where,
    is_environment_error,
)
from .findings import CHECKED, Finding, scaffold
from .graph import graph
from .graph.model_parts import Parts
from .ir.outcome import Offers, Outcome, Refused, Right, Wrong
from .ir.recipe import Promise, Recipe, Sizing
from .ir.request import Request
from .merging import branches, formulas, loops
from .merging.formulas.compare_recordings import are_alike
from .merging.loops import until
from .merging.pieces_apart import cut_apart
from .merging.protocol import Merge, NotRecorded, RecordingWanted, Reply, Unmerged, carry_out
from .packs import passes, symbolic
from .packs.nesting import unique
from .packs.registry import Registry
from .program import Made, Program
from .proof.cases import counted
from .proof.first_calls import settle_state
from .proof.promises.right_sizes import is_right_as_given
from .proof.proving import failing
from .proof.random import randomness
from .proof.subject import Subject
from .recording.recorder import Recorder
from .recording.trace import Trace
from .report import Report
from .report.sections import File
from .report.strict import require_none_open
from .report.timeline import Timeline
from .samples.sizes import at, sizes_of
from .saving import save
from .search.history import History
from .search.offers import BESIDE_LOOPS, may_be_merged, offers
from .search.strategy_names import outcome_in_words, refused_in_words, strategy_name
from .text import amount, with_article
from .torchworld.state import shallow

if TYPE_CHECKING:
    import onnx

    from .contributions import GraphPass


@dataclass
class Attempts:
    """Parts that all attempts of one export share."""

    request: Request
    recorder: Recorder
    history: History
    timeline: Timeline
    staged: list[save.Staged] = field(default_factory=list)  # files of all attempts
    wrong: list[tuple[Recipe, Trace, Wrong]] = field(default_factory=list)  # without merges

    def attempt(self, recipe: Recipe) -> Outcome:
        """Export the model with one recipe. An error that ends the search is raised."""
        self.timeline.begin(strategy_name(recipe))
        try:
            outcome = self._attempted(recipe)
        except Exception as problem:
            self.timeline.end(refused_in_words(problem))
            raise
        report = outcome.made.report if isinstance(outcome, Right) else None
        limits = ", ".join(report.promised.values()) if report is not None else ""
        verified = report is not None and report.proof is not None
        self.timeline.end(outcome_in_words(outcome, verified, limits))
        return outcome

    def _attempted(self, recipe: Recipe) -> Outcome:
        options, destination = self.request.options, self.request.destination
        try:
            if destination.path is None and not options.verify and not options.check_every_node:
                found = self._recorded(recipe)
                return Right(found) if isinstance(found, Program) else found
            staged = save.Staged(destination.path, destination.external_data)
            return run_inside(staged, lambda staged: self._written(recipe, staged))
        except Exception as problem:
            return self._refused(problem)

    def _written(self, recipe: Recipe, staged: save.Staged) -> Outcome:
        program = self._recorded(recipe, staged)
        if not isinstance(program, Program):
            return program
        destination = self.request.destination
        keep = destination.keep_rejected if self.history.speaks_for(recipe) else None
        if keep is None and (known := self._known_wrong(recipe, program._trace)) is not None:
            return known
        self.staged.append(staged)
        one_way = found_one_way(recipe, program._trace)
        try:
            program.write(staged, self.timeline, keep)
        except VerificationError as error:
            failed, sizes = failing(program._subject, program.proof)
            self.history.knowledge.wrong_sizes.extend(sizes)
            self.history.knowledge.met.update(program._subject.code_run)
            target = None if destination.path is None else staged.target
            explain = functools.partial(program.explain, error, target)
            wrong = Wrong(
                error,
                failed,
                one_way,
                program._trace.merged.may_run_zero_times,
                program.proof is not None and is_right_as_given(program._subject, program.proof),
                explain,
            )
            if not program._trace.merged.members:
                self.wrong.append((recipe, program._trace, wrong))
            return wrong
        except Exception as problem:
            return self._refused(problem, one_way)
        return Right(program)

    def _known_wrong(self, recipe: Recipe, trace: Trace) -> Wrong | None:
        """Return the outcome of the same file from a recording that went another way to it.

        Code that was respelled since, or other answers to questions about tracing, may change nothing.
        """
        for before, recorded, outcome in self.wrong:
            alike = not trace.merged.members and proves_alike(before, recipe)
            if alike and are_alike(recorded, trace):
                return outcome
        return None

    def _refused(
        self,
        problem: Exception,
        one_way: bool = False,
        baked_at: Where | None = None,
        unfolded: bool = False,
    ) -> Refused:
        if self.history.ends_with(problem):
            raise problem
        return Refused(problem, one_way, baked_at, unfolded)

    def _recorded(
        self, recipe: Recipe, staged: save.Staged | None = None
    ) -> Program | Offers | Refused:
        """Record the model, merge what the recipe wants merged, and assemble the graph."""
        registry = self.recorder.registry
        ahead = None
        if staged is not None and not (
            recipe.request.weights.streamed or recipe.flow.reorders or registry.passes
        ):
            ahead = staged.ahead_of(shallow.weight_bytes(recipe.call.root))
        first = self.recorder.record(recipe, ahead=ahead)
        one_way = False
        try:
            settle_state(self.recorder, first)
            record = functools.partial(reply, self.recorder)
            found = carry_out(merge_branches(first), record)
            if not isinstance(found, Unmerged):
                one_way = found_one_way(recipe, found)
                found = carry_out(merge_loops(first, found), record)
            if isinstance(found, Unmerged):
                return self._refused(found.error, one_way, found.baked_at, found.unfolded)
            counted.tell_often(found)
            report = report_of(found, self.recorder)
            return self._assembled(found, report)
        except Exception as problem:
            return self._refused(problem, one_way)

    def _assembled(self, trace: Trace, report: Report) -> Program | Offers:
        options, recorder = self.request.options, self.recorder
        subject = Subject.of(trace, recorder)
        try:
            _require_covered(report, recorder.registry)
            found = offers(subject, report, options.verify, options.check_every_node)
            if found is not None:
                return found
            if options.strict:
                # A proof may still show that some of them change nothing.
                require_none_open(escape.finding(options.verify) for escape in report.escapes)
            parts = self._made(trace, report)
            # Assembling may have noted further values that left the graph.
            latest = Subject.of(trace, recorder)
            subject = replace(latest, runner=subject.runner, notes=subject.notes)
            return Program(Made(*parts, subject), report)
        except HxError as problem:  # the report shows how far the attempt came
            if not report.packs:
                count_nodes(report, trace)
            problem.report = report
            raise

    def _made(self, trace: Trace, report: Report) -> tuple[Parts, list[GraphPass]]:
        """Assemble the graph; also return the passes of packs that changed it."""
        self.timeline.enter("assemble")
        _require_outputs(trace, self.request.call.model)
        made = _assemble(trace, self.request.options.output_names, self.recorder.opset)
        self.timeline.enter("passes")
        made, rewrote = passes.run(made, self.recorder.registry)
        self.timeline.enter("assemble")
        _describe(report, made)
        shapes = {output["name"]: output["shape"] for output in report.outputs}
        texts = trace.recipe.request.sizes.of_outputs(shapes)
        report.messages += [Finding(CHECKED, text) for text in texts]
        return made, rewrote


def found_one_way(recipe: Recipe, trace: Trace) -> bool:
    """Return whether branches were to be merged, and no inputs led along another one."""
    return bool(recipe.flow.branches) and not trace.recipe.flow.branches


def proves_alike(one: Recipe, other: Recipe) -> bool:
    """Return whether the proofs of equal files that these lead to would be equal."""
    told = {"answers", "offers", "leaks", "unmerged_reason", "sizing"}
    names = {each.name for each in fields(Recipe)} - told
    special = Sizing.INFORMATIVE in (one.sizing, other.sizing)
    return not special and all(getattr(one, name) is getattr(other, name) for name in names)


def merge_flow(first: Trace) -> Merge[Trace | Unmerged]:
    """Merge a recording with others, according to its recipe."""
    found = yield from merge_branches(first)
    return found if isinstance(found, Unmerged) else (yield from merge_loops(first, found))


def merge_branches(first: Trace) -> Merge[Trace | Unmerged]:
    """Merge a recording with those of other ways, if its recipe says so.

    Rounds may hinder that: other data may lead to other numbers of rounds. Then the recording
    itself is returned, and the branches are left to `merge_loops`.
    """
    flow = first.recipe.flow
    if not flow.branches or (flow.loops and not may_be_merged(first)):
        return first
    if flow.branches.in_turn:
        return (yield from loops.merge_in_turn(first))
    found = yield from branches.merge(first)
    return first if flow.loops and isinstance(found, Unmerged) else found


def merge_loops(first: Trace, joined: Trace) -> Merge[Trace | Unmerged]:
    """Write the loops and formulas of a recording whose branches are merged, if that was possible."""
    recipe, flow = joined.recipe, first.recipe.flow
    in_rounds = flow.loops and flow.branches and joined is first
    found: Trace | Unmerged = joined
    if flow.until:
        found = yield from until.merge(joined)
    elif in_rounds:
        found = yield from loops.merge_with_branches(joined)
    elif flow.loops:
        found = loops.write_loops(joined)
    if isinstance(found, Unmerged):
        return found
    if in_rounds:
        # Its rounds are unfolded already: another unfolded recording would change nothing.
        found.merged.may_run_zero_times = False
    if flow.loops:
        _tell_unmerged(found, BESIDE_LOOPS)
    elif recipe.unmerged_reason:
        _tell_unmerged(found, recipe.unmerged_reason)
    found = found if recipe.offers else cut_apart(found)
    if flow.formulas:
        plain = recipe.with_flow(formulas=())
        others = [replace(plain, inputs=at(recipe, sizes)) for sizes in flow.formulas]
        sizes_of_all = [sizes_of(recipe), *flow.formulas]
        return (yield from formulas.merge(found, sizes_of_all, others))
    return found


def reply(recorder: Recorder, wanted: RecordingWanted) -> Reply:
    """Make the recording that a merge asks for. An error of the environment is raised."""
    if recorder.spending.is_over and wanted.recipe.promise is not Promise.ANY:
        return NotRecorded(
            Unsupported(f"no further way through the branches is recorded: {recorder.spending}")
        )
    try:
        found = recorder.record(wanted.recipe)
        if not wanted.merged:
            return found
        merged = carry_out(merge_flow(found), functools.partial(reply, recorder))
        return NotRecorded(merged.error) if isinstance(merged, Unmerged) else merged
    except Exception as problem:
        if is_environment_error(problem):
            raise
        return NotRecorded(problem)


def _tell_unmerged(trace: Trace, why: str) -> None:
    """Note at the open questions about values that the graph has only one answer, and why."""
    for escape in trace.escapes.values():
        told = escape.carried or escape.asked or escape.beyond
        if escape.kind == "bool" and not told:
            escape.beyond = f"the file always takes this branch: {why}"


def _require_outputs(trace: Trace, model: Any) -> None:
    """Raise if the model returned no tensor."""
    if trace.outputs:
        return
    function = getattr(type(model), "forward", model)
    code = getattr(function, "__code__", None)
    raise UsageError(
        f"the model returned {with_article(trace.structure)}, and no tensor",
        where=Where(code.co_filename, code.co_firstlineno) if code is not None else None,
        hint="let its forward end with `return` and tensors",
    )


def _assemble(trace: Trace, output_names: Sequence[str] | None, opset: int) -> Parts:
    names = [name for name, _ in trace.outputs]
    if output_names is not None:
        if len(output_names) > len(names):
            raise UsageError(
                f"output_names has {len(output_names)} names, and the model returns "
                f"{amount(len(names), 'tensor')}: {', '.join(names)}"
            )
        taken = [n for n, _ in trace.inputs if n in output_names]
        if taken:
            raise UsageError(f"output_names: {taken[0]!r} is the name of an input")
        named = unique([*output_names, *names[len(output_names) :]])
        trace.outputs = [(n, v) for n, (_, v) in zip(named, trace.outputs)]
    trace.check_constants()
    made = graph.build(
        trace.nodes,
        [v for _, v in trace.inputs],
        trace.outputs,
        opset=opset,
        domains=trace.graph.dialect.domains,
        classes=trace.classes,
        name=trace.name,
        folds=trace.graph.folds,
    )
    return made


def report_of(trace: Trace, recorder: Recorder) -> Report:
    registry, opset = recorder.registry, recorder.opset
    report = Report(trace.name, File(opset))
    report.calls.installed = [
        {"pack": pack.key, "version": pack.version, "status": pack.status}
        for pack in registry.packs
    ]
    report.calls.missing = sorted(trace.calls.missing.values(), key=lambda m: (-m.count, m.target))
    for missing in report.missing:
        missing.nearest = registry.nearest(missing.target)
    report.escapes = list(trace.escapes.values())
    report.calls.declined = dict(sorted(trace.calls.declined.items()))
    report.changed_buffers = trace.effects.changed_buffers
    report.file.sizes = dict(sizes_of(trace.recipe, trace.recipe.given))
    passed_over = symbolic.passed_over(opset)
    report.messages = [
        *trace.findings,
        *randomness.findings(trace.nodes),
        *(Finding(CHECKED, text) for text in passed_over),
    ]
    report.calls.converters = dict(sorted(trace.calls.converted.items()))
    report.calls.by_pack = trace.calls.by_pack
    return report


def count_nodes(report: Report, trace: Trace) -> None:
    """Count the nodes by pack in a recording that has no graph."""
    origins = (node.origin for node in trace.nodes)
    report.file.packs = dict(Counter(origin.pack for origin in origins if origin is not None))


def _describe(report: Report, made: Parts) -> None:
    import onnx

    def told(value: onnx.ValueInfoProto) -> dict[str, Any]:
        tensor = value.type.tensor_type
        return {
            "name": value.name,
            "dtype": onnx.TensorProto.DataType.Name(tensor.elem_type).lower(),
            "shape": [
                getattr(dim, kind) if (kind := dim.WhichOneof("value")) else None
                for dim in tensor.shape.dim
            ],
        }

    counted = made.by_pack()
    file = report.file
    file.nodes = counted.total()
    file.packs = {pack: n for pack, n in counted.items() if pack}  # nodes left in the graph
    file.initializers = len(made.weights) + len(made.graph.initializer)
    file.inputs = [told(value) for value in made.graph.input]
    file.outputs = [told(value) for value in made.graph.output]


def _require_covered(report: Report, registry: Registry) -> None:
    if not report.missing:
        return
    without = [m for m in report.missing if not m.declined]
    count = len(without) or len(report.missing)
    none = (
        "no converter" if without else "a converter that declined, and nothing beneath to convert"
    )
    listed = "\n".join(f"  {m}" for m in report.missing)
    hint = "have the converter say what the call means, where it returns NotImplemented"
    if without:
        hint = left_out(registry) or (
            "a pack may have them: pip install it, and look with `hx converters list`"
        )
    if len(without) > 1:
        hint += f"\n         one pack for all: {scaffold(without)}"
    raise MissingConverters(
        f"{count} target{'s have' if count > 1 else ' has'} {none}\n{listed}",
        report.missing,
        hint=hint,
    )


def left_out(registry: Registry) -> str:
    """List the packs that were left out and may have the missing converters."""
    out = {pack.distribution: pack.error for pack in registry.packs if pack.status == "disabled"}
    return "; ".join(f"{name} may have them, which is {error}" for name, error in out.items())
