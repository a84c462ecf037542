"""Proves what was written: at the recorded inputs, at other ones, and at other sizes."""

from __future__ import annotations

import copy
import dataclasses
import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..errors import HxError
from ..recording.capture import Capture, without_weights
from ..recording.standin import nobody
from ..runtime import as_pairs
from ..saving import wire
from ..sizes import dims
from ..sizes.asked import At, Unforeseen
from ..surely import inside
from ..tensors import dtypes
from ..tensors.values import Value
from ..world import shallow
from ..world.modelstate import preserved
from . import often
from .cases.asking import case_of, of_the_copy, once, put_back, run, what_runs
from .cases.farther import is_far
from .cases.othersizes import sizes_of
from .cases.plan import planned
from .cases.variations import fresh, jitter
from .compare import Tolerance, difference
from .draws import ALONE, checked
from .halves import Watch, passed
from .parts import Parts
from .promised import keep_to_what_ran, may_be_ruled_out, narrow
from .proof import inputs_of
from .randomness import drawing, within
from .recorded_there import bound, clear
from .room import Loading, loading
from .verify import Case, CaseCheck, OutputCheck, Proof, prove

COPIED = 1 << 29  # bytes of weights that are copied to ask a model what it gives in float64
COARSE = "compared with the model on the CPU: on a GPU its products may be rounded to TF32"
DRAWS = 30.0  # seconds, after which sizes that are drawn are not compared any more
STEADY = 2  # cases to which a model answered as before, after which it is not asked any more
ROUNDINGS = 64  # how many more errors of rounding a long graph makes than its inputs have


def prove_program(captured: Capture, path: Path, target: Path, custom_ops: Any = ()) -> Proof:
    """Runs the written file against the model; a model that refuses a size is not asked for it."""
    prepared = captured.prepared
    recorded = dict(prepared.tensors)
    captured.keep_results()
    load = loading(path)
    if load.refused:
        return prove(path, [], custom_ops=custom_ops, load=load)
    # Only where it matters: PyTorch's compiler remembers that it was not asked under a mode.
    seen = Watch()
    cases = planned(captured, seen if passed(wire.skeleton(path)) else None)
    for case in cases:
        case.computed = seen.dtype if prepared.slim is None else prepared.slim.dtype or seen.dtype
    captured.cases = cases
    proof = prove(path, cases, custom_ops=custom_ops, load=load)

    def alone(of: Path, case: Case) -> CaseCheck:
        return prove(of, [case], custom_ops=custom_ops, checker=False, load=load).cases[0]

    def on_draws(of: Path, case: Case) -> CaseCheck | None:
        return checked(captured, of, target, case, custom_ops)

    clear(captured, cases, proof, alone)
    if open_ones := _only_numbers(captured, cases, proof):
        # Is it the graph, or a model that magnifies every rounding? Its own answers tell.
        steps = functools.partial(_oftener, wire.skeleton(path).graph)
        for ask in (steps, _noisier, _nearer, _between_places):
            asked = {i: cases[i] for i in open_ones if not proof.cases[i].ok}
            asked = {i: case for i, case in asked.items() if ask(captured, case)}
            again = prove(
                path, list(asked.values()), custom_ops=custom_ops, checker=False, load=load
            )
            proof.seconds += again.seconds
            for i, check in zip(asked, again.cases):
                proof.cases[i] = check
    _beside_the_copy(captured, path, cases, proof, custom_ops, load)
    _with_its_draws(captured, path, target, cases, proof, custom_ops)
    clear(captured, cases, proof, on_draws, drawn=True)
    if not prepared.hollow:
        _by_parts(captured, path, target, cases, proof, custom_ops)

    tried = functools.partial(_wrong, captured, path, target, custom_ops, load)
    bound(captured, cases, proof, tried)
    narrow(captured, proof, tried)
    keep_to_what_ran(captured, proof)
    wrong = [(case, check) for case, check in zip(cases, proof.cases) if not check.ok]
    prepared.wrong_at += [sizes_of(prepared, case.feeds) for case, _ in wrong]
    # It may be recorded there: not far off, nor where rounding is all there is to see, where others
    # are wrong as well.
    plain = [pair for pair in wrong if not is_far(captured, pair[0]) and not _rounded(pair[1])]
    for case, _ in plain or wrong:
        prepared.failed[f"given {case.name}"] = dict(case.feeds)
    if captured.keeps and not captured.drew_outside:
        captured.notes += _called_again(captured, recorded, proof)
    _tell_unsteady(captured, cases, proof)
    if not proof.ok and proof.cases and proof.cases[0].ok and not prepared.hollow:
        captured.otherwise = _otherwise(captured, proof.depth)
        prepared.met |= what_runs(captured) if prepared.dynamic else set()
    return proof


