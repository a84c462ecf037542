"""Proof of a written file: at the recorded inputs, at other ones, and at other sizes."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import torch

from .. import dtypes
from ..budget import BUDGET
from ..errors import HxError
from ..findings import OPEN, Finding
from ..ir.recipe import Promise, Sizes
from ..ir.request import Inputs
from ..ir.sizes import dims
from ..ir.sizes.comparisons import At, Unforeseen
from ..ir.value import Value
from ..recording.runs.varying_reads import varying_reads
from ..runtime import as_pairs
from ..samples.sizes import sizes_of
from ..samples.variations import fresh, jitter
from .cases.asking import case_of
from .cases.farther import is_far
from .cases.saturation import saturated
from .comparing import compare_planned
from .differences import often
from .differences.compare import differ
from .differences.float64 import InFloat64
from .differences.parts import Parts
from .differences.special_faults import settle_special
from .file_proof import Case, CaseCheck, Proof, blame, prove
from .first_calls import carried_at
from .promises.far_off import bound
from .promises.promised import keep_to_what_ran, may_be_ruled_out, narrow
from .promises.right_sizes import keep_right_sizes
from .promises.sizes_compared import sizes_compared
from .promises.surely_wrong import is_surely_wrong
from .random.drawn_cases import compare_draws
from .sessions.evaluator import agrees
from .sessions.open_file import OpenFile
from .subject import Subject

COARSE = "compared with the model on the CPU: on a GPU its products may be rounded to TF32"
OTHERWISE = "onnxruntime computes otherwise than the file says: onnx's reference evaluator does not"
ROUNDINGS = 64  # rounding errors of a long graph, in multiples of those of its inputs


def prove_program(
    subject: Subject,
    path: Path,
    target: Path,
    custom_ops: Any = (),
    progress: Callable[[str], None] = lambda stage: None,
) -> Proof:
    """Compare the file with the model on all planned cases, and limit the promise to what holds."""
    recipe, file = subject.recipe, OpenFile(path, custom_ops)
    recorded = dict(recipe.inputs)
    subject.results = _results(subject)
    exact = InFloat64(subject.runner)
    quantized = InFloat64(subject.runner, quantized=True)
    proof = compare_planned(subject, file, quantized, progress)
    _confirm(subject, file, proof)
    cases = subject.cases
    _compare_in_one_thread(subject, file, cases, proof)
    _accept_rounding(subject, file, cases, proof, exact)
    parts = Parts(subject, file, target)
    settle_special(subject, parts, file, proof)
    for case, check in zip(cases, proof.cases):
        if case.beyond and not check.ok and agrees(path, case, custom_ops):
            check.by_runtime = OTHERWISE
    _beside_the_copy(subject, file, cases, proof)
    compare_draws(subject, file, target, cases, proof)
    if not recipe.request.weights.hollow:
        _by_parts(subject, parts, cases, proof)

    if not is_surely_wrong(subject, cases, proof.cases):
        tried = functools.partial(_wrong, subject, file, target, exact, parts)
        bound(subject, cases, proof, tried)
        narrow(subject, proof, tried)
        if recipe.promise is Promise.ANY:
            keep_right_sizes(subject, proof, tried)
    keep_to_what_ran(subject, proof)
    if subject.trace.effects.keeps and not subject.trace.effects.drew_outside:
        kept = _called_again(subject, recorded, proof)
        where = carried_at(subject.recorder, subject.recipe.call)
        subject.notes += [Finding(OPEN, text, where) for text in kept]
    wrong = [(case, check) for case, check in zip(cases, proof.cases) if not check.ok]
    for case, check in wrong[: BUDGET.shown.wrong_cases]:
        blame(file, case, check)
    _tell_saturated(subject, cases, proof, quantized)
    _tell_unsteady(subject, cases, proof)
    proof.sizes = sizes_compared(subject, cases, proof)
    if not proof.ok and proof.cases and proof.cases[0].ok and not recipe.request.weights.hollow:
        subject.code_run = subject.runner.code_run() if recipe.request.sizes else set()
    subject.elsewhere.clear()  # these functions hold the subject, and so the model
    for case in subject.cases:
        case.confirmed = None
    return proof


def _confirm(subject: Subject, file: OpenFile, proof: Proof) -> None:
    """Leave out cases that the file fails and that float64 does not confirm; others take their place."""
    for at, check in reversed([*enumerate(proof.cases)]):
        case = subject.cases[at]
        counted = [case] if check.ok or case.confirmed is None else case.confirmed()
        if not any(each is case for each in counted):
            again = prove(file, counted, checker=False, blames=False)
            subject.cases[at : at + 1], proof.cases[at : at + 1] = counted, again.cases
            proof.seconds += again.seconds


def _results(subject: Subject) -> list[Any]:
    """Return the model's results on the recorded inputs: those of the recording, if it is true."""
    recipe = subject.recipe
    untrue = recipe.flow.until is not None or recipe.padding is not None or recipe.forced.by_line
    if untrue or recipe.request.weights.hollow:
        return subject.runner.known_results(dict(recipe.inputs))
    return subject.results


