"""Loops that a number in an input counts: `for t in range(int(lengths.max()))`.

Other data of the same kind have no larger numbers: a file recorded with 5 rounds, and masked, is
right for all of them. So the model is run with more rounds, where it accepts them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import torch

from ...budget import BUDGET
from ...ir.same_values import alike
from ...ir.sizes import dims
from ...ir.sizes.comparisons import Asked
from ...ir.value import Value
from ...recording.rounds.round_marks import length_of, rounds_of
from ...recording.runs.run_limits import is_long
from ...recording.trace import Trace
from ...samples.sizes import at, limits_of, sizes_of, told
from .asking import case_of
from .farther import farther

if TYPE_CHECKING:
    from ..file_proof import Case
    from ..subject import Subject
    from .case_source import Planned

Inputs = dict[str, torch.Tensor]
MEMBERS = (7, 8, 9, 10, 11)  # of each class: counts that no other number is confused with


def tell_often(trace: Trace) -> None:
    """Note for each unrolled loop how many rounds the file always runs, whatever its inputs are."""
    given = {id(value): name for name, value in trace.inputs}
    for escape in trace.escapes.values():
        for asked in escape.asked if escape.kind == "range" and not escape.carried else ():
            if asked.read():
                names = " and ".join(dict.fromkeys(_inputs_of(asked, given))) or "the tensors"
                often = dims.plain(length_of(asked))
                escape.detail = f"{often} times in the file, whatever is in {names}"


def counting(subject: Subject) -> dict[str, int]:
    """Return the inputs that decide how many rounds loops have, with the recorded counts."""
    given = {id(value): name for name, value in subject.trace.inputs}
    found: dict[str, int] = {}
    for asked in rounds_of(subject.escapes.values()):
        for name in _inputs_of(asked, given):
            if _counts(subject.recipe.inputs[name]):
                rounds = dims.plain(length_of(asked))
                found[name] = min(rounds, found.get(name, rounds))
    return found


def _counts(tensor: torch.Tensor) -> bool:
    """Return True if a tensor holds whole numbers and is no mask."""
    kind = tensor.dtype
    if kind.is_floating_point or kind.is_complex or kind is torch.bool or not tensor.numel():
        return False
    return tensor.numel() == 1 or bool(tensor.long().max() > 1) or _are_two_parts(tensor)


def _are_two_parts(tensor: torch.Tensor) -> bool:
    """Return True if a tensor says which of two clouds each point is in, one behind the other."""
    return tensor.dim() == 1 and len(tensor) > 2 and bool((tensor.long().diff() >= 0).all())


def _inputs_of(asked: Asked, given: Mapping[int, str]) -> Iterator[str]:
    """Yield the inputs that a question follows from.

    Picked values count only where they come from whole numbers.
    """
    waiting = [(value, False) for value in asked.read()]
    return _names_of([*waiting, *((value, True) for value in asked.picked())], given)


def _names_of(waiting: list[tuple[Value, bool]], given: Mapping[int, str]) -> Iterator[str]:
    seen = set[int]()
    while waiting:
        value, whole = waiting.pop()
        if id(value) in seen or (whole and value.dtype.is_floating_point):
            continue
        seen.add(id(value))
        if id(value) in given:
            yield given[id(value)]
        elif value.node is not None:
            waiting += [(each, whole) for each in value.node.inputs if each is not None]


def with_more_rounds(subject: Subject, inputs: Inputs) -> Inputs | None:
    """Return inputs with enough rounds to recognize a loop: the first that the model accepts."""
    few = counting(subject)
    if few and has_members(subject):
        tensors = {key: _with_members(t) if key in few else t for key, t in inputs.items()}
        if case_of(subject, "more members", tensors)[0]:
            return tensors
    if not few or min(few.values()) >= BUDGET.rounds.recorded or not min(few.values()):
        return None
    rounds = min(few.values())
    for enough in (BUDGET.rounds.recorded, BUDGET.rounds.recorded_far):
        times, more = -(-enough // rounds), enough - rounds
        ways: list[Callable] = [lambda t, by=times: t * by, lambda t, by=more: t + by]
        if all(inputs[name].numel() >= enough for name in few):
            ways.insert(0, lambda t, by=enough: _each_of(t, by))
        for way in ways:
            tensors = {
                name: way(_as_high(tensor, subject.recipe.inputs[name])) if name in few else tensor
                for name, tensor in inputs.items()
            }
            if case_of(subject, "more rounds", tensors)[0]:
                return tensors
    return None


def has_members(subject: Subject) -> bool:
    """Return True if the model loops over each class, and there over its members, however many."""
    given = {id(value): name for name, value in subject.trace.inputs}
    made: dict[int, int] = {}
    for escape in subject.escapes.values():
        of_each = set[int]()
        for asked in rounds_of([escape]):
            by = (each for value in asked.picked() if value.node for each in value.node.inputs)
            names = _names_of([(each, True) for each in by if each is not None], given)
            if any(_counts(subject.recipe.inputs[name]) for name in names):
                made = made or alike(subject.trace.nodes)
                of_each.update(made.get(id(value), -1) for value in asked.picked())
        if len(of_each) > 1:
            return True
    return False


def room_for_members(subject: Subject, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return sizes with enough members in each of enough classes, where the limits allow that."""
    wanted, recipe = dict(sizes), subject.recipe
    for name in counting(subject) if has_members(subject) else ():
        axes = recipe.request.sizes.get(name, {})
        tensor = recipe.inputs[name]
        at = [wanted.get(axes.get(axis, ""), n) for axis, n in enumerate(tensor.shape)]
        words = [word for word in axes.values() if word in wanted]
        if math.prod(at) < sum(MEMBERS) and len(words) == 1:
            (word,) = words
            rest = math.prod(at) // wanted[word]
            limit = recipe.request.sizes.limits[word]
            enough = range(-(-sum(MEMBERS) // rest), 2 * sum(MEMBERS))
            wanted[word] = next((n for n in enough if limit.hold(n)), wanted[word])
    return wanted


def _with_members(tensor: torch.Tensor) -> torch.Tensor:
    """Assign the numbers to classes with a fixed count of members, and keep their order."""
    if tensor.numel() < sum(MEMBERS):
        return tensor
    ranks = tensor.reshape(-1).argsort(stable=True).argsort()
    ends = torch.tensor(MEMBERS, device=ranks.device).cumsum(0)
    found = torch.bucketize(ranks, ends, right=True).clamp(max=len(MEMBERS) - 1)
    return found.reshape(tensor.shape).to(tensor.dtype)


def _each_of(tensor: torch.Tensor, many: int) -> torch.Tensor:
    """Replace the numbers by 0 to `many` - 1, each equally often, and keep their order.

    A model that loops over the classes, or the clouds of a batch, may refuse empty ones.
    """
    ranks = tensor.reshape(-1).argsort(stable=True).argsort()
    return (ranks * many // tensor.numel()).reshape(tensor.shape).to(tensor.dtype)


def _as_high(tensor: torch.Tensor, recorded: torch.Tensor) -> torch.Tensor:
    """Return a copy whose largest number is the largest one that was recorded."""
    found = tensor.clone(memory_format=torch.contiguous_format)
    found.view(-1)[found.argmax()] = recorded.max()
    return found


def names_counting(subject: Subject) -> tuple[str, ...]:
    loops = subject.recipe.flow.loops
    return (() if loops is None else loops.counting) or tuple(counting(subject))


def oftener(subject: Subject, planned: Planned) -> list[Case]:
    """Run the model with larger numbers than recorded, as large as it takes, and with one round.

    The numbers change in all inputs that count rounds, and in each alone.
    """
    names, known = names_counting(subject), [case.name for case in planned.cases]
    these = ", ".join(sorted(names))
    rolls = subject.recipe.flow.loops
    larger: list[Callable] = [lambda t: t * 2 + 8, lambda t: t * 2, lambda t: t + 1]
    larger.append(lambda t: _each_of(t, max(t.numel() // 2, 1)))
    ways = {f"larger {these}": [lambda t: t * 16 + 2, *larger] if rolls else larger}
    ways |= {f"1 in {these}": [lambda t: t.clamp(max=1)]} if rolls else {}
    cases: list[Case] = []
    for name, by in ways.items() if names else ():
        cases += [] if name in known else _first(subject, name, names, by)
    if rolls and len(names) > 1:  # loops with always equal numbers of rounds may be confused
        for each in names:
            cases += _first(subject, f"1 in {each}", [each], [lambda t: t.clamp(max=1)])
    return cases


def _first(
    subject: Subject, name: str, names: Iterable[str], ways: Iterable[Callable]
) -> list[Case]:
    inputs = subject.recipe.inputs
    for way in ways:
        tensors = {key: way(t) if key in names else t for key, t in inputs.items()}
        if found := case_of(subject, name, tensors)[0]:
            return found
    return []


def more_counted(subject: Subject, planned: Planned) -> Iterator[Case]:
    """Yield cases with larger numbers at larger sizes, which allow more rounds.

    An example is a window of 64 steps.
    """
    names = names_counting(subject)
    recorded, limits = sizes_of(subject.recipe), limits_of(subject.recipe)
    if not names or not recorded:
        return
    inputs = [case.feeds for case in (*planned.at_other_sizes, *planned.of(farther))]
    for by in (2, 4):
        more = {word: by * n if limits[word].hold(by * n) else n for word, n in recorded.items()}
        inputs.append(at(subject.recipe, more))
    inputs.sort(key=lambda feeds: sum(tensor.numel() for tensor in feeds.values()))
    for feeds in inputs:
        sizes = sizes_of(subject.recipe, feeds)
        larger = {word: n for word, n in sizes.items() if n > recorded[word]}
        times = min((n // recorded[word] for word, n in larger.items()), default=1)
        if times > 1:
            tensors = {
                key: _as_high(t, subject.recipe.inputs[key]) * times if key in names else t
                for key, t in feeds.items()
            }
            name = f"larger {', '.join(sorted(names))} at {told(larger)}"
            found, _ = case_of(subject, name, tensors)
            yield from found
            if any(is_long(subject.trace, case.lines) for case in found):
                return  # the next run may take many times as long
