"""Result of an export: the model, its report and proof, and a way to run it."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .cleanup import run_inside
from .errors import UsageError, VerificationError
from .findings import FOLLOWED, Finding
from .hooks.inspection import Layer, inspect
from .packs import containers
from .packs.kernels import op_runs
from .proof.diagnose import Rejected, diagnose
from .proof.diagnose.first_difference import baked_sizes
from .proof.differences.nodes import NodeTable, check_nodes
from .proof.file_proof import Case
from .proof.proving import prove_program
from .recording.prepare import arguments
from .report import Report
from .report.strict import require_none_open
from .report.timeline import Timeline
from .runtime import Refused
from .safe_import import safe_import
from .saving import save

if TYPE_CHECKING:
    import onnx_ir

    from .contributions import GraphPass
    from .graph.model_parts import Parts
    from .page.data import Examined
    from .proof.subject import Subject
    from .recording.trace import Trace
    from .saving.save import Saved


SUFFIX = ".certificate.json"
SEVERAL = "a branch or a loop of them stands for what several recordings, or rounds, had there"


class Made:
    """Product of an export, shared by a program and its report.

    It holds no reference to the program. So the model's weights are freed with the last reference
    to the program, without the garbage collector.
    """

    def __init__(self, parts: Parts, rewrote: list[GraphPass], subject: Subject) -> None:
        self.first = parts  # parts as they were written
        self.rewrote = rewrote  # passes of packs, where they changed the graph
        self.subject = subject
        self.runner: Any = None
        self._ran: tuple[Any, ...] = ()

    @functools.cached_property
    def model(self) -> onnx_ir.Model:
        safe_import("onnx_ir")
        from .saving import ir

        return ir.put_together(self.first)

    @property
    def parts(self) -> Parts:
        """Return the current parts of the model's file."""
        return save.parts_of(self.model) if "model" in vars(self) else self.first

    def examine(self, report: Report) -> Examined:
        """Return the contents of a page about the graph."""
        return Program(self, report).examined()

    def changed(self) -> bool:
        """Return True if somebody has changed the model since the last call."""
        if "model" not in vars(self):
            return False
        parts = self.parts
        values = tuple(each.const_value for each in self.model.graph.initializers.values())
        now = (parts.graph_bytes, parts.model_bytes, tuple(map(id, values)), values)
        same = now[:3] == self._ran[:3]
        self._ran = now
        return not same


