"""Helpers of loops whose Ifs compute both sides, and select between the results.

    for row in x:                                for row in x:
        if row.sum() > 0:                            t = row.sum() > 0
            total = total + row                      total = selected(t, total + row, total)
            count += 1                               count = selected(t, count + 1, count)
            rows.append(row)                         rows.append(Entry(row, t))
                                                 rows = collected(rows)

Rounds that are written so are alike, whatever the answers are. Numbers become numbers of the graph,
and lists hold what was appended in each round until their end. In any other recording, the tests are
asked as they stand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import Unsupported
from ...ir.sizes import dims
from ...ir.sizes.departures import listening

MISSING = object()  # the value of a name that has none yet
_NUMBERS = (int, float, bool)  # sizes, and numbers that are read from tensors, among them


@dataclass(eq=False)
class Entry:
    """A value that a round may append to a list, and the answer that decides whether it does."""

    value: Any
    taken: Any


def selecting() -> bool:
    """Return True if this recording computes both sides of Ifs in loops."""
    listener = listening()
    return listener is not None and listener.selects


def note_ifs(lines: tuple[int, ...], appends: bool, *assigned: Any) -> None:
    """Note the Ifs of a loop: as Ifs of a graph, they could not append, nor count numbers."""
    listener = listening()
    if listener is None:
        return
    counts = appends or any(type(each) in (int, float) for each in assigned)
    file = sys._getframe(1).f_code.co_filename
    for line in lines:
        listener.selectable[file, line] = listener.selectable.get((file, line), False) or counts


def is_answer(test: Any) -> bool:
    """Return True for a test that a tensor answers, if both sides are computed."""
    return isinstance(test, torch.Tensor) and test.numel() == 1 and selecting()


def all_of(*tests: Callable[[], Any]) -> Any:
    """a and b"""
    return _joined(tests, torch.logical_and, False)


def any_of(*tests: Callable[[], Any]) -> Any:
    """a or b"""
    return _joined(tests, torch.logical_or, True)


def _joined(tests: tuple[Callable[[], Any], ...], join: Callable, ends: bool) -> Any:
    found: Any = None
    for test in tests:
        answer = test()
        if not is_answer(answer):
            if bool(answer) is ends:
                return ends
            continue
        found = _truth(answer) if found is None else join(found, _truth(answer))
    return (not ends) if found is None else found


def negated(test: Any) -> Any:
    """not a"""
    return torch.logical_not(_truth(test)) if is_answer(test) else not test


def compared(function: Callable, x: Any, y: Any) -> Any:
    """x < y, of which at least one is a tensor of one element, or a number read from one"""
    if not (_is_number(x) and _is_number(y)) or not (_is_followed(x) or _is_followed(y)):
        return function(x, y)
    return function(_tensor(x), _tensor(y))


def _is_number(x: Any) -> bool:
    return isinstance(x, _NUMBERS) or (isinstance(x, torch.Tensor) and x.numel() == 1)


def _is_followed(x: Any) -> bool:
    """Return True for a number that follows from a tensor's contents."""
    if isinstance(x, torch.Tensor):
        return True
    return dims.is_dynamic(x) and bool(dims.asked(type(dims.plain(x)), x).of_values())


def _truth(test: torch.Tensor) -> torch.Tensor:
    return test.reshape(()).bool()


def _tensor(x: Any) -> torch.Tensor:
    """Return a number as a tensor of the dtype in which Python computes."""
    if isinstance(x, torch.Tensor):
        x = x.reshape(())
        return x.double() if x.dtype.is_floating_point else x
    kind = torch.bool if type(x) is bool else torch.int64 if isinstance(x, int) else torch.float64
    return torch.tensor(x, dtype=kind)


def held(x: Any) -> Any:
    """Return a plain number as one of the graph: the first round is like the others then."""
    if type(x) not in (int, float) or not selecting():
        return x
    return torch.clone(_tensor(x)).item()


def read(name: Callable[[], Any]) -> Any:
    """Return the value of a name, or that it has none."""
    try:
        return name()
    except NameError:
        return MISSING


def selected(test: torch.Tensor, yes: Any, no: Any) -> Any:
    """Return `yes` where a test is true, and `no` elsewhere."""
    if yes is no or no is MISSING:
        return yes
    if yes is MISSING:
        return no
    if isinstance(yes, tuple) and isinstance(no, tuple) and len(yes) == len(no):
        return tuple(selected(test, a, b) for a, b in zip(yes, no))
    if isinstance(yes, torch.Tensor) and isinstance(no, torch.Tensor):
        if yes.shape == no.shape and yes.dtype == no.dtype:
            return torch.where(_truth(test), yes, no)
    elif isinstance(yes, torch.Tensor) and isinstance(no, _NUMBERS):
        return torch.where(_truth(test), yes, torch.tensor(no, dtype=yes.dtype))
    elif isinstance(no, torch.Tensor) and isinstance(yes, _NUMBERS):
        return torch.where(_truth(test), torch.tensor(yes, dtype=no.dtype), no)
    elif isinstance(yes, _NUMBERS) and isinstance(no, _NUMBERS):
        a, b = _tensor(yes), _tensor(no)
        kind = torch.promote_types(a.dtype, b.dtype)
        found = torch.where(_truth(test), a.to(kind), b.to(kind))
        return found if kind is torch.bool else found.item()
    raise Unsupported("the sides of an If in a loop leave values that cannot be selected between")


def entry(test: Any, value: Callable[[], Any]) -> Any:
    """Return what a comprehension appends in one round, if it may."""
    return Entry(value(), test) if is_answer(test) or test else MISSING


def appended(items: Any, value: Any, *tests: Any) -> None:
    """items.append(value), where the tests of Ifs are true"""
    if type(items) is not list:
        raise Unsupported("an If in a loop appends to something other than a list")
    items.append(Entry(value, all_of(*(lambda t=t: t for t in tests))))


def collected(items: Any) -> Any:
    """Replace the entries of a list by the values that were taken."""
    if type(items) is not list or not any(isinstance(each, Entry) for each in items):
        return items
    kept = [each for each in items if each is not MISSING]
    entries = [each if isinstance(each, Entry) else Entry(each, True) for each in kept]
    if not any(is_answer(each.taken) for each in entries):
        return [each.value for each in entries if each.taken]
    values = [each.value for each in entries]
    taken = torch.stack([_truth(_tensor(each.taken)) for each in entries])
    of_numbers = all(isinstance(each, _NUMBERS) for each in values)
    tensors = [_tensor(each) if of_numbers else each for each in values]
    if not all(isinstance(each, torch.Tensor) for each in tensors):
        raise Unsupported("an If in a loop appends values that are neither tensors nor numbers")
    found = torch.stack(tensors)[taken]
    return list(iter(found))


def collect(items: Any) -> Any:
    """Collect what the rounds of a loop appended, in the list itself."""
    found = collected(items)
    if found is not items:
        items[:] = found
    return items


HELPERS: dict[str, Callable] = {
    "selecting": selecting,
    "note_ifs": note_ifs,
    "is_answer": is_answer,
    "all_of": all_of,
    "any_of": any_of,
    "negated": negated,
    "compared": compared,
    "held": held,
    "read": read,
    "selected": selected,
    "entry": entry,
    "appended": appended,
    "taken_items": collected,
    "collect": collect,
}
