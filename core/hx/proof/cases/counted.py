"""Loops that go round as often as a number in an input says: `for t in range(int(lengths.max()))`.

Other data of the same kind have no larger numbers: what was recorded with 5 rounds, and is masked,
is right for all of them. So the model is asked with more rounds, where it takes them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import torch

from ...inputs.grammar import Limits
from ...recording.rolled import rounds_of
from ...recording.rolled.lengths import FAR, LEAST, length_of
from ...sizes import dims
from ...sizes.asked import Asked
from ...tensors.values import Value
from .asking import case_of
from .farther import ENOUGH
from .numbering import alike
from .othersizes import at, limits_of, sizes_of, told

if TYPE_CHECKING:
    from ...recording.capture import Capture
    from ..verify import Case

Inputs = dict[str, torch.Tensor]
MEMBERS = (7, 8, 9, 10, 11)  # of each class: how many of them goes for no other number


def tell_often(captured: Capture) -> None:
    """Of a loop that is none in the graph, how often the file goes round it, whatever it is given."""
    given = {id(value): name for name, value in captured.inputs}
    for escape in captured.recording.escapes.values():
        for asked in escape.asked if escape.kind == "range" and not escape.carried else ():
            if asked.read():
                names = " and ".join(dict.fromkeys(_inputs_of(asked, given))) or "the tensors"
                often = dims.plain(length_of(asked))
                escape.detail = f"{often} times in the file, whatever is in {names}"


def counting(captured: Capture) -> dict[str, int]:
    """The inputs of whole numbers that say how many rounds there are, and how many these were."""
    given = {id(value): name for name, value in captured.inputs}
    found: dict[str, int] = {}
    for asked in rounds_of(captured.recording.escapes.values()):
        for name in _inputs_of(asked, given):
            if _counts(captured.prepared.tensors[name]):
                rounds = dims.plain(length_of(asked))
                found[name] = min(rounds, found.get(name, rounds))
    return found


def _counts(tensor: torch.Tensor) -> bool:
    """Whether there are whole numbers in it, and it is no mask."""
    kind = tensor.dtype
    if kind.is_floating_point or kind.is_complex or kind is torch.bool or not tensor.numel():
        return False
    return tensor.numel() == 1 or bool(tensor.long().max() > 1) or _are_two_parts(tensor)


def _are_two_parts(tensor: torch.Tensor) -> bool:
    """Which of two clouds each point is of, one cloud behind the other."""
    return tensor.dim() == 1 and len(tensor) > 2 and bool((tensor.long().diff() >= 0).all())


def _inputs_of(asked: Asked, given: Mapping[int, str]) -> Iterator[str]:
    """Which inputs it follows from: how many of them are picked, from whole numbers alone."""
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


def with_more_rounds(captured: Capture, inputs: Inputs) -> Inputs | None:
    """The inputs with numbers that lead to enough rounds to see what goes round: the first that the
    model takes."""
    few = counting(captured)
    if few and has_members(captured):
        tensors = {key: _with_members(t) if key in few else t for key, t in inputs.items()}
        if case_of(captured, "more members", tensors)[0]:
            return tensors
    if not few or min(few.values()) >= LEAST or not min(few.values()):
        return None
    rounds = min(few.values())
    for enough in (LEAST, FAR):
        times, more = -(-enough // rounds), enough - rounds
        ways: list[Callable] = [lambda t, by=times: t * by, lambda t, by=more: t + by]
        if all(inputs[name].numel() >= enough for name in few):
            ways.insert(0, lambda t, by=enough: _each_of(t, by))
        for way in ways:
            tensors = {
                name: way(_as_high(tensor, captured.prepared.tensors[name]))
                if name in few
                else tensor
                for name, tensor in inputs.items()
            }
            if case_of(captured, "more rounds", tensors)[0]:
                return tensors
    return None


def has_members(captured: Capture) -> bool:
    """Whether it goes over each class, and there over what is of it: as many as there happen to be."""
    given = {id(value): name for name, value in captured.inputs}
    made: dict[int, int] = {}
    for escape in captured.recording.escapes.values():
        of_each = set[int]()
        for asked in rounds_of([escape]):
            by = (each for value in asked.picked() if value.node for each in value.node.inputs)
            names = _names_of([(each, True) for each in by if each is not None], given)
            if any(_counts(captured.prepared.tensors[name]) for name in names):
                made = made or alike(captured.recording.builder.nodes)
                of_each.update(made.get(id(value), -1) for value in asked.picked())
        if len(of_each) > 1:
            return True
    return False


def room_for_members(captured: Capture, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes at which there are enough in each of enough classes, where the limits allow that."""
    wanted, prepared = dict(sizes), captured.prepared
    for name in counting(captured) if has_members(captured) else ():
        axes = prepared.dynamic.get(name, {})
        tensor = prepared.tensors[name]
        at = [wanted.get(axes.get(axis, ""), n) for axis, n in enumerate(tensor.shape)]
        words = [word for word in axes.values() if word in wanted]
        if math.prod(at) < sum(MEMBERS) and len(words) == 1:
            (word,) = words
            rest = math.prod(at) // wanted[word]
            limit = prepared.dynamic.limits.get(word, Limits())
            enough = range(-(-sum(MEMBERS) // rest), 2 * sum(MEMBERS))
            wanted[word] = next((n for n in enough if limit.hold(n)), wanted[word])
    return wanted


def _with_members(tensor: torch.Tensor) -> torch.Tensor:
    """So many classes with so many in each, in the order in which the numbers are."""
    if tensor.numel() < sum(MEMBERS):
        return tensor
    ranks = tensor.reshape(-1).argsort(stable=True).argsort()
    ends = torch.tensor(MEMBERS, device=ranks.device).cumsum(0)
    found = torch.bucketize(ranks, ends, right=True).clamp(max=len(MEMBERS) - 1)
    return found.reshape(tensor.shape).to(tensor.dtype)


def _each_of(tensor: torch.Tensor, many: int) -> torch.Tensor:
    """In the order in which they are, the numbers from 0 on, each as often: a model that goes over
    the classes, or the clouds of a batch, may take none that has nothing in it."""
    ranks = tensor.reshape(-1).argsort(stable=True).argsort()
    return (ranks * many // tensor.numel()).reshape(tensor.shape).to(tensor.dtype)


def _as_high(tensor: torch.Tensor, recorded: torch.Tensor) -> torch.Tensor:
    """With the largest number that was recorded among those in it."""
    found = tensor.clone(memory_format=torch.contiguous_format)
    found.view(-1)[found.argmax()] = recorded.max()
    return found


def oftener(captured: Capture, known: Iterable[str]) -> list[Case]:
    """The model with larger numbers than were recorded, as large as it takes, and with one round: of
    all inputs that say how many there are, and of each alone."""
    names = captured.prepared.counting or tuple(counting(captured))
    these = ", ".join(sorted(names))
    rolls = captured.prepared.rolls
    larger: list[Callable] = [lambda t: t * 2 + 8, lambda t: t * 2, lambda t: t + 1]
    larger.append(lambda t: _each_of(t, max(t.numel() // 2, 1)))
    ways = {f"larger {these}": [lambda t: t * 16 + 2, *larger] if rolls else larger}
    ways |= {f"1 in {these}": [lambda t: t.clamp(max=1)]} if rolls else {}
    cases: list[Case] = []
    for name, by in ways.items() if names else ():
        cases += [] if name in known else _first(captured, name, names, by)
    if rolls and len(names) > 1:  # two loops that always go as often may be taken for one another
        for each in names:
            cases += _first(captured, f"1 in {each}", [each], [lambda t: t.clamp(max=1)])
    return cases


def _first(
    captured: Capture, name: str, names: Iterable[str], ways: Iterable[Callable]
) -> list[Case]:
    inputs = captured.prepared.tensors
    for way in ways:
        tensors = {key: way(t) if key in names else t for key, t in inputs.items()}
        if found := case_of(captured, name, tensors)[0]:
            return found
    return []


def with_larger_numbers(captured: Capture, cases: Iterable[Case]) -> Iterator[Case]:
    """The same at larger sizes, where there is room for more rounds: a window of 64 steps, say."""
    names = captured.prepared.counting or tuple(counting(captured))
    recorded, limits = sizes_of(captured.prepared), limits_of(captured.prepared)
    if not names or not recorded:
        return
    inputs = [case.feeds for case in cases]
    for by in (2, 4):
        more = {word: by * n if limits[word].hold(by * n) else n for word, n in recorded.items()}
        inputs.append(at(captured.prepared, more))
    inputs.sort(key=lambda feeds: sum(tensor.numel() for tensor in feeds.values()))
    for feeds in inputs:
        sizes = sizes_of(captured.prepared, feeds)
        larger = {word: n for word, n in sizes.items() if n > recorded[word]}
        times = min((n // recorded[word] for word, n in larger.items()), default=1)
        if times > 1:
            tensors = {
                key: _as_high(t, captured.prepared.tensors[key]) * times if key in names else t
                for key, t in feeds.items()
            }
            name = f"larger {', '.join(sorted(names))} at {told(larger)}"
            began = time.perf_counter()
            yield from case_of(captured, name, tensors)[0]
            if time.perf_counter() - began > ENOUGH:
                return  # the next may take many times as long