def _compare_in_one_thread(
    subject: Subject, file: OpenFile, cases: list[Case], proof: Proof
) -> None:
    """Compare the recorded inputs again, with a run in one thread as in all other cases.

    The recording used as many threads as the user. Where nearly equal scores are sorted, another
    order of sums gives another result.
    """
    check = proof.cases[0] if proof.cases else None
    if check is None or check.ok or check.problem:
        return
    cases[0] = dataclasses.replace(
        cases[0], expected=subject.runner.known_results(dict(cases[0].feeds))
    )
    proof.cases[0] = prove(file, cases[:1], checker=False, blames=False).cases[0]


def failing(subject: Subject, proof: Proof | None) -> tuple[dict[str, Inputs], list[Sizes]]:
    """Return inputs to record the model on, as the file is wrong there; and all wrong sizes."""
    checks = [] if proof is None else proof.cases
    wrong = [(case, check) for case, check in zip(subject.cases, checks) if not check.ok]
    # Prefer cases that are not far off and fail by more than rounding.
    plain = [pair for pair in wrong if not is_far(subject, pair[0]) and not pair[1].is_rounding]
    failed = {f"given {case.name}": dict(case.feeds) for case, _ in plain or wrong}
    return failed, [sizes_of(subject.recipe, case.feeds) for case, _ in wrong]


def _accept_rounding(
    subject: Subject,
    file: OpenFile,
    cases: list[Case],
    proof: Proof,
    exact: InFloat64,
) -> None:
    """Prove again the cases that differ by little, with the measured rounding of the model.

    Cases at a far size, up to which the file may be promised, and those with values beyond the
    recorded ones are judged one by one. Of the others, all that are wrong have to differ by little.
    A model whose results change on equal inputs, by a clock or its state, tells nothing about
    rounding.
    """
    steps = functools.partial(_oftener, file.model.graph)

    def nearer(subject: Subject, case: Case) -> bool:
        case.exact = exact(case)
        return bool(case.exact)

    for group in _only_numbers(subject, cases, proof):
        if not all(_is_steady(subject, cases[i]) for i in group[: BUDGET.runs.repeatable]):
            continue
        for ask in (steps, nearer, _between_places, _noisier):
            asked = {i: cases[i] for i in group if not proof.cases[i].ok}
            asked = {i: case for i, case in asked.items() if ask is nearer or not case.special}
            asked = {i: case for i, case in asked.items() if ask(subject, case)}
            if not asked:
                continue
            again = prove(file, list(asked.values()), checker=False, blames=False)
            proof.seconds += again.seconds
            for i, check in zip(asked, again.cases):
                proof.cases[i] = check


def _beside_the_copy(
    subject: Subject,
    file: OpenFile,
    cases: list[Case],
    proof: Proof,
) -> None:
    """Accept a file that gives the results of a copy of the model on the CPU.

    On a GPU, the model itself may be the less exact one.
    """
    for i, (case, check) in enumerate(zip(cases, proof.cases)):
        if check.ok:
            continue
        try:
            expected = subject.runner.results_on_cpu(dict(case.feeds))
        except HxError:
            raise
        except Exception:  # the model's own error
            return
        if expected is None:
            return
        other = dataclasses.replace(case, expected=expected, noise=(), exact=())
        found = prove(file, [other], checker=False, blames=False).cases[0]
        if not found.ok:
            return
        found.note = COARSE
        proof.cases[i] = found


def _wrong(
    subject: Subject,
    file: OpenFile,
    target: Path,
    exact: InFloat64,
    parts: Parts,
    more: list[Case],
) -> list[CaseCheck | None]:
    """Return, for each of further cases, the failed check, or None if it is right or explained."""
    proof = prove(file, more, checker=False, blames=False)
    _accept_rounding(subject, file, more, proof, exact)
    for i, case in enumerate(more):
        alone = dataclasses.replace(proof, cases=[proof.cases[i]])
        compare_draws(subject, file, target, [case], alone)
        proof.cases[i] = alone.cases[0]
    if not subject.recipe.request.weights.hollow:
        _by_parts(subject, parts, more, proof)
    return [None if check.ok else check for check in proof.cases]


