"""What an export is proved on: the recorded inputs, other ones, and other sizes."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..errors import HxError
from ..inputs.grammar import Limits
from ..recording import layers, outside
from ..recording.capture import Capture, called, without_weights
from ..recording.prepared import Prepared
from ..runtime import as_pairs
from ..saving import wire
from ..sizes import dynamic
from ..surely import inside
from ..tensors import structures
from ..weights.blend import Filled, OnTheCPU
from ..world import modes, shallow
from ..world.modelstate import preserved
from .across import Across, tell
from .compare import Tolerance, difference
from .draws import checked
from .halves import Watch, passed
from .parts import what_decides
from .room import loading
from .variations import end_at, ending, renumbered
from .verify import Case, CaseCheck, OutputCheck, Proof, fresh, jitter, prove, resized

COPIED = 1 << 29  # bytes of weights that are copied to ask a model what it gives in float64
ROUNDINGS = 64  # how many more errors of rounding a long graph makes than its inputs have


def prove_program(captured: Capture, path: Path, target: Path, custom_ops: Any = ()) -> Proof:
    """Runs the written file against the model; a model that refuses a size is not asked for it."""
    prepared = captured.prepared
    recorded = dict(prepared.tensors)
    captured.keep_results()
    load = loading(path)
    if load.refused:
        return prove(path, [], custom_ops=custom_ops, load=load)
    real = run(captured, recorded) if prepared.hollow else captured.real
    cases = [Case("recorded", recorded, real)]
    if prepared.given is not None:
        cases.append(Case("given", prepared.given, run(captured, prepared.given)))
    others = [("fresh", fresh(recorded, seed=1))]
    extra: dict[str, dict[str, torch.Tensor]] = {}  # what a model may well refuse
    if captured.recording.escapes or captured.compiled:
        # A number or a branch left the graph: other inputs may take another way.
        others += [(f"fresh {n}", fresh(recorded, seed=n)) for n in (2, 3, 4)]
        others.append(("opposite", {k: _opposite(t) for k, t in recorded.items()}))
        others.append(("small", {k: _small(t) for k, t in recorded.items()}))
        extra = renumbered(recorded)
    # Only where it matters: PyTorch's compiler remembers that it was not asked under a mode.
    seen = Watch()
    with seen if passed(wire.skeleton(path)) else contextlib.nullcontext():
        for name, tensors in others:
            found, refused = _case(captured, name, tensors)
            cases += found
            captured.notes += refused
        for name, tensors in extra.items():
            cases += _case(captured, name, tensors)[0]
    cases += _resized(captured)
    for case in cases:
        case.computed = seen.dtype if prepared.slim is None else prepared.slim.dtype or seen.dtype
    captured.cases = cases
    proof = prove(path, cases, custom_ops=custom_ops, load=load)
    if _only_numbers(proof):
        # Is it the graph, or a model that magnifies every rounding? Its own answers tell.
        for case, check in zip(cases, proof.cases):
            case.noise = _noise(captured, case)
            case.exact = () if check.ok else _exact(captured, case)
        again = prove(path, cases, custom_ops=custom_ops, checker=False, load=load)
        again.checked, again.checker = proof.checked, proof.checker
        again.seconds += proof.seconds
        proof = again
    _with_its_draws(captured, path, target, cases, proof, custom_ops)
    if not prepared.hollow:
        _by_parts(captured, path, target, cases, proof, custom_ops)
    _narrow(captured, proof)
    if captured.keeps and not captured.drew:
        captured.notes += _called_again(captured, recorded, proof)
    _tell_unsteady(captured, cases, proof)
    return proof


def _narrow(captured: Capture, proof: Proof) -> None:
    """A file that is wrong only beyond what the model asked of its sizes is promised up to there.

    Not where next to nothing would be left: from half to twice the recorded sizes it has to be
    right, or the export has failed.
    """
    failed = [check for check in proof.cases if not check.ok]
    wrong = [check for check in failed if check.name in captured.beyond]
    if proof.checker or proof.problem or not wrong:
        return
    recorded, promised = sizes_of(captured.prepared), dict(captured.prepared.dynamic.limits)
    for check in wrong:
        _, move = captured.beyond[check.name]
        if not move.limits:
            return
        for word, limit in move.limits.items():
            promised[word] = promised.get(word, Limits()).and_also(limit)
    for word in {word for check in wrong for word in captured.beyond[check.name][1].limits}:
        limit, n = promised[word], recorded[word]
        if limit.low > max(n // 2, 1) or (limit.high is not None and limit.high < 2 * n):
            return
    # What else is wrong has to lie outside of these limits as well: size 1 is always tried.
    sizes = {case.name: sizes_of(captured.prepared, case.feeds) for case in captured.cases}
    broken = [
        [promised[w].written(w) for w, n in sizes[check.name].items()
         if w in promised and not promised[w].hold(n)]
        for check in failed
    ]  # fmt: skip
    if not all(broken):
        return
    for check, limits_of_it in zip(failed, broken):
        check.outside = ", ".join(limits_of_it)
    for check in wrong:
        escape, move = captured.beyond[check.name]
        limits = {word: promised[word] for word in move.limits}
        check.outside = ", ".join(limit.written(word) for word, limit in limits.items())
        captured.promised.update(limits)
        escape.beyond = escape.beyond.replace(f"tried at {check.name}", f"wrong at {check.name}")
        captured.notes.append(
            f"the file is right for {check.outside} only: at {check.name} the model goes another "
            f"way, at {escape.where} ({escape.detail})"
        )


def _with_its_draws(
    captured: Capture, path: Path, target: Path, cases: list[Case], proof: Proof, custom_ops: Any
) -> None:
    """Compares what random numbers are in, where the file can be given those of the model.

    One case that is wrong is enough. Where little is off, nobody can ask the model how far rounding
    moves that: it draws anew.
    """
    for i, (case, check) in enumerate(zip(cases, proof.cases)):
        if not proof.ok:
            return
        if any(output.random for output in check.outputs):
            found = checked(captured, path, target, case, custom_ops)
            if found is not None and (found.ok or found.problem or _far(found)):
                proof.cases[i] = found


def _far(check: CaseCheck) -> bool:
    return any(o.problem and not (o.allowed and _little(o)) for o in check.outputs)


def _by_parts(
    captured: Capture, path: Path, target: Path, cases: list[Case], proof: Proof, custom_ops: Any
) -> None:
    """Looks at the parts of the graph where the results differ; one that is wrong is enough."""
    for case, check in zip(cases, proof.cases):
        if not check.ok:
            if not check.problem:
                magnifies = functools.partial(_magnifies, captured, case, check)
                check.by_parts = what_decides(captured, path, case, target, magnifies, custom_ops)
            if not check.ok:
                return


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

    It may draw random numbers, keep count of its calls, or have threads that race.
    """
    for case, check in zip(cases, proof.cases):
        if check.ok or check.problem or check.same_draws:
            continue
        for _ in range(3):
            answers = zip(run(captured, dict(case.feeds)), case.expected, check.outputs)
            if any(output.problem and _apart(a, b, proof.depth) for a, b, output in answers):
                check.note = "asked again, the model itself gives another answer to these inputs"
                break


