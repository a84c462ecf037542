"""Numbers that Python counts in loops: they follow from the number of rounds."""

import ast
import contextlib
import functools
import operator

import pytest
import torch
from torch.testing import assert_close

import hx
from hx.torchworld.spelling.counted_names import kept
from hx.torchworld.spelling.steady_counts import is_steady


def other_at_few(x, n):
    return x * 2 if n in (13, 64, 131) else x + 1


def counted(x):
    k = 0
    for _row in x:
        k += 1
    return other_at_few(x, k)


def counted_in_twos(x):
    k = 3
    for _i in range(x.shape[0]):
        k += 2
    return other_at_few(x, (k - 3) // 2)


def last_number(x):
    last = 0
    for i, _row in enumerate(x):
        last = i
    return other_at_few(x, last + 1)


def counted_by_while(x):
    i = k = 0
    while i < x.shape[0]:
        i += 1
        k += 3
    return other_at_few(x, k // 3)


def in_two_loops(x):
    k = 0
    for _row in x:
        for _i in range(2):
            k += 1
    return other_at_few(x, k // 2)


def in_a_list(x):
    k = [0]
    for _row in x:
        k[0] += 1
    return other_at_few(x, k[0])


def filled_list(x):
    rows = []
    for i in range(x.shape[0]):
        rows.append(i % 3)
    return other_at_few(x, len(rows))


def sum_of_ones(x):
    return other_at_few(x, sum(1 for _ in range(x.shape[0])))


def sum_of_numbers(x):
    return other_at_few(x, sum(i for i in range(x.shape[0])) * 2 // (x.shape[0] - 1))


def comprehension(x):
    return other_at_few(x, len([i % 3 for i in range(x.shape[0])]))


def set_of_numbers(x):
    return other_at_few(x, len({i + 1 for i in range(x.shape[0])}))


def largest_number(x):
    return other_at_few(x, max(i for i, _ in enumerate(x)) + 1)


def rows_of_unbind(x):
    return other_at_few(x, len(x.unbind()))


def pieces_of_split(x):
    return other_at_few(x, len(x.split(2)) * 2)


def tuple_of_rows(x):
    return other_at_few(x, len(tuple(x)))


def pairs(x):
    return other_at_few(x, len([*zip(x, x.flip(0))]))


def rest_of_rows(x):
    first, *rest = x
    return other_at_few(x, len(rest) + 1) + first


def in_a_closure(x):
    k = 0

    def count():
        nonlocal k
        k += 1

    for row in x:
        count()
        x = x + row
    return other_at_few(x, k)


class Counter:
    def __init__(self):
        self.k = 0

    def step(self):
        self.k += 1


def in_an_object(x):
    counter, total = Counter(), torch.zeros(4)
    for row in x:
        counter.step()
        total = total + row
    return other_at_few(x, counter.k) + total


COUNTED = (
    counted, counted_in_twos, last_number, counted_by_while, in_two_loops, in_a_list, filled_list,
    comprehension, rows_of_unbind, pieces_of_split, tuple_of_rows, pairs, rest_of_rows,
)  # fmt: skip


@pytest.mark.parametrize("model", COUNTED)
def test_a_number_of_rounds_is_a_size(model):
    program = hx.export(model, (torch.randn(5, 4),), dynamic={"x": {0: "n"}})
    promised = program.report.promised.get("n")
    for n in (2, 3, 7, 12, 13, 14, 64, 65, 131, 140):
        x = torch.randn(n, 4)
        try:
            found = program.run(x)
        except hx.UsageError:
            assert promised
            continue
        assert torch.allclose(found, model(x), atol=1e-5), n


def test_a_loop_may_have_no_rounds():
    def model(x):
        total, k = torch.zeros(4), 0
        for i in range(x.shape[0]):
            for j in range(i + 1, x.shape[0]):
                total = total + x[j]
                k += 1
        return total + 0 * k

    with contextlib.suppress(hx.HxError):  # the inner rounds are not alike
        hx.export(model, (torch.randn(5, 4),), dynamic={"x": {0: "n"}})


def test_a_sum_of_the_rounds_is_right():
    def model(x):
        total, starts = 0, []
        for i in range(x.shape[0]):
            starts.append(x[i] * total)
            total += i
        return torch.stack(starts) + total

    program = hx.export(model, (torch.randn(5, 4),), dynamic={"x": {0: "n"}})
    for n in (2, 9, 40):
        x = torch.randn(n, 4)
        assert torch.allclose(program.run(x), model(x), rtol=1e-4), n


def test_a_spread_that_counts_its_rows_is_right_for_one():
    def model(x):
        mean, squares, count = torch.zeros(4), torch.zeros(4), 0
        for row in x:
            count += 1
            off = row - mean
            mean = mean + off / count
            squares = squares + off * (row - mean)
        return mean, (squares / max(count - 1, 1)).sqrt()

    program = hx.export(model, torch.randn(8, 4), dynamic={"x": {0: "n"}})
    assert program.report.promised == {}
    for n in (1, 2, 5, 40):
        x = torch.randn(n, 4)
        assert_close(program.run(x), model(x))


def digits(x):
    k = 0
    for _i in range(x.shape[0]):
        k = (k * 7 + 3) % 11
    return other_at_few(x, k + 60)


def hint(x):
    return other_at_few(x, operator.length_hint(x))


def hint_of_numbers(x):
    return other_at_few(x, operator.length_hint(range(x.shape[0])))


def joined_text(x):
    text = ""
    for _i in range(x.shape[0]):
        text += "a"
    return other_at_few(x, len(text))


def every_second(x):
    k = 0
    for i in range(x.shape[0]):
        if i % 2:
            k += 1
    return other_at_few(x, k)


def folded(x):
    return other_at_few(x, functools.reduce(lambda k, _: k + 1, range(x.shape[0]), 0))


def named_in_a_list(x):
    k = 0
    [k := k + 1 for _ in range(x.shape[0])]
    return other_at_few(x, k)


@pytest.mark.parametrize(
    "model",
    [
        digits, hint, hint_of_numbers, joined_text, every_second, folded, named_in_a_list,
        in_a_closure, in_an_object, sum_of_ones, sum_of_numbers, set_of_numbers, largest_number,
    ],
)  # fmt: skip
def test_any_other_number_is_told(model):
    """No size gives it: the file is refused, or the report says that the number left."""
    try:
        program = hx.export(model, (torch.randn(5, 4),), dynamic={"x": {0: "n"}}, effort="low")
    except hx.HxError as error:
        assert __file__ in str(error)
    else:
        found = [f for f in program.report.findings if f.level == "open" and f.place]
        assert found or program.report.promised, program.report.findings


def up_to_twenty(x):
    k = 0
    for _i in range(x.shape[0]):
        k = min(k + 1, 20)
    return x * k


def in_the_first_six(x):
    k = 0
    for i in range(x.shape[0]):
        if i < 6:
            k += 1
    return x * k


def rounds_of_a_generator(x):
    k = 0
    for _i in (i for i in range(x.shape[0]) if i < 6):
        k += 1
    return x * k


def those_of_a_comprehension(x):
    return x * len([i for i in range(x.shape[0]) if i < 6])


@pytest.mark.parametrize(
    "model", [up_to_twenty, in_the_first_six, rounds_of_a_generator, those_of_a_comprehension]
)
def test_a_number_that_stops_to_rise_is_no_number_of_rounds(model):
    program = hx.export(model, (torch.randn(5, 4),), dynamic={"x": {0: "n"}})
    for n in (3, 6, 7, 21, 100):
        x = torch.randn(n, 4)
        assert torch.allclose(program.run(x), model(x)), n


@pytest.mark.parametrize(
    ("body", "steady"),
    [
        ("k += 1", True),
        ("k = k + 2", True),
        ("k[0] += 1", False),
        ("k += len(y)", True),
        ("k += a", False),
        ("k += f(y)", False),
        ("k = min(k + 1, 20)", False),
        ("k += 1\n if a: k += 1", False),
        ("if a: continue\n k += 1", False),
        ("for b in range(2): k += 1", True),
        ("for b in range(a): k += 1", False),
        ("k.append(a)", True),
        ("k.append(k[-1])", True),
        ("k.append(a)\n f(k)", False),
        ("k += [a, a]", True),
        ("k += [*a]", False),
    ],
)
def test_names_that_each_round_changes_alike(body, steady):
    loop = ast.parse(f"for a in x:\n {body}").body[0]
    assert isinstance(loop, ast.For)
    assert is_steady(loop, ast.Name("k", ast.Load())) == steady


def kept_in(text: str) -> list[str]:
    made = ast.parse(text).body[0]
    assert isinstance(made, ast.FunctionDef)
    return sorted({ast.unparse(name) for names in kept(made).values() for name in names})


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("for a in x:\n  k = a\n return k", ["k"]),
        ("for a in x:\n  k = a\n k = 0\n return k", []),
        ("for a in x:\n  k = a\n if y:\n  k = 0\n return k", ["k"]),
        ("for a in x:\n  k = a\n for k in y:\n  f(k)", []),
        ("while x:\n  for a in y:\n   k = a\n  f(k)", ["k"]),
        ("while x:\n  f(k)\n  for a in y:\n   k = a", ["k"]),
        ("for a in x:\n  self.k += 1", ["self.k"]),
        ("for a in x:\n  rows.append(a)\n return rows", ["rows"]),
        ("for a in x:\n  k = a\n return lambda: k", ["k"]),
        ("for a in x:\n  f(a)", []),
        ("for a in x:\n  self.f(a)", ["self"]),
        ("for a in x:\n  torch.f(a)", []),
        ("def g():\n  nonlocal k\n  k += 1\n for a in x:\n  g()", ["k"]),
    ],
)
def test_names_that_are_read_behind_a_loop(body, names):
    assert kept_in(f"def f(x, y, k, self, rows):\n {body}") == names


def test_the_largest_row_of_a_tensor_by_a_key_is_asked_row_by_row():
    def largest(x):
        return max(x, key=lambda row: row.sum())

    x = torch.tensor([[1.0, 2.0], [5.0, 4.0], [3.0, 3.0]])
    program = hx.export(largest, x, None, verify=False)
    assert torch.equal(program.run(x), x[1])