def _by_parts(subject: Subject, parts: Parts, cases: list[Case], proof: Proof) -> None:
    """Compare the parts of the graph where the results differ; one wrong case is enough.

    A case that a promise may exclude is not, and the cases that would go with it are skipped; so are
    those on a side of a question where several cases have wrong parts.
    """
    beyond = subject.beyond
    pairs = list(zip(cases, proof.cases))
    wrong: Counter[Hashable] = Counter()
    for case, check in sorted(pairs, key=lambda pair: pair[1].name not in beyond):
        if check.ok or (check.name not in beyond and may_be_ruled_out(subject, proof, case)):
            continue
        side = _side(subject, case) if check.name in beyond else None
        if wrong[side] >= BUDGET.questions.wrong_parts:
            continue
        if not check.problem and not _misshapen(subject, case, check):
            check.by_parts, check.parted = parts.what_decides(
                case,
                functools.partial(_magnifies, subject, case, check),
                functools.partial(_another, subject, case),
            )
        if not check.ok and not may_be_ruled_out(subject, proof, case):
            return
        wrong[side] += not check.ok and side is not None


def _side(subject: Subject, case: Case) -> Hashable:
    """Return the question that a case is beyond, and which of its sizes are larger, or smaller."""
    escape, words = subject.beyond[case.name][0], sizes_of(subject.recipe)
    sizes = sizes_of(subject.recipe, case.feeds).items()
    return escape.where, frozenset((word, n > words[word]) for word, n in sizes if n != words[word])


def _another(subject: Subject, case: Case, seed: int) -> list[Case]:
    """Return a case with other inputs of the same sizes; none if the model refuses them."""
    return case_of(subject, f"{case.name}, others", fresh(dict(case.feeds), seed=100 + seed))[0]


def _misshapen(subject: Subject, case: Case, check: CaseCheck) -> bool:
    """Return True if a result has a wrong dtype or shape, or differs from its declaration.

    A shape is wrong only where it follows from sizes of the inputs. Neither rounding nor ties
    decide it then.
    """
    at = At(sizes_of(subject.recipe, case.feeds))
    for (_, value), output, want in zip(subject.trace.outputs, check.outputs, case.expected):
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
    """Return True if a size of a result is a plain number, or follows from those of the inputs."""
    try:
        return size is not None and at(size.poly if type(size) is dims.Dim else size) == n
    except (Unforeseen, ArithmeticError, ValueError):
        return False


def _magnifies(subject: Subject, case: Case, check: CaseCheck) -> bool:
    """Return True if a move of the inputs by one unit in the last place explains the difference.

    The steps of a graph round many times more often, so `ROUNDINGS` times the movement is accepted.
    """
    moved = _noise(subject, case) if _is_steady(subject, case) else [0.0] * len(case.expected)
    return all(
        o.max_abs <= ROUNDINGS * by for o, by in zip(check.outputs, moved, strict=True) if o.problem
    )


def _tell_unsteady(subject: Subject, cases: list[Case], proof: Proof) -> None:
    """Note where the model's results differ between runs: then the graph may not be wrong.

    The model may draw random numbers, count its calls, or have threads that race. If its results on
    some inputs are as before, it does not run again on all the others, which may take long.
    """
    steady, why = 0, ""
    for case, check in zip(cases, proof.cases):
        if check.ok or check.problem or check.same_draws or check.equal_draws:
            continue
        for _ in range(3):
            answers = zip(subject.runner.results(dict(case.feeds)), case.expected, check.outputs)
            if any(output.problem and differ([a], [b], proof.depth) for a, b, output in answers):
                why = why or _reason(subject)
                check.note = (
                    f"asked again, the model itself gives another answer to these inputs{why}"
                )
                break
        else:
            steady += 1
            if steady == BUDGET.runs.repeatable:
                return


def _tell_saturated(
    subject: Subject, cases: list[Case], proof: Proof, quantized: InFloat64
) -> None:
    """Note kernels of the model that are wrong themselves on the cases that are shown."""
    wrong = [(case, check) for case, check in zip(cases, proof.cases) if not check.ok]
    for case, check in wrong[: BUDGET.shown.wrong_cases]:
        if not check.problem and (why := saturated(subject, quantized, case)):
            check.note = f"the model itself is not exact here: {why}"


