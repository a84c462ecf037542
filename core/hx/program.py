"""The result of an export: the model, what happened, and how to run it."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from . import whole
from .errors import UsageError, VerificationError
from .inputs.grammar import Limits
from .packs import containers, passes
from .packs.kernels import op_runs
from .proof.alike import alike
from .proof.cases.across import Move
from .proof.cases.othersizes import sizes_of, steps_between
from .proof.nodes import NodeTable, check_nodes
from .proof.promised import may_matter, ruled_out
from .proof.proving import prove_program
from .proof.verify import Case
from .recording import foreign
from .report import ANSWERS, DETOURS, Report
from .runtime import Refused
from .saving import save
from .surely import inside

if TYPE_CHECKING:
    import onnx_ir

    from .recording.capture import Capture
    from .saving import wire
    from .saving.save import Saved


T = TypeVar("T")
SEVERAL = "a branch or a loop of them stands for what several recordings, or rounds, had there"


class Made:
    """What an export made: a program has it and a report, and the report has it, too.

    None of them has the program, so that all goes with the last name of it, without a collector
    of garbage: the model's weights are in it.
    """

    def __init__(self, parts: wire.Parts, captured: Capture) -> None:
        self.first = parts  # as they were written
        self.captured = captured
        self.runner: Any = None
        self._ran: tuple[Any, ...] = ()

    @functools.cached_property
    def model(self) -> onnx_ir.Model:
        whole.imported("onnx_ir")
        from .saving import ir

        return ir.put_together(self.first)

    @property
    def parts(self) -> wire.Parts:
        """What the model's file is made of now."""
        return save.parts_of(self.model) if "model" in vars(self) else self.first

    def changed(self) -> bool:
        """Whether somebody has changed the model since this was asked last."""
        if "model" not in vars(self):
            return False
        parts = self.parts
        values = tuple(each.const_value for each in self.model.graph.initializers.values())
        now = (parts.graph_bytes, parts.model_bytes, tuple(map(id, values)), values)
        same = now[:3] == self._ran[:3]
        self._ran = now
        return not same