def _called_again(captured: Capture, tensors: dict[str, torch.Tensor], proof: Proof) -> list[str]:
    """What is to be told where a model answers a second call otherwise, by what it has kept."""
    guard = preserved(captured.prepared.root, captured.touched)
    guard.draws.seen = captured.drew

    def twice(_: Any) -> bool:
        first, second = _filled(captured, tensors), _filled(captured, tensors)
        return any(_apart(a, b, proof.depth) for a, b in zip(first, second, strict=True))

    try:
        other = inside(without_weights(captured.prepared), lambda _: inside(guard, twice))
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


def _opposite(tensor: torch.Tensor) -> torch.Tensor:
    """The same with the other sign; of what has none, as it is."""
    return -tensor if tensor.is_floating_point() or tensor.is_complex() else tensor.clone()


def _small(tensor: torch.Tensor) -> torch.Tensor:
    return tensor / 128 if tensor.is_floating_point() or tensor.is_complex() else tensor.clone()


def _only_numbers(proof: Proof) -> bool:
    """Whether all that is wrong are floats that are off by little."""
    off = [o for case in proof.cases for o in case.outputs if o.problem]
    broken = proof.problem or proof.checker or any(case.problem for case in proof.cases)
    return bool(off) and not broken and all(o.allowed and _little(o) for o in off)


def _little(output: OutputCheck) -> bool:
    """Beside the largest value; or beside 1, where all that comes out may be rounding: x - x."""
    return output.max_rel < 1e-2 or output.max_abs < 1e-4


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
        wider = dataclasses.replace(prepared, model=model, root=model if own else prepared.root)
        feeds = {k: t.double() if t.is_floating_point() else t for k, t in case.feeds.items()}
        found = run(dataclasses.replace(captured, prepared=wider), feeds)
    except Exception:
        # The model's own: it may name float32 in its code, or be nothing that can be copied. Nothing
        # is known then, and what is beyond tolerance stays so.
        return []
    return [x if isinstance(x, torch.Tensor) and x.dtype == torch.float64 else None for x in found]


Sizes = dict[str, int]


