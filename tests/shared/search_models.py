"""Small models, each of which leads the search along a known way; see tests/search/test_recipes_tried.py.

Add models at the end: the oracle (tests/suites/oracle.py) exports them as well, and lines are in
its record.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

# Models by name, each with its inputs and further arguments of hx.export.
Call = tuple[Callable, tuple[torch.Tensor, ...], dict[str, Any]]
MODELS: dict[str, Callable[[], Call]] = {}

ROWS = {"x": {0: "b"}}
STEPS = {"x": {0: "b", 1: "n"}}
PLANE = {"x": {2: "h", 3: "w"}}


def _listed(shape: tuple[int, ...], dynamic: Any = None, scale: float = 1.0, **options: Any):
    """List a function or a class of modules, called with one random tensor."""

    def listed(model: Any) -> Any:
        def call() -> Call:
            torch.manual_seed(0)
            made = model().eval() if isinstance(model, type) else model
            x = torch.randn(shape) * scale
            return made, (x,), {"dynamic": dynamic, **options}

        MODELS[model.__name__] = call
        return model

    return listed


def lost(size: int) -> int:
    """A size that is lost: it goes through a text that compiled code writes."""
    return json.loads(json.dumps(size))


# A plain recording is right.


@_listed((3, 4), ROWS)
def arithmetic(x):
    return x * 2 + x.shape[0]


@_listed((2, 6), {"x": {1: "n"}})
def threshold_on_a_size(x):
    return x * 2 if x.shape[1] > 64 else x - 1


@_listed((3, 4), ROWS, verify=False)
def branch_that_is_not_proved(x):
    return x * 2 if x.sum() > 0 else x - 1


@_listed((2, 6, 4), STEPS, verify=False)
def loop_that_is_not_proved(x):
    h = x[:, 0]
    for i in range(x.shape[1]):
        h = torch.tanh(h + x[:, i])
    return h


@_listed((3, 4), ROWS, check_every_node=True)
def branch_with_every_node_checked(x):
    return x * 2 if x.sum() > 0 else x - 1


# Models that ask how they run.


@_listed((2, 4), ROWS)
def output_left_out_for_tracers(x):
    return x.tanh() if torch.jit.is_tracing() else x.sinh()


@_listed((2, 4), ROWS)
def wrong_when_exported(x):
    return x.tanh() if torch.compiler.is_exporting() or torch.jit.is_tracing() else x.sinh()


@_listed((2, 4), ROWS)
def right_only_for_torch_onnx(x):
    if torch.onnx.is_in_onnx_export():
        return x.sinh()
    return torch.from_numpy(x.numpy().copy()).sinh()


@_listed((2, 4), ROWS)
def wrong_whatever_it_hears(x):
    asked = torch.jit.is_tracing(), torch.compiler.is_exporting(), torch.onnx.is_in_onnx_export()
    return torch.from_numpy(x.numpy().copy()) + 0 * sum(asked)


def _largest_index():
    index = torch.tensor([0, 0, 1, 2, 2, 1, 3])
    words = {"source": {0: "n"}, "index": {0: "n"}}
    return rows_by_largest_index, (torch.randn(7, 4), index), {"dynamic": words}


def rows_by_largest_index(source, index):
    count = index.max() + 1 if torch.jit.is_tracing() else int(index.max()) + 1
    sums = source.new_zeros((count,) + source.shape[1:])
    return sums.scatter_add(0, index[:, None].expand_as(source), source)


def _index_for_good():
    return rows_that_no_answer_keeps, (torch.randn(4, 4), torch.tensor([0, 3])), {}


def rows_that_no_answer_keeps(x, index):
    count = index.max() + 1
    torch.jit.is_tracing()
    return x.new_zeros((count,) + x.shape[1:]) + x[0]


MODELS["rows_by_largest_index"] = _largest_index
MODELS["rows_that_no_answer_keeps"] = _index_for_good


# Code that is found only when it runs.


def _half(x):
    return x[:, : int(x.shape[1] * 0.5)]


@_listed((2, 8), {"x": {1: "n"}})
class HelperInATable(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = {"half": [_half]}

    def forward(self, x):
        return self.table["half"][0](x)


@_listed((2, 8, 4), {"x": {1: "n"}})
class LoopInATable(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = {"sum": [_summed]}

    def forward(self, x):
        return self.table["sum"][0](x)


def _summed(x):
    h = x[:, 0] * 0
    for i in range(x.shape[1]):
        h = h * 0.5 + x[:, i] * int(x.shape[1] * 0.5)
    return h


# Sizes that do not fit.


@_listed((2, 8), {"x": {1: "n"}})
def padded_to_fours(x):
    n = x.shape[1]
    if n % 4 != 0:
        x = F.pad(x, (0, 4 - n % 4))
    return x.unflatten(1, (-1, 4)).sum(1)


@_listed((2, 8), {"x": {1: "n"}})
def padded_or_refused(x):
    n = x.shape[1]
    if n % 2 != 0:
        raise ValueError(f"{n} is odd")
    if n % 4 != 0:
        x = F.pad(x, (0, 4 - n % 4))
    return x.unflatten(1, (-1, 4)).sum(1) * x.mean(1, keepdim=True)


@_listed((1, 16, 4), {"x": {1: "n"}})
def padded_windows_or_all(x):
    n = x.shape[1]
    over = n if n <= 4 else 4
    missing = (over - n % over) % over
    if missing:
        x = F.pad(x, (0, 0, 0, missing))
    x = x.unflatten(1, (-1, over))
    x = (x + x.mean(2, keepdim=True)).flatten(1, 2)
    return x[:, :n] if missing > 0 else x


@_listed((2, 8), {"x": {1: "n"}})
def other_work_for_odd_sizes(x):
    return x.exp() if x.shape[1] % 2 == 1 else x * 2


def _same_sizes():
    inputs = torch.randn(2, 8), torch.randn(2, 8)
    return other_work_for_equal_sizes, inputs, {"dynamic": {"x": {1: "n"}, "y": {1: "m"}}}


def other_work_for_equal_sizes(x, y):
    if x.shape[1] == y.shape[1]:
        return x * y + 1
    return x.sum(1, keepdim=True) + y


MODELS["other_work_for_equal_sizes"] = _same_sizes


@_listed((2, 8, 4), STEPS)
def padded_chunks_in_a_loop(x):
    n = x.shape[1]
    if n % 4:
        x = F.pad(x, (0, 0, 0, 4 - n % 4))
    state, outs = x[:, 0] * 0, []
    for chunk in x.split(4, dim=1):
        state = torch.tanh(chunk.mean(1) + state)
        outs.append(chunk + state[:, None])
    return torch.cat(outs, 1)[:, :n]


# Loops that data end.


@_listed((2,), {"x": {0: "n"}}, scale=20.0)
def halved_until_small(x):
    while (x.abs() > 1).any():
        x = x / 2
    return x


@_listed((2, 3), scale=50.0)
def rounds_that_take_turns(x):
    times = 0
    while x.abs().max() > 1:
        x = x / 2 if times % 2 else x / 3
        times += 1
    return x


@_listed((2,), scale=20.0)
def rounds_unlike_each_other(x):
    times = 0
    while x.abs().max() > 1:
        x = x / 2 if times < 7 else x / 3
        times += 1
    return x


@_listed((2,), scale=200.0)
def branch_in_rounds_that_data_end(x):
    while x.abs().max() > 1:
        x = x / 2
        if x.sum() > 0:
            x = x - 0.1
    return x


@_listed((12,), {"x": {0: "n"}})
def taken_until_nothing_is_left(x):
    made = []
    while x.numel() > 0:
        made.append(x.max())
        x = x[x < x.max() - 0.1]
    return torch.stack(made)


@_listed((3,), {"x": {0: "n"}})
def few_taken_until_nothing_is_left(x):
    made = []
    while x.numel() > 0:
        made.append(x.max())
        x = x[x < x.max() - 0.1]
    return torch.stack(made)


@_listed((9,), {"x": {0: "n"}})
def taken_until_the_last(x):
    made = []
    while x.numel() > 0:
        made.append(x.max())
        if x.numel() == 1:
            break
        x = x[x < x.max() - 0.1]
    return torch.stack(made)


@_listed((2,), scale=20.0)
def newton_until_settled(a):
    x = a.abs() + 1
    for _ in range(30):
        new = 0.5 * (x + (a.abs() + 1) / x)
        if (new - x).abs().max().item() < 1e-3:
            break
        x = new
    return x


# Branches on values.


@_listed((3, 4), ROWS)
def either_side_of_a_sum(x):
    return x * 2 if x.sum() > 0 else x - 1


@_listed((3, 4), ROWS)
def four_ways(x):
    x = x * 2 if x.sum() > 0 else x - 1
    return x.exp() if x.max() > 1 else x.sin()


@_listed((3, 4), ROWS)
def other_rank_on_one_side(x):
    return x if x.sum() > 0 else x.sum()


@_listed((3, 4), ROWS)
def large_values_lose_a_size(x):
    return x * lost(x.shape[0]) if x.max() > 9 else x + 1


@_listed((3, 4), ROWS)
def hidden_branch_on_a_list(x):
    return x * 2 if x.tolist()[0][0] > 0 else x - 1


@_listed((3, 4))
def read_on_one_side(x):
    return x * sum(map(float, x[0].tolist())) if x.max() > 1000 else x * 2


@_listed((2, 4), ROWS)
def nine_branches(x):
    for i in range(9):
        x = x * 0.9 if x.sum() > i else x + 0.1
    return x


@_listed((3, 6), STEPS)
def branch_beside_a_size(x):
    y = x * 2 if x.sum() > 0 else x - 1
    return y.exp() / 10 if x.shape[1] > 6 else y


@_listed((3, 4), ROWS, strict=True)
def strict_branch(x):
    return x * 2 if x.sum() > 0 else x - 1


@_listed((3, 4), ROWS, strict=True)
def strict_number(x):
    return x * float(x.detach().numpy().max())


# Loops as long as a size.


@_listed((2, 6, 4), STEPS)
def state_from_step_to_step(x):
    h = x[:, 0] * 0
    for i in range(x.shape[1]):
        h = torch.tanh(h * 0.5 + x[:, i])
    return h


@_listed((2, 6, 4), STEPS)
def state_that_begins_as_a_constant(x):
    h = torch.zeros(4)
    outs = []
    for i in range(x.shape[1]):
        h = torch.tanh(h + x[:, i])
        outs.append(h)
    return torch.stack(outs, 1)


@_listed((2, 6, 4), STEPS)
def counter_in_a_tensor(x):
    count = torch.tensor(0)
    for i in range(x.shape[1]):
        count = count + 1
        x = x + x[:, i : i + 1] * count
    return x


@_listed((2, 6, 4), STEPS)
def every_other_step(x):
    h = x[:, 0] * 0
    for i in range(x.shape[1]):
        h = h + x[:, i] if i % 2 == 0 else h * 0.5 - x[:, i]
    return h


@_listed((2, 6, 4), STEPS)
def other_factor_in_each_step(x):
    h = x[:, 0]
    for i in range(1, x.shape[1]):
        h = h * (1.0 / (i * i + 1)) + x[:, i]
    return h


@_listed((2, 6, 4), STEPS)
def steps_up_to_the_middle(x):
    h = x[:, 0] * 0
    for i in range(x.shape[1]):
        h = h + x[:, i] if i < x.shape[1] // 2 else h - x[:, i]
    return h


@_listed((3, 6, 4), STEPS)
def branch_in_each_step(x):
    h = x[:, 0] * 0
    for t in range(x.shape[1]):
        if x[:, t].sum() > 0:
            h = torch.tanh(h + x[:, t])
    return h


@_listed((2, 4, 2), {"x": {1: "n"}})
def counted_on_one_side(x):
    h, k = x[:, 0], 0
    for t in range(x.shape[1]):
        if x[:, t].sum() > 0:
            k += 1
        h = h * 0.5 + x[:, t] * k
    return h


@_listed((2, 6, 4), STEPS)
def steps_with_a_lost_size(x):
    h = x[:, 0]
    for i in range(x.shape[1]):
        h = h * 0.5 + x[:, i] * lost(x.shape[1])
    return h


@_listed((2, 6, 4), STEPS)
def branch_beside_a_loop(x):
    h = x[:, 0] * 0
    for i in range(x.shape[1]):
        h = torch.tanh(h + x[:, i])
    return h * 2 if h.sum() > 0 else h - 1


# Numbers that follow from sizes out of sight.


@_listed((4, 6), {"x": {0: "n", 1: "m"}})
def size_from_a_text(x):
    return x * lost(x.shape[1])


@_listed((4, 6), {"x": {0: "n"}})
def root_of_a_lost_size(x):
    return x / math.sqrt(lost(x.shape[0]))


@_listed((4, 6), {"x": {1: "m"}})
def lost_size_with_a_limit(x):
    return x[:, : min(lost(x.shape[1]), 40)].sum(1)


@_listed((4, 6), {"x": {0: "n"}})
def number_of_no_formula(x):
    table = {4: 0.1, 5: 0.7, 6: 0.2, 9: 3.0, 15: 0.4}
    return x * table.get(lost(x.shape[0]), 1.0)


@_listed((4, 6), {"x": {0: "n"}})
def other_work_by_a_lost_size(x):
    return x.exp() if lost(x.shape[0]) % 3 else x.sin()


# Right at other sizes than were given.


@_listed((2, 32, 32), {"x": {1: "h", 2: "w"}})
def made_once_for_each_size(x):
    made = {}
    for n in x.shape[1:]:
        if n not in made:
            made[n] = x.new_full((), float(n))
    h, w = x.shape[1:]
    return x * made[h] * made[w]


@_listed((2, 32, 32), {"x": {1: "h", 2: "w"}})
def made_once_and_asks_whether_traced(x):
    return x * 1024 if torch.jit.is_tracing() else made_once_for_each_size(x)


@_listed((8, 12), {"x": {0: "a", 1: "b"}})
def cut_unless_square(x):
    a, b = x.shape
    return x if a == b else x.narrow(0, 0, a - a % 4)


@_listed((4, 6), {"x": {0: "n", 1: "m"}})
def least_of_a_lost_size(x):
    return x[:, : max(lost(x.shape[1]) - 1, 1)]


@_listed((4, 6), {"x": {0: "n"}})
def pieces_that_are_counted(x):
    return x * len(x.split(2, 1)) / len(x.unbind())


@_listed((2, 4))
def missing_but_for_torch_onnx(x):
    return x.sinh() if torch.onnx.is_in_onnx_export() else torch.linalg.eigvals(x[:, :2]).real


# Derivatives.


@_listed((5, 3), {"x": {0: "n"}})
def slopes(x):
    return torch.func.grad(lambda p: p.pow(3).sum())(x)


@_listed((5, 3), {"x": {0: "n"}})
def slope_without_a_converter(x):
    return torch.func.grad(lambda p: torch.linalg.eigvals(p.T @ p).real.sum())(x)


# Refused at once.


@_listed((3, 3))
def no_converter(x):
    return torch.linalg.eigvals(x)


@_listed((3, 3))
def raises(x):
    raise ValueError("not today")


@_listed((5, 4), ROWS)
def halved_or_tripled(x):
    n, steps = x.shape[0], 0
    while n != 1:  # without end, where 0 is halved, or where every number is tripled
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return x * steps