class Program:
    """Result of an export: `model` is an onnx_ir.Model, `report` tells what happened, and `proof`
    how it was checked."""

    def __init__(self, made: Made, report: Report) -> None:
        self._made = report.made = made
        self.report = report

    def __repr__(self) -> str:
        r = self.report
        place = r.path or "in memory"
        return f"<hx.Program {place}: {r.nodes} nodes, opset {r.opset}, {len(r.escapes)} escapes>"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    @property
    def model(self) -> onnx_ir.Model:
        """Model of the file, made at the first access. Changes in it are saved and run."""
        return self._made.model

    @property
    def parts(self) -> Parts:
        """Parts of the model's file."""
        return self._made.parts

    @property
    def _subject(self) -> Subject:
        return self._made.subject

    @property
    def _trace(self) -> Trace:
        return self._made.subject.trace

    @property
    def proof(self) -> Any:
        return self.report.proof

    def write(
        self,
        staged: save.Staged,
        timeline: Timeline,
        keep_rejected: str | os.PathLike | None,
    ) -> None:
        """Write the file under another name, prove it, and only then move it to its place."""
        report, recipe = self.report, self._trace.recipe
        options, path = recipe.request.options, recipe.request.destination.path
        timeline.enter("save")
        staged.write(self.parts)
        report.file.size = staged.size
        if options.verify:
            timeline.enter("verify")
            report.checks.proof = prove_program(
                self._subject, staged.path, staged.target, self._kernels, timeline.tell
            )
            # The proof may have added questions that occur only at other sizes.
            report.escapes = list(self._subject.escapes.values())
            report.messages += self._subject.notes
        if report.proof is not None and report.proof.wrong:
            self._reject(staged, keep_rejected)
        if self._subject.promised:
            self._promise(staged)
        # Else another recording has other nodes, or other numbers.
        alone = not (recipe.flow.reorders or recipe.flow.formulas)
        hollow = recipe.request.weights.hollow
        if report.proof is not None and recipe.request.sizes and alone and not hollow:
            timeline.enter("sizes")
            report.checks.baked = baked_sizes(self._subject, self.parts)
        if options.strict:
            require_none_open(report.findings)
        if options.check_every_node and alone:
            timeline.enter("check nodes")
            self._check_nodes(staged)
        elif options.check_every_node:
            report.messages.append(
                Finding(FOLLOWED, f"the nodes were not compared one by one: {SEVERAL}")
            )
        if path is not None:
            timeline.enter("save")
            saved = staged.commit()
            self._written(saved, path)

    def _promise(self, staged: save.Staged) -> None:
        """Note in the report and in the file for which sizes the file is right."""
        import onnx

        promised = self._subject.promised
        self.report.checks.promised = {
            word: limit.briefly(word) for word, limit in promised.items()
        }
        said = onnx.ModelProto()
        said.metadata_props.add(key="hx.sizes", value=", ".join(self.report.promised.values()))
        staged.append(said.SerializeToString())
        self.report.file.size = staged.size
        self._made.first.model.MergeFrom(said)
        vars(self._made.first).pop("model_bytes", None)

    def _reject(self, staged: save.Staged, keep: str | os.PathLike | None) -> None:
        proof = self.report.proof
        hint = "nothing was written; hx export --keep-rejected keeps the file"
        if keep is not None:
            hint = f"{self.report.path or 'the target'} is untouched; what was rejected is in "
            hint += os.fspath(staged.keep(keep))
        wrong = any(output.problem for case in proof.cases for output in case.outputs)
        what = "the graph does not compute what the model computes"
        what = what if wrong else "the graph cannot be verified"
        told = proof.explain().replace("\n", "\n  ")
        error = VerificationError(f"{what}\n  {told}", proof=proof, hint=hint)
        error.report = self.report
        raise error

    def explain(self, error: VerificationError, target: Path | None) -> None:
        """Find out why the file is wrong, for its error and its report.

        The model and the file run some more times.
        """

        def look(staged: save.Staged) -> None:
            rejected = Rejected(
                self._subject,
                self.parts,
                self._made.rewrote,
                staged.path,
                target or staged.target,
                self._kernels,
                self.report.proof,
            )
            diagnosis = diagnose(rejected)
            checks = self.report.checks
            checks.why, checks.baked = diagnosis.lines, diagnosis.baked
            checks.node_table = diagnosis.node_table
            error.why = "\n         ".join(diagnosis.lines)

        run_inside(save.staged(self.parts, None), look)

    @property
    def _kernels(self) -> list[type]:
        return op_runs(self._subject.recorder.registry.kernels)

    def check_nodes(self) -> NodeTable:
        """Compare every node of the graph with the model's own values, on the recorded inputs."""

        def check(_: None) -> None:
            run_inside(save.staged(self.parts, None), self._check_nodes)

        if self.report.node_table is None:
            run_inside(containers.using(self._subject.recorder.registry.containers), check)
        return self.report.node_table

    def examined(self) -> Examined:
        """Return the graph with the errors of its nodes, and the modules' costs in PyTorch."""
        from .page.data import Examined

        if self.report.node_table is None:
            # A file that cannot run has no errors to show.
            with contextlib.suppress(VerificationError, UsageError):
                self.check_nodes()
        known = containers.using(self._subject.recorder.registry.containers)
        layers = run_inside(known, lambda _: self._layers())
        return Examined(self.model, self.report.node_table, self._trace.classes, layers)

    def _layers(self) -> dict[str, Layer]:
        """Measure what each module of the model costs in PyTorch, in one more run."""
        recipe = self._trace.recipe
        model = recipe.call.model
        if not isinstance(model, torch.nn.Module) or recipe.request.weights.streamed:
            return {}  # no modules, or not the weights that were exported
        args, kwargs = arguments(recipe.call, recipe.inputs)
        return {layer.name: layer for layer in inspect(model, args, kwargs).layers}

    def _check_nodes(self, staged: save.Staged) -> None:
        trace = self._trace
        if trace.recipe.request.weights.hollow:
            raise UsageError(
                "the nodes cannot be compared one by one: what the model had there follows from "
                "weights that were not there",
                hint="export the model with its weights in memory, and without dtype",
            )
        if trace.recipe.flow.reorders:
            raise UsageError(f"the nodes cannot be compared one by one: {SEVERAL}")
        case = Case("recorded", dict(trace.recipe.inputs), trace.results)
        try:
            self.report.checks.node_table = check_nodes(
                self._subject, staged.path, case, target=staged.target, custom_ops=self._kernels
            )
        except Refused as refused:
            raise VerificationError(
                "the graph cannot be run node by node", why=str(refused)
            ) from None

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph in onnxruntime and return its outputs in the structure of the model's
        result.

        Takes the model's arguments, nested as they were at the export, or one dict of the graph's
        inputs by name; torch tensors or numpy arrays. Returns numpy arrays if all inputs are numpy
        arrays. Runs the written file if there is one, with the packs' reference kernels where it
        needs them.
        """
        made = self._made
        if made.runner is None or (self.report.path is None and made.changed()):
            from .proof.sessions.running import Runner

            made.runner = Runner(self._subject, self.parts, self.report.path)
        known = containers.using(self._subject.recorder.registry.containers)
        return run_inside(known, lambda _: self._made.runner(args, kwargs))

    def save(self, path: str | os.PathLike, external_data: bool | None = None) -> None:
        """Write the model to a file, whole or not at all."""
        saved = save.save(self.parts, path, external_data)
        self._written(saved, path)
        self._made.runner = None

    def certify(self, path: str | os.PathLike | None = None, key: bytes | None = None) -> Path:
        """Write a certificate of the proof, which `hx verify --certificate` checks without torch.

        It is NAME.certificate.json beside the file if no path is given. A key signs it.
        """
        from .page.data import versions
        from .proof.certificates import certify, recheck, sealing

        report = self.report
        if report.proof is None or report.path is None:
            what = "in memory" if report.path is None else "written without a proof"
            raise UsageError(
                f"no certificate: the graph is {what}",
                hint="give hx.export a path, and verify=True",
            )
        file = Path(report.path)
        about = {
            "model": report.name,
            "opset": report.opset,
            "promised": report.promised,
            "versions": versions(),
        }
        made = certify.certificate(self._subject.cases, report.proof, file, about, self._kernels)
        if not recheck.recheck(made, file).ok:
            raise VerificationError(
                "no certificate: the file is not the one that was proved",
                why="the model, or the file, was changed after the export",
            )
        target = Path(path) if path is not None else file.with_name(f"{file.stem}{SUFFIX}")
        save.write_text(sealing.sealed(made, key), target)
        return target

    def _written(self, saved: Saved, path: str | os.PathLike) -> None:
        file = self.report.file
        file.path, file.size = os.fspath(saved.path or path), saved.size
        file.data_path = None if saved.data_path is None else os.fspath(saved.data_path)