def sizes_of(prepared: Prepared, tensors: Mapping[str, torch.Tensor] | None = None) -> Sizes:
    """The size of each dynamic name, in the recording or in other inputs."""
    tensors = prepared.tensors if tensors is None else tensors
    return {
        word: tensors[name].shape[axis]
        for name, axes in prepared.dynamic.items()
        for axis, word in axes.items()
        if not dynamic.is_sum(word)
    }


def ruled_out(captured: Capture, case: Case) -> str:
    """What leaves out a case where a question of the model has another answer than recorded."""
    recording, words = captured.recording, sizes_of(captured.prepared)
    sizes = sizes_of(captured.prepared, case.feeds)
    limits = {word: captured.prepared.dynamic.limits.get(word, Limits()) for word in words}
    escapes = [each for each in recording.escapes.values() if each.asked]
    for side in Across(recording.builder.nodes, words, limits).sides(escapes, []):
        for move in side.moves:
            if not all(limit.hold(sizes[word]) for word, limit in move.limits.items()):
                return move.within
    return ""


def elsewhere(prepared: Prepared, proof: Proof) -> Prepared | None:
    """The same call at other sizes, where a recording was right at its own and wrong at others.

    A model that has run before may have kept what it computed then for these sizes: a grid, a mask.
    At sizes that are new to it, it computes that again, where the graph sees it.
    """
    words, limits = sizes_of(prepared), prepared.dynamic.limits
    if not words or prepared.slim is not None or prepared.given is not None:
        return None
    if not proof.cases or not proof.cases[0].ok or proof.ok:
        return None
    more = larger(larger(words, limits), limits)
    if not all(limits.get(word, Limits()).hold(n) for word, n in more.items()):
        return None
    return dataclasses.replace(prepared, tensors=at(prepared, more), given=prepared.tensors)


def larger(words: Sizes, limits: Mapping[str, Limits]) -> Sizes:
    """All of them larger, and those that were alike no longer so."""
    steps = {word: limits.get(word, Limits()).step for word in words}
    return {w: n + steps[w] * (1 + i % 2) for i, (w, n) in enumerate(words.items())}


def steps_between(captured: Capture, case: Case) -> Sizes:
    """A number for each name whose recorded size is a multiple of it, and that of the case is not.

    A model that halves its sizes and doubles them again often is another one there. Of several, it
    is the one that the model asks about (`h % 4 != 0`), or else the most usual one.
    """
    recorded, found = sizes_of(captured.prepared), {}
    escapes = captured.recording.escapes.values()
    asked = [int(s) for each in escapes for s in re.findall(r"%(\d+)\)", each.detail)]
    for word, size in sizes_of(captured.prepared, case.feeds).items():
        n = recorded[word]
        steps = [s for s in (*asked, 8, 16, 32, 64, 4, 2) if s and n % s == 0 and size % s]
        if steps and n > 2:  # of a batch of two, nobody says that it is even
            found[word] = steps[0]
    return found


def at(prepared: Prepared, sizes: Sizes) -> dict[str, torch.Tensor]:
    """The recorded inputs at other sizes, with other values."""
    ends: dict[int, int] = {}  # recorded sizes, and what they are now: the smallest where they met
    for word, n in sizes_of(prepared).items():
        ends[n] = min(ends.get(n, sizes[word]), sizes[word])
    made = {}
    for key, tensor in prepared.tensors.items():
        axes = prepared.dynamic.get(key, {})
        seed = zlib.crc32(key.encode())  # each its own: what is alike hides what is exchanged
        new = resized(tensor, {a: dynamic.total(w, sizes) for a, w in axes.items()}, seed)
        made[key] = ending(new, tensor, ends)
    return made


