"""Numbers that Python counts in loops: they follow from the number of rounds."""

import ast

import pytest
import torch

import hx
from hx.torchworld.spelling.counted_names import kept


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


COUNTED = (
    counted, counted_in_twos, last_number, counted_by_while, in_two_loops, in_a_list, filled_list,
    sum_of_ones, sum_of_numbers, comprehension, set_of_numbers, largest_number, rows_of_unbind,
    pieces_of_split, tuple_of_rows, pairs, rest_of_rows,
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


def digits(x):
    k = 0
    for _i in range(x.shape[0]):
        k = (k * 7 + 3) % 11
    return x * k


def test_any_other_number_is_told():
    """No size gives it: the file is refused, or the report says that the number left."""
    try:
        program = hx.export(digits, (torch.randn(5, 4),), dynamic={"x": {0: "n"}})
    except hx.HxError as error:
        assert "rounds have counted" in str(error)
    else:
        assert any("rounds have counted" in str(escape) for escape in program.report.escapes)


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
    ],
)
def test_names_that_are_read_behind_a_loop(body, names):
    assert kept_in(f"def f(x, y, k, self, rows):\n {body}") == names