def _beside_the_copy(
    captured: Capture,
    path: Path,
    cases: list[Case],
    proof: Proof,
    custom_ops: Any,
    load: Loading,
) -> None:
    """On a GPU it may be the model that is coarse: a file that gives what a copy of it gives on the
    CPU is right."""
    for i, (case, check) in enumerate(zip(cases, proof.cases)):
        if check.ok:
            continue
        try:
            expected = of_the_copy(captured, dict(case.feeds))
        except Exception:  # the model's own
            return
        if expected is None:
            return
        other = dataclasses.replace(case, expected=expected, noise=(), exact=())
        found = prove(path, [other], custom_ops=custom_ops, checker=False, load=load).cases[0]
        if not found.ok:
            return
        found.note = COARSE
        proof.cases[i] = found


def _wrong(
    captured: Capture, path: Path, target: Path, custom_ops: Any, load: Loading, more: list[Case]
) -> list[CaseCheck | None]:
    """For each of further cases what is wrong there, if more is than rounding explains."""
    proof = prove(path, more, custom_ops=custom_ops, checker=False, load=load)
    for i, case in enumerate(more):
        alone = dataclasses.replace(proof, cases=[proof.cases[i]])
        _with_its_draws(captured, path, target, [case], alone, custom_ops)
        proof.cases[i] = alone.cases[0]
    if not captured.prepared.hollow:
        _by_parts(captured, path, target, more, proof, custom_ops)
    return [None if check.ok or _rounded(check) else check for check in proof.cases]


def _rounded(check: CaseCheck) -> bool:
    return not check.problem and all(o.allowed and _little(o) for o in check.outputs if o.problem)


def _with_its_draws(
    captured: Capture, path: Path, target: Path, cases: list[Case], proof: Proof, custom_ops: Any
) -> None:
    """Compares what random numbers are in, where both can be given the same.

    What is joined, or goes round, is another graph than was recorded: it is not believed unseen.

    One case that is wrong is enough, unless a promise may leave it out. What is off by little is as
    good as not compared: nobody can ask the model how far rounding moves that, which draws anew.
    """

    def may_be_right(of: Case, each: CaseCheck) -> bool:
        far_off = of.name in captured.at_large
        return each.ok or _by_chance(of, each) or far_off or may_be_ruled_out(captured, proof, of)

    began, late = time.perf_counter(), []
    recorded = sizes_of(captured.prepared)
    # What was recorded comes first, and then other sizes: all of them may take too long.
    alike = [
        i > 0 and sizes_of(captured.prepared, c.feeds) == recorded for i, c in enumerate(cases)
    ]
    for i in sorted(range(len(proof.cases)), key=alike.__getitem__):
        case, check = cases[i], proof.cases[i]
        if proof.checker or not all(map(may_be_right, cases, proof.cases)):
            return
        if i and time.perf_counter() - began > DRAWS and _by_chance(case, check):
            late.append(i)
        elif any(output.random for output in check.outputs):
            found = checked(captured, path, target, case, custom_ops)
            if found is not None and not found.problem and not _far(found):
                for output in found.outputs:
                    output.random = output.random or bool(output.problem)
                    output.problem = ""
            if found is not None:
                proof.cases[i] = found
                if found.note == ALONE:
                    proof.node = next(iter(drawing(wire.skeleton(path).graph)), "")
            elif captured.prepared.laid_out and within(wire.skeleton(path)):
                check.problem = "what it draws in a loop or a branch could not be compared"
    if late:
        told = inputs_of([cases[i].name for i in sorted(late)])
        captured.notes.append(f"not compared on {told}: as much as is drawn there takes long")
    for i in sorted(late, reverse=True):
        del cases[i], proof.cases[i]