def _resized(captured: Capture) -> list[Case]:
    """Two other sizes of every dynamic name: a larger one, and 1 or the smallest that it may have.

    All are larger together. A model that refuses that (a multiple of 32 is wanted, a table of
    positions ends) is asked for other sizes of each name alone; what it refuses is noted.
    """
    words = sizes_of(captured.prepared)
    if not words:
        return []
    given = captured.prepared.dynamic.limits
    limits = {word: given.get(word, Limits()) for word in words}
    for word in _of_ends(captured.prepared, words):
        limits[word] = limits[word].and_also(Limits(2))
    more = {w: n if limits[w].hold(n) else words[w] for w, n in larger(words, limits).items()}
    captured.notes += [
        f"{limit.told(word)}: no other size was tried" for word, limit in given.items()
    ]
    cases, refused = _case(captured, _told(more), at(captured.prepared, more))
    if refused:
        for word, n in words.items():
            sizes = dict.fromkeys((more[word], 2 * n, n // 2, n - limits[word].step))
            others = [s for s in sizes if s > 1 and limits[word].hold(s)]
            cases += _first(captured, words, word, others)
    for word, n in words.items():
        others = [limits[word].least, n // 2, 3 * n] if n != 1 else [more[word] + 1, 4]
        others = [s for s in others if s and s != n and limits[word].hold(s)]
        cases += _first(captured, words, word, others)
    cases += _beyond(captured, words, limits, cases)
    return list({case.name: case for case in cases}.values())


def _of_ends(prepared: Prepared, words: Sizes) -> set[str]:
    """The names of how many ends of parts there are: with the beginning of the first, two or more."""
    return {
        word
        for key, axes in prepared.dynamic.items()
        for axis, word in axes.items()
        if word in words and axis == prepared.tensors[key].dim() - 1
        if end_at(prepared.tensors[key], words.values())
    }


def _beyond(
    captured: Capture, words: Sizes, limits: Mapping[str, Limits], cases: list[Case]
) -> list[Case]:
    """The other side of what the model asked of sizes, where no other size has been there."""
    recording, found = captured.recording, list[Case]()
    escapes = [each for each in recording.escapes.values() if each.asked]
    if not escapes:
        return []
    across = Across(recording.builder.nodes, words, limits)
    seen = [sizes_of(captured.prepared, case.feeds) for case in cases]
    for side in across.sides(escapes, seen):
        if across.shown(side, [sizes_of(captured.prepared, case.feeds) for case in found]):
            continue
        said = []
        for move in side.moves:
            name = across.told(move.sizes)
            why = across.refused(move, len(found))
            if why:
                said.append(f"not tried at {name}: {why}")
                continue
            case, refused = _case(captured, name, at(captured.prepared, move.sizes))
            said += refused
            if case:
                said = [f"tried at {name}"]
                captured.beyond[name] = side.escape, move
                found += case
                break
        tell(side.escape, said[0])
    return found


def _first(captured: Capture, words: Sizes, word: str, sizes: list[int]) -> list[Case]:
    """The first of these sizes of one name that the model takes."""
    notes: list[str] = []
    case: list[Case] = []
    for size in sizes:
        case, refused = _case(
            captured, _told({word: size}), at(captured.prepared, {**words, word: size})
        )
        if case:
            break
        notes += refused
    captured.notes += [] if case else notes[:1]
    return case


def _case(
    captured: Capture, name: str, tensors: dict[str, torch.Tensor]
) -> tuple[list[Case], list[str]]:
    """The model's own answer as a case; or no case, and a note that the model refuses."""
    try:
        return [Case(name, tensors, run(captured, tensors))], []
    except HxError:
        raise
    except Exception as e:  # the model's own, at a size that it does not take
        first = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
        return [], [f"the model itself refuses {name} inputs: {first}"]


def _told(sizes: dict[str, int]) -> str:
    return ", ".join(f"{w}={n}" for w, n in sizes.items())


def run(captured: Capture, tensors: dict[str, torch.Tensor]) -> list[Any]:
    """The model's own flat outputs on other inputs, leaving it as it was."""
    # Nothing sees the writes of this run: what the recording saw being written is copied.
    guard = preserved(captured.prepared.root, captured.touched)
    guard.draws.seen = captured.drew
    return inside(
        without_weights(captured.prepared),
        lambda _: inside(guard, lambda _: _filled(captured, tensors)),
    )


def _filled(captured: Capture, tensors: dict[str, torch.Tensor]) -> list[Any]:
    """With the weights that are elsewhere read as each operator asks for them."""
    slim = captured.prepared.slim
    if slim is None or not slim.absent:
        return _run(captured, tensors)
    with Filled(slim) as filled, OnTheCPU(filled):
        return [
            torch.ops.aten.clone(leaf) if isinstance(leaf, torch.Tensor) else leaf
            for leaf in _run(captured, tensors)
        ]


def _run(captured: Capture, tensors: dict[str, torch.Tensor]) -> list[Any]:
    prepared, root = captured.prepared, captured.prepared.root
    copies = {k: t.detach().clone() for k, t in tensors.items()}
    args, kwargs = prepared.with_tensors(copies)
    asked: dict[str, Any] = {}
    torch._C._set_grad_enabled(False)  # the guard puts back this, and the hooks
    if captured.drew_outside:
        captured.runs += 1
        outside.stir(captured.runs)
    for path in captured.wanted or ():
        root.get_submodule(path).register_forward_hook(
            lambda m, i, o, path=path: asked.__setitem__(
                path,
                structures.replace(o, lambda n, t: t.clone() if isinstance(t, torch.Tensor) else t),
            )
        )
    result = modes.theirs(lambda: called(prepared.model, args, kwargs))
    if captured.wanted:
        layers.require_run(captured.wanted, asked)
        result = {path: asked[path] for path in captured.wanted}
    return [
        leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf
        for _, leaf in structures.leaves(result)
        if isinstance(leaf, (torch.Tensor, bool, int, float))
    ]