def _reason(subject: Subject) -> str:
    """Describe the lines that make the model's results vary from call to call, as far as known."""
    found = varying_reads(subject.recipe.call)
    told = [f"at {where} {what}" for what, where in found[: BUDGET.shown.differences]]
    return f": {'; '.join(told)}" if told else ": by a clock, a draw or state that hx cannot see"


def _called_again(subject: Subject, tensors: dict[str, torch.Tensor], proof: Proof) -> list[str]:
    """Return notes for a model that answers a second call differently, because of kept state."""
    drawn, drew = torch.get_rng_state(), subject.trace.effects.drew

    def differs(run: Callable[[dict[str, torch.Tensor]], list[Any]]) -> bool:
        def call(given: dict[str, torch.Tensor]) -> list[Any]:
            if drew:  # or may have drawn: each call draws the same numbers
                torch.set_rng_state(drawn)
            return run(given)

        first = call(tensors)
        if differ(first, call(tensors), proof.depth):
            return True
        # Attention may ignore keys that are there twice, so other inputs come in between.
        try:
            other = call(fresh(tensors, seed=1))
        except HxError:
            raise
        except Exception:  # the model's own error: it refuses these inputs
            return False
        alone = [case.expected for case in subject.cases if case.name == "fresh"]
        if alone and not drew and differ(alone[0], other, proof.depth):
            return True
        return differ(first, call(tensors), proof.depth)

    try:
        other = subject.runner.in_a_row(differs)
    except HxError:
        raise
    except Exception as e:  # the model's own error of any kind, which is reported
        return [f"called again, the model fails: {type(e).__name__}: {e}"]
    if not other:
        return []
    kept = ", ".join(subject.trace.effects.keeps[:5])
    return [
        f"the model answers its next call otherwise, by what it keeps ({kept}): the graph is its first"
    ]


def _only_numbers(subject: Subject, cases: list[Case], proof: Proof) -> list[list[int]]:
    """Return groups of wrong cases in which only floats differ, by little.

    One group is all of them, or those that no promise may rule out. Cases at far sizes, and with
    values beyond the recorded ones, are groups of their own.
    """
    if proof.problem or proof.checker or len(cases) != len(proof.cases):
        return []
    wrong = [i for i, check in enumerate(proof.cases) if not check.ok]
    far = [i for i in wrong if cases[i].beyond or cases[i].far]
    near = [i for i in wrong if i not in far]
    needed = [i for i in near if not may_be_ruled_out(subject, proof, cases[i])]
    groups = [next((some for some in (near, needed) if _off_by_little(proof, some)), [])]
    groups += [[i] for i in far if _off_by_little(proof, [i])]
    return [group for group in groups if group]


def _off_by_little(proof: Proof, some: list[int]) -> bool:
    """Return True if these cases differ in floats only, by little or in infinite values."""
    checks = [proof.cases[i] for i in some]
    return not any(check.problem for check in checks) and all(
        output.allowed and (output.is_small or math.isinf(output.max_abs))
        for check in checks
        for output in check.outputs
        if output.problem
    )


def _oftener(graph: Any, subject: Subject, case: Case) -> bool:
    case.rounds = often.rounds(subject, graph, case) if often.has_loop(graph) else 1.0
    return case.rounds > 1


def _between_places(subject: Subject, case: Case) -> bool:
    case.steps = often.between_places(subject)
    return case.steps > 0


def _noisier(subject: Subject, case: Case) -> bool:
    case.noise = _noise(subject, case)
    return any(case.noise)


def _is_steady(subject: Subject, case: Case) -> bool:
    """Return True if the model gives the same results again on equal inputs."""
    again = subject.runner.results(dict(case.feeds))
    return not differ(again, case.expected)


def _noise(subject: Subject, case: Case) -> list[float]:
    """Measure how far each output moves when the inputs move by one unit in the last place."""
    names = list(case.feeds)
    moved = [0.0] * len(case.expected)
    for seed in range(3):
        tensors = dict(zip(names, jitter(list(case.feeds.values()), seed)))
        for i, (a, b) in enumerate(zip(case.expected, subject.runner.known_results(tensors))):
            a, b = (as_pairs(t) if isinstance(t, torch.Tensor) else t for t in (a, b))
            if isinstance(a, torch.Tensor) and a.is_floating_point() and a.shape == b.shape:
                gap = (a.double() - b.double()).abs().nan_to_num(0, 0, 0)
                moved[i] = max(moved[i], float(gap.max()) if gap.numel() else 0.0)
    return moved