def _by_chance(case: Case, check: CaseCheck) -> bool:
    """Whether nothing but the sizes of what is drawn is another: how long each sound of a text is."""
    pairs = zip(check.outputs, map(torch.as_tensor, case.expected))
    off = [(output, want) for output, want in pairs if output.problem]
    sizes_alone = all(
        o.random and not o.misdeclared and o.dtype == dtypes.name(want.dtype) and not o.other_rank
        for o, want in off
    )
    return bool(off) and not check.problem and sizes_alone


def _far(check: CaseCheck) -> bool:
    return any(o.problem and not (o.allowed and _little(o)) for o in check.outputs)


def _by_parts(
    captured: Capture, path: Path, target: Path, cases: list[Case], proof: Proof, custom_ops: Any
) -> None:
    """Looks at the parts of the graph where the results differ; one that is wrong is enough.

    One that a promise may rule out is not, and what that rules out with it is not looked at.
    """
    parts, beyond = Parts(captured, path, target, custom_ops), captured.beyond
    pairs = list(zip(cases, proof.cases))
    for case, check in sorted(pairs, key=lambda pair: pair[1].name not in beyond):
        if check.ok or (check.name not in beyond and may_be_ruled_out(captured, proof, case)):
            continue
        if not check.problem and not _misshapen(captured, case, check):
            check.by_parts = parts.what_decides(
                case,
                functools.partial(_magnifies, captured, case, check),
                functools.partial(_another, captured, case),
            )
        if not check.ok and not may_be_ruled_out(captured, proof, case):
            return


def _another(captured: Capture, case: Case, seed: int) -> list[Case]:
    """The model's answer to other inputs of the same sizes; none where it refuses them."""
    return case_of(captured, f"{case.name}, others", fresh(dict(case.feeds), seed=100 + seed))[0]


def _misshapen(captured: Capture, case: Case, check: CaseCheck) -> bool:
    """Whether a result has another dtype, or another shape where sizes of the inputs say which; or
    another one than the file says.

    Neither rounding nor ties decide that, unless the shape follows from what is in the inputs.
    """
    at = At(sizes_of(captured.prepared, case.feeds))
    for (_, value), output, want in zip(captured.outputs, check.outputs, case.expected):
        if not output.problem or not isinstance(want, torch.Tensor) or want.is_complex():
            continue
        sizes = value.shape if isinstance(value, Value) and value.shape is not None else None
        if output.dtype != dtypes.name(want.dtype) or len(output.shape) != want.dim():
            return True
        if output.misdeclared:
            return True
        if any(
            got != n and _follows(sizes[axis] if sizes else None, n, at)
            for axis, (got, n) in enumerate(zip(output.shape, want.shape))
        ):
            return True
    return False


def _follows(size: Any, n: int, at: At) -> bool:
    """Whether a size of a result is a plain number, or one that follows from those of the inputs."""
    try:
        return size is not None and at(size.poly if type(size) is dims.Dim else size) == n
    except (Unforeseen, ArithmeticError, ValueError):
        return False