class Program:
    """`model` is an onnx_ir.Model, `report` says what happened, `proof` how it was checked."""

    def __init__(self, made: Made, report: Report) -> None:
        self._made = report.made = made
        self.report = report

    def __repr__(self) -> str:
        r = self.report
        place = r.path or "in memory"
        return f"<hx.Program {place}: {r.nodes} nodes, opset {r.opset}, {len(r.escapes)} escapes>"

    @property
    def model(self) -> onnx_ir.Model:
        """Made when it is first asked for. What is changed in it is saved and run."""
        return self._made.model

    @property
    def parts(self) -> wire.Parts:
        """What the model's file is made of."""
        return self._made.parts

    @property
    def _captured(self) -> Capture:
        return self._made.captured

    @property
    def proof(self) -> Any:
        return self.report.proof

    def write(
        self,
        staged: save.Staged,
        path: str | os.PathLike | None,
        verify: bool,
        tell: Callable[[str], None],
        keep_rejected: str | os.PathLike | None = None,
        every_node: bool = False,
    ) -> None:
        """Writes under another name, proves what was written, and only then takes the place."""
        report = self.report
        tell("save")
        start = time.perf_counter()
        staged.write(self.parts)
        report.timings["save"] = time.perf_counter() - start
        report.size = staged.size
        if verify:
            tell("verify")
            start = time.perf_counter()
            report.proof = prove_program(self._captured, staged.path, staged.target, self._kernels)
            report.timings["verify"] = time.perf_counter() - start
            # With what was heard at other sizes alone.
            report.escapes = list(self._captured.recording.escapes.values())
        if report.proof is not None and report.proof.wrong:
            self._reject(staged, keep_rejected)
        if self._captured.promised:
            self._promise(staged)
        prepared = self._captured.prepared
        # Else another recording has other nodes, or other numbers.
        alone = not (prepared.laid_out or prepared.follows)
        if report.proof is not None and prepared.dynamic and alone and not prepared.hollow:
            from .proof.locate import baked_sizes

            tell("lay beside another size")
            start = time.perf_counter()
            report.baked = baked_sizes(self._captured, self.parts)
            report.timings["sizes"] = time.perf_counter() - start
        if every_node and alone:
            tell("check every node")
            self._check_nodes(staged)
        elif every_node:
            report.notes.append(f"the nodes were not compared one by one: {SEVERAL}")
        if path is not None:
            start = time.perf_counter()
            saved = staged.commit()
            report.timings["save"] += time.perf_counter() - start
            self._written(saved, path)

    def _promise(self, staged: save.Staged) -> None:
        """Says in the report, and in the file, for which sizes it is right."""
        import onnx

        promised = self._captured.promised
        self.report.promised = {word: limit.briefly(word) for word, limit in promised.items()}
        said = onnx.ModelProto()
        said.metadata_props.add(key="hx.sizes", value=", ".join(self.report.promised.values()))
        staged.append(said.SerializeToString())
        self.report.size = staged.size
        self._made.first.model.MergeFrom(said)
        vars(self._made.first).pop("model_bytes", None)

    def _reject(self, staged: save.Staged, keep: str | os.PathLike | None) -> None:
        proof = self.report.proof
        why = self.report.why = self._why(staged, proof)
        hint = "nothing was written; hx export --keep-rejected keeps the file"
        if keep is not None:
            hint = f"{self.report.path or 'the target'} is untouched; what was rejected is in "
            hint += os.fspath(staged.keep(keep))
        wrong = any(output.problem for case in proof.cases for output in case.outputs)
        what = "the graph does not compute what the model computes"
        what = what if wrong else "the graph cannot be verified"
        told = proof.explain().replace("\n", "\n  ")
        error = VerificationError(
            f"{what}\n  {told}", proof=proof, why="\n         ".join(why), hint=hint
        )
        error.report = self.report
        raise error

    def _why(self, staged: save.Staged, proof: Any) -> list[str]:
        """Where it broke, what was baked in, and what left the graph."""
        from .proof.locate import locate, written

        captured = self._captured
        names = [check.name for check in proof.cases if not check.ok]
        wrong = next(iter(names), None)
        case = next((case for case in captured.cases if case.name == wrong), None)
        named = [node for node in self.parts.nodes if proof.node and node.name == proof.node]
        lines = [written(captured, node) for node in named]
        lines += list(captured.recording.mistaken)[:5]
        if case is not None and not captured.prepared.hollow:
            found = locate(captured, self.parts, staged.path, case, staged.target, self._kernels)
            broke, self.report.baked, self.report.node_table = found
            lines += broke
        if rewrote := captured.rewrote:
            told = ", ".join(f"{each.name} ({each.pack})" for each in rewrote)
            options = [passes.left_out(captured.registry, each) for each in rewrote]
            without = " ".join(filter(None, dict.fromkeys(options)))
            lines.insert(0, f"graph passes of packs changed the graph before it was run: {told}"
                         + (f"; to see it without: {without}" if without else ""))  # fmt: skip
        lost = [each for each in captured.recording.escapes.values() if not each.carried]
        known = (captured.beyond[name] for name in names if name in captured.beyond)
        beyond, move = next(known, (None, None))
        within = move.within if move is not None else ""
        lost.sort(key=lambda each: each is not beyond)
        lines = [captured.otherwise, *lines] if captured.otherwise else lines
        broken = [
            sizes_of(captured.prepared, case.feeds)
            for case, check in zip(captured.cases, proof.cases)
            if not check.ok
        ]
        blamed = [each for each in lost if may_matter(captured, each, broken)]
        lines += [each.told() for each in blamed[:5]]
        lines += [f"and {len(blamed) - 5} more values left the graph"] if len(blamed) > 5 else []
        sizes = sizes_of(captured.prepared, case.feeds if case is not None else None)
        smaller = any(
            n < recorded
            for n, recorded in zip(sizes.values(), sizes_of(captured.prepared).values())
        )
        within = within if wrong in captured.beyond or smaller else ""
        # No hint that leaves in what is wrong, too.
        within = within if move is not None and not any(map(move.holds, broken)) else ""
        right = [case for case, check in zip(captured.cases, proof.cases) if check.ok]
        elsewhere = case is not None and "=" in case.name and proof.cases[0].ok
        if elsewhere and (groups := alike(captured, staged.path, self._kernels)):
            said = "; ".join(" and ".join(group) for group in groups)
            lines.append(f"sizes that have to be the same want one name: {said}")
        elif within:
            if move is not None and beyond is not None and len(move.limits) > 1:
                # Limits are of one name each, and the question is of several.
                within += f" (less would do: all that has to stay as recorded is {beyond.detail})"
            lines.append(f"sizes that never come can be ruled out: {within}")
        elif case is not None and case.name.endswith("=1") and " " not in case.name:
            least = Move(sizes, {case.name[:-2]: Limits(2)})
            for move in (ruled_out(captured, case), least):
                if move is not None and not any(map(move.holds, broken)):
                    lines.append(f"a size that never comes can be ruled out: {move.within}")
                    break
        # A number that is lost is not the right one at multiples of anything either.
        elif (
            case is not None
            and all(each.kind in ANSWERS for each in lost)
            and (steps := steps_between(captured, case, right))
            and not any(all(n[w] % step == 0 for w, step in steps.items()) for n in broken)
        ):
            said = ", ".join(f"{word}%{step} in place of {word}" for word, step in steps.items())
            lines.append(
                f"sizes that are no multiples can be ruled out, if they never come: {said}"
            )
        detours = [each for each in lost if each.kind in DETOURS]
        target = foreign.target_at(detours[0].through or detours[0].where) if detours else ""
        if target:
            lines.append(
                "compute that with tensors, or give what does it a converter: "
                f"hx packs new my-pack --target {target}"
            )
        if captured.compiled:
            which = ", ".join(map(str, captured.compiled[:3]))
            lines.append(
                f"compiled code is called directly, and what it computes by itself is not in the "
                f"graph: {which}; {foreign.how(captured.compiled[0])}"
            )
        return lines

    @property
    def _kernels(self) -> list[type]:
        return op_runs(self._captured.registry.kernels)

    @property
    def classes(self) -> dict[str, str]:
        """The name of the class of each module, by its path."""
        return self._captured.classes

    def check_nodes(self) -> NodeTable:
        """Every node of the graph beside what the model had there, on the recorded inputs."""

        def check(_: None) -> None:
            inside(save.staged(self.parts, None), self._check_nodes)

        if self.report.node_table is None:
            inside(containers.using(self._captured.registry.containers), check)
        return self.report.node_table

    def examined(self, look: Callable[[], T]) -> T:
        """What `look` gives, once all that a report tells of the program is known."""
        if self.report.node_table is None:
            # What cannot be run has no errors to show.
            with contextlib.suppress(VerificationError, UsageError):
                self.check_nodes()
        return inside(containers.using(self._captured.registry.containers), lambda _: look())

    def _check_nodes(self, staged: save.Staged) -> None:
        start = time.perf_counter()
        captured = self._captured
        if captured.prepared.hollow:
            raise UsageError(
                "the nodes cannot be compared one by one: what the model had there follows from "
                "weights that were not there",
                hint="export the model with its weights in memory, and without dtype",
            )
        if captured.prepared.laid_out:
            raise UsageError(f"the nodes cannot be compared one by one: {SEVERAL}")
        captured.keep_results()
        case = Case("recorded", dict(captured.prepared.tensors), captured.real)
        try:
            self.report.node_table = check_nodes(
                captured, staged.path, case, target=staged.target, custom_ops=self._kernels
            )
        except Refused as refused:
            raise VerificationError(
                "the graph cannot be run node by node", why=str(refused)
            ) from None
        self.report.timings["check nodes"] = time.perf_counter() - start

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """What the graph gives, computed in onnxruntime, in the structure of the model's result.

        Takes what the model takes, nested as it was at the export, or one dict of the graph's
        inputs by name; torch tensors or numpy arrays. Numpy comes back where only numpy came in.
        A file that was written is what runs; packs' reference kernels where it needs them.
        """
        made = self._made
        if made.runner is None or (self.report.path is None and made.changed()):
            from .proof.running import Runner

            made.runner = Runner(self._captured, self.parts, self.report.path)
        known = containers.using(self._captured.registry.containers)
        return inside(known, lambda _: self._made.runner(args, kwargs))

    def save(self, path: str | os.PathLike, external_data: bool | None = None) -> None:
        """Writes the model to a file, whole or not at all."""
        saved = save.save(self.parts, path, external_data)
        self._written(saved, path)
        self._made.runner = None

    def _written(self, saved: Saved, path: str | os.PathLike) -> None:
        report = self.report
        report.path, report.size = os.fspath(saved.path or path), saved.size
        report.data_path = None if saved.data_path is None else os.fspath(saved.data_path)
