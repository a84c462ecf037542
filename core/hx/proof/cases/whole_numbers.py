"""Whole numbers beyond the recorded ones, up to the ends of what they look up.

Five recorded tokens say little about a table of 1,500: a wrong row of it shows with its own token
alone. Which numbers a model takes, no input tells, so it runs once for each end that is likely: the
last rows of the tables in the graph, and sizes of the inputs. The columns of a table may each have
ends of their own. The cases hold numbers between these ends, at the recorded sizes or at those of
larger cases, with all of them where there is room.

Only numbers are changed that the model looks something up by, with functions of PyTorch that check
them. Other kernels may write past their memory, where an index is too large.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from ...budget import BUDGET
from ...ir.node_reads import reads, with_inner
from ...ir.recipe import Sizes
from ...ir.sizes.comparisons import At
from ...ir.value import Constant
from ...samples.masks import ends_of_mask
from ...samples.number_properties import is_rising, is_whole
from ...samples.sizes import at, sizes_of, told
from ...samples.variations import fresh, whole_of
from ..file_proof import Case
from .counted import names_counting
from .extremes import values_lead
from .small_sizes import is_heavy
from .trials import room_for_results, run_within, stays_finite

if TYPE_CHECKING:
    from ..subject import Subject
    from .case_source import Planned

Inputs = Mapping[str, torch.Tensor]

# Functions that raise an error where a number lies beyond the end, and those that only compare it.
_CHECKS = frozenset(
    """embedding gather index_select take take_along_dim one_hot __getitem__ eq ne __eq__ __ne__
    lt le gt ge __lt__ __le__ __gt__ __ge__""".split()
)


def whole_numbers(subject: Subject, planned: Planned) -> Iterator[Case]:
    """Yield cases in which inputs of whole numbers reach the ends that the model takes."""
    recorded, words = dict(subject.recipe.inputs), sizes_of(subject.recipe)
    names = [name for name in recorded if _may_be_others(subject, name)]
    if not names or is_heavy(subject) or values_lead(subject):
        return
    work = subject.trace.graph.work.beside(words).at(At(words))
    search = _Search(subject, recorded, int(BUDGET.work.negligible / max(work, 1)))
    ends = {name: search.ends_of(name) for name in names}
    tried = [Case("", fresh(recorded, seed=10), ())]
    if work <= BUDGET.far.cheap_run:
        tried = [*_larger(subject, planned, ends), *tried]
    for like in tried:
        for case in search.reaching(ends, like.feeds):
            case.far = like.far
            yield case


def _may_be_others(subject: Subject, name: str) -> bool:
    """Return True for whole numbers that look something up: no mask, no counts, and no parts."""
    tensor = subject.recipe.inputs[name]
    if not is_whole(tensor) or name in names_counting(subject) or ends_of_mask(tensor, name):
        return False
    sizes = {n for other in subject.recipe.inputs.values() for n in other.shape}
    return not is_rising(tensor) and not whole_of(tensor, sizes) and _is_checked(subject, name)


def _is_checked(subject: Subject, name: str) -> bool:
    """Return whether only functions that check a number read this input."""
    value = dict(subject.trace.inputs)[name]
    readers = [
        node.origin
        for node in with_inner(subject.trace.nodes)
        if any(each is value for _, each in reads(node))
    ]
    return all(each is not None and each.target.rpartition(".")[2] in _CHECKS for each in readers)


def _larger(subject: Subject, planned: Planned, ends: Mapping[str, list[_Ends]]) -> list[Case]:
    """Return the case with the most whole numbers, and those with the largest size that ends them."""
    words, cases = sizes_of(subject.recipe), [case for case in planned.cases if not case.beyond]
    found = [max(cases, key=lambda case: sum(case.feeds[name].numel() for name in ends))]
    for word in dict.fromkeys(w for some in ends.values() for each in some for w in each.by(words)):
        farthest = max(cases, key=lambda case: sizes_of(subject.recipe, case.feeds)[word])
        if not any(farthest is each for each in found):
            found.append(farthest)
    return found


@dataclasses.dataclass(frozen=True)
class _Ends:
    """The least and the largest whole number, and whether the model refuses larger ones."""

    low: int
    high: int
    refused_beyond: bool

    def by(self, words: Sizes) -> list[str]:
        """Return the sizes that may be the reason for the end: numbers count from 0 or from 1."""
        if not self.refused_beyond:
            return [*words]
        return [word for word, n in words.items() if self.high in (n - 1, n)]

    def at(self, words: Sizes, sizes: Sizes) -> tuple[int, int]:
        """Return the ends at other sizes than the recorded ones."""
        if not self.refused_beyond:
            return self.low, max(self.high, *sizes.values()) if sizes else self.high
        grown = [sizes[word] + self.high - words[word] for word in self.by(words)]
        return self.low, min(grown, default=self.high)


@dataclasses.dataclass
class _Search:
    """Search for the ends of whole numbers that a model takes, one input after the other."""

    subject: Subject
    inputs: dict[str, torch.Tensor]
    runs: int  # that are left

    def __post_init__(self) -> None:
        nodes, words = self.subject.trace.nodes, sizes_of(self.subject.recipe)
        tables = (
            table.tensor.shape[node.attributes.get("axis", 0)]
            for node in nodes
            if node.op == "Gather" and isinstance(table := node.inputs[0], Constant)
        )
        self.likely = {int(n) - by for n in (*tables, *words.values()) for by in (0, 1)}
        self.room = room_for_results(self.subject)

    def ends_of(self, name: str) -> list[_Ends]:
        """Return the ends of an input, or of each of its columns."""
        tensor = self.inputs[name]
        columns = tensor.shape[-1] if tensor.dim() == 2 else 0
        is_table = 1 < columns <= BUDGET.elements.columns
        if not is_table or self._takes(name, None, int(tensor.max())):
            return [self._widened(name, None, tensor)]
        return [self._widened(name, i, each) for i, each in enumerate(tensor.unbind(-1))]

    def _widened(self, name: str, column: int | None, numbers: torch.Tensor) -> _Ends:
        low, high = int(numbers.min()), int(numbers.max())
        last = torch.iinfo(numbers.dtype).max
        above = sorted(n for n in self.likely if high < n <= last)
        taken, refused = 0, len(above) + 1
        while refused - taken > 1:  # what takes a number takes those below it
            middle = (taken + refused) // 2
            if self._takes(name, column, above[middle - 1]):
                taken = middle
            else:
                refused = middle
        least = (n for n in (0, 1) if n < low and self._takes(name, column, n))
        return _Ends(next(least, low), above[taken - 1] if taken else high, taken < len(above))

    def reaching(self, ends: Mapping[str, list[_Ends]], tensors: Inputs) -> list[Case]:
        """Return a case of numbers between these ends, and of the other inputs as they are."""
        recipe, words = self.subject.recipe, sizes_of(self.subject.recipe)
        here = sizes_of(recipe, tensors)
        for sizes in (here, words):
            made = {name: _drawn(tensors[name], each, words, sizes) for name, each in ends.items()}
            if case := self._taken({**tensors, **made}):
                where = f" at {told(here)}" if here != words else ""
                case.name = f"other whole numbers in {', '.join(ends)}{where}"
                self.subject.elsewhere[case.name] = functools.partial(self._at, ends)
                return [case]
        return []

    def _at(self, ends: Mapping[str, list[_Ends]], sizes: Sizes) -> list[Case]:
        return self.reaching(ends, at(self.subject.recipe, sizes))

    def _takes(self, name: str, column: int | None, number: int) -> bool:
        self.runs -= 1
        if self.runs < 0:
            return False
        made = self.inputs[name].clone(memory_format=torch.contiguous_format)
        row = made.reshape(-1, made.shape[-1] if made.dim() else 1)[-1]
        row[slice(None) if column is None else column] = number
        return self._taken({**self.inputs, name: made}) is not None

    def _taken(self, tensors: Inputs) -> Case | None:
        """Return the case of some inputs, if the model takes them, with finite results."""
        for case in run_within(self.subject, self.room, "", tensors):
            if stays_finite(self.subject, case):
                case.beyond = True
                return case
        return None


def _drawn(tensor: torch.Tensor, ends: Sequence[_Ends], words: Sizes, sizes: Sizes) -> torch.Tensor:
    """Return whole numbers between the ends; all of them, over and over, where there is room."""
    rng = torch.Generator().manual_seed(tensor.numel())
    parts = [tensor] if len(ends) == 1 else tensor.unbind(-1)
    made = []
    for part, (low, high) in zip(parts, (each.at(words, sizes) for each in ends)):
        high = min(high, torch.iinfo(part.dtype).max)
        numbers = low + torch.randperm(min(high - low + 1, BUDGET.elements.table), generator=rng)
        if part.numel() < len(numbers):
            numbers[:2] = torch.tensor([low, high])
        numbers = numbers[torch.arange(part.numel()) % len(numbers)]
        made.append(numbers.reshape(part.shape).to(part.dtype).to(part.device))
    return made[0] if len(ends) == 1 else torch.stack(made, -1)