def _magnifies(captured: Capture, case: Case, check: CaseCheck) -> bool:
    """Whether the model answers that differently when its inputs move by one unit in the last place.

    The steps of a graph round many times more often.
    """
    moved = _noise(captured, case)
    return all(
        o.max_abs <= ROUNDINGS * by for o, by in zip(check.outputs, moved, strict=True) if o.problem
    )


def _tell_unsteady(captured: Capture, cases: list[Case], proof: Proof) -> None:
    """Notes where the model does not agree with itself: then nobody knows that the graph is wrong.

    It may draw random numbers, keep count of its calls, or have threads that race. One that answers
    to some inputs as it did before is not asked for all the others, which may take it long.
    """
    steady = 0
    for case, check in zip(cases, proof.cases):
        if check.ok or check.problem or check.same_draws or check.equal_draws:
            continue
        for _ in range(3):
            answers = zip(run(captured, dict(case.feeds)), case.expected, check.outputs)
            if any(output.problem and _apart(a, b, proof.depth) for a, b, output in answers):
                check.note = "asked again, the model itself gives another answer to these inputs"
                break
        else:
            steady += 1
            if steady == STEADY:
                return


def _otherwise(captured: Capture, depth: int) -> str:
    """What is to be said where the model, on the recorded inputs, gives what the recording did not."""
    recorded = dict(captured.prepared.tensors)
    asked, again = run(captured, recorded), run(captured, recorded)
    if len({len(asked), len(again), len(captured.real)}) > 1:
        return ""  # it leaves something out for a tracer, and is recorded once more
    if not _differ(asked, captured.real, depth) or _differ(asked, again, depth):
        return ""
    fused = (torch.nn.MultiheadAttention, torch.nn.TransformerEncoderLayer)
    attends = any(isinstance(module, fused) for _, module in captured.recording.modules)
    why = (
        ": there it takes PyTorch's fast path of attention, which passes by what is put around its "
        "layers; torch.backends.mha.set_fastpath_enabled(False) turns that off"
    )
    return (
        "on the recorded inputs as well, the model gives something else when it is not recorded"
        f"{why if attends and torch.backends.mha.get_fastpath_enabled() else ''}"
    )


def _differ(some: Sequence[Any], others: Sequence[Any], depth: int) -> bool:
    return any(_apart(a, b, depth) for a, b in zip(some, others, strict=True))


def _called_again(captured: Capture, tensors: dict[str, torch.Tensor], proof: Proof) -> list[str]:
    """What is to be told where a model answers a second call otherwise, by what it has kept."""
    guard = preserved(captured.prepared.root, captured.touched)
    guard.draws.seen = captured.drew

    def differs() -> bool:
        first = call(tensors)
        if _differ(first, call(tensors), proof.depth):
            return True
        # Attention sees no more in what is there twice: it has to come from something else.
        try:
            other = call(fresh(tensors, seed=1))
        except HxError:
            raise
        except Exception:  # the model's own: it refuses these
            return False
        alone = [case.expected for case in captured.cases if case.name == "fresh"]
        if alone and not captured.drew and _differ(alone[0], other, proof.depth):
            return True
        return _differ(first, call(tensors), proof.depth)

    drawn = torch.get_rng_state()

    def call(given: dict[str, torch.Tensor]) -> list[Any]:
        if captured.drew:  # or may have: each call draws the same
            torch.set_rng_state(drawn)
        return once(captured, given)

    try:
        other = inside(
            without_weights(captured.prepared),
            lambda _: inside(guard, lambda _: put_back(captured, differs)),
        )
    except HxError:
        raise
    except Exception as e:  # the model's own, which may raise anything, and is told
        return [f"called again, the model fails: {type(e).__name__}: {e}"]
    if not other:
        return []
    kept = ", ".join(captured.keeps[:5])
    return [
        f"the model answers its next call otherwise, by what it keeps ({kept}): the graph is its first"
    ]


def _apart(a: Any, b: Any, depth: int) -> bool:
    a, b = torch.as_tensor(a), torch.as_tensor(b)
    return bool(difference(a, b, Tolerance.for_dtype(b.dtype, depth)).problem)


def _only_numbers(captured: Capture, cases: list[Case], proof: Proof) -> list[int]:
    """The cases that are wrong, if all that is wrong are floats that are off by little; or those of
    them that no promise may rule out."""
    if proof.problem or proof.checker:
        return []
    wrong = [i for i, check in enumerate(proof.cases) if not check.ok]
    for some in (wrong, [i for i in wrong if not may_be_ruled_out(captured, proof, cases[i])]):
        checks = [proof.cases[i] for i in some]
        off = [o for check in checks for o in check.outputs if o.problem]
        broken = any(check.problem for check in checks)
        if off and not broken and all(o.allowed and _little(o) for o in off):
            return some
    return []


def _little(output: OutputCheck) -> bool:
    """Beside the largest value; or beside 1, where all that comes out may be rounding: x - x."""
    return output.max_rel < 1e-2 or output.max_abs < 1e-4


def _nearer(captured: Capture, case: Case) -> bool:
    case.exact = _exact(captured, case)
    return bool(case.exact)


def _oftener(graph: Any, captured: Capture, case: Case) -> bool:
    case.rounds = often.rounds(captured, graph, case) if often.has_loop(graph) else 1.0
    return case.rounds > 1


def _between_places(captured: Capture, case: Case) -> bool:
    case.steps = often.between_places(captured)
    return case.steps > 0


def _noisier(captured: Capture, case: Case) -> bool:
    case.noise = _noise(captured, case)
    return any(case.noise)


def _noise(captured: Capture, case: Case) -> list[float]:
    """How far each output moves when the inputs move by one unit in the last place."""
    names = list(case.feeds)
    moved = [0.0] * len(case.expected)
    for seed in range(3):
        tensors = dict(zip(names, jitter(list(case.feeds.values()), seed)))
        for i, (a, b) in enumerate(zip(case.expected, run(captured, tensors))):
            a, b = (as_pairs(t) if isinstance(t, torch.Tensor) else t for t in (a, b))
            if isinstance(a, torch.Tensor) and a.is_floating_point() and a.shape == b.shape:
                gap = (a.double() - b.double()).abs().nan_to_num(0, 0, 0)
                moved[i] = max(moved[i], float(gap.max()) if gap.numel() else 0.0)
    return moved


def _exact(captured: Capture, case: Case) -> list[torch.Tensor | None]:
    """What the model gives in float64, where it can be asked: of a float32 one, in a copy."""
    prepared = captured.prepared
    modules = [module for _, module in shallow.walk(prepared.root)]
    weights = [
        tensor
        for module in modules
        for held in (shallow.parameters, shallow.buffers)
        for tensor in held(module).values()
    ]
    kinds = {t.dtype for t in (*weights, *case.feeds.values()) if t.is_floating_point()}
    own = prepared.model is prepared.root
    if kinds - {torch.float32} or captured.drew or prepared.size > COPIED or (weights and not own):
        return []
    try:
        model = copy.deepcopy(prepared.model) if own else prepared.model
        if own and {id(m) for _, m in shallow.walk(model)} & set(map(id, modules)):
            return []  # a copy that is the model, or has a part of it: that stays as it is
        model = model.double() if own else model
        root = model if own else prepared.root
        wider = dataclasses.replace(prepared, model=model, root=root, stand_ins=nobody())
        feeds = {k: t.double() if t.is_floating_point() else t for k, t in case.feeds.items()}
        found = run(dataclasses.replace(captured, prepared=wider), feeds)
    except Exception:
        # The model's own: it may name float32 in its code, or be nothing that can be copied. Nothing
        # is known then, and what is beyond tolerance stays so.
        return []
    return [
        x.cpu() if isinstance(x, torch.Tensor) and x.dtype == torch.float64 else None for x in found
    ]
