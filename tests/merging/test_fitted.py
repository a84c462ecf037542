"""Numbers that follow from sizes where nobody saw how: recordings at other sizes tell."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from called import Single

import hx
from hx.merging.formulas.formula_fit import find

SIZES = ((1, 2), (2, 1), (3, 3), (4, 9), (7, 4), (12, 30))


def lost(size):
    """A size that went through a text that C code wrote and read."""
    return json.loads(json.dumps(size))


def counted(x):
    total, count = 0, 0
    for row in x:
        total = total + row.exp()
        count += 1
    return total / count


def weighed(x):
    total, weight = x[:1] * 0, 1.0
    for i in range(x.shape[0]):
        total = total + x[i] * i
        weight *= 0.9
    return total / weight


def placed(x):
    places = []
    for i in range(x.shape[0]):
        places.append(i)
    return x.sum() / len(places) * places[-1]


FORMS = {
    "rounds that were counted": counted,
    "a weight of all rounds": weighed,
    "how many places there are": placed,
    "how many pieces there are": lambda x: x * len(x.split(2, 1)) / len(x.unbind()),
    "the last place": lambda x: x * [i for i, _ in enumerate(x)][-1],
    "NumPy's integer": lambda x: x[:, : max(int(np.int64(x.shape[1])) - 1, 1)],
    "NumPy's mean": lambda x: x * float(np.mean(x.shape)),
    "NumPy's largest": lambda x: x[:, : np.max([lost(x.shape[1]) - 2, 1])],
    "a shape as an array": lambda x: x[:, : np.array(x.shape)[1] // 2 + 1],
    "a text": lambda x: x.reshape(lost(x.shape[1]), -1),
    "products and sums": lambda x: x * lost(x.numel()) + lost(sum(x.shape)),
    "what is left over": lambda x: x * (lost(x.shape[1]) % 4),
    "pairs": lambda x: x * math.comb(x.shape[1], 2),
    "zeros": lambda x: torch.cat([x, torch.zeros(lost(x.shape[0]), 2)], 1),
    "truth values": lambda x: torch.tensor([False for _ in range(x.shape[0])])[:, None] | (x > 0),
    "even steps": lambda x: x + torch.tensor([2.5 * i - 1 for i in range(lost(x.shape[1]))]),
    "a root": lambda x: x / float(np.sqrt(np.float64(x.shape[1]))),
    "how many elements": lambda x: x.topk(lost(x.shape[1]) // 2 + 1, 1).values,
    "the last element": lambda x: x[:, lost(x.shape[1]) - 1],
}


@pytest.mark.parametrize("form", FORMS)
def test_what_python_lost_is_found_again(form):
    model = Single(FORMS[form])
    program = hx.export(model, torch.randn(4, 6), None, dynamic={"x": {0: "n", 1: "m"}})
    assert program.proof.ok
    for n, m in SIZES:
        x = torch.randn(n, m)
        torch.testing.assert_close(program.run(x), model(x), rtol=1e-4, atol=1e-5)


def test_what_was_found_is_told_and_is_in_the_graph(proved):
    program = proved(Single(lambda x: x / np.float32(x.shape[0]).item()), (torch.randn(4, 6),),
                     dynamic={"x": {0: "n"}}, sizes=[{"n": 9}])  # fmt: skip
    (note,) = [note for note in program.report.notes if "out of sight" in note]
    assert "test_fitted.py:" in note and "at 6 sizes" in note
    (escape,) = program.report.escapes
    assert escape.carried and not escape.beyond
    assert not program.report.baked


def test_sizes_of_the_outputs_follow_too():
    program = hx.export(
        Single(lambda x: torch.ones(lost(x.shape[0]), 2) + x.sum()), torch.randn(4, 6), None,
        dynamic={"x": {0: "n"}},
    )  # fmt: skip
    assert program.report.outputs[0]["shape"] == ["n", 2]


def test_what_follows_from_nothing_known_is_refused():
    table = {4: 0.1, 5: 0.7, 6: 0.2, 9: 3.0, 15: 0.4}
    with pytest.raises(hx.VerificationError, match=r"test_fitted\.py"):
        hx.export(Single(lambda x: x * table.get(lost(x.shape[0]), 1.0)), torch.randn(4, 6), None,
                  dynamic={"x": {0: "n"}})  # fmt: skip


def test_other_calls_at_other_sizes_are_no_numbers():
    def model(x):
        for _ in range(lost(x.shape[0]) // 2):
            x = x.exp() if x.dim() else x
            x = x.sin()
        return x

    with pytest.raises(hx.VerificationError, match=r"test_fitted\.py"):
        hx.export(Single(model), torch.randn(4, 6), None, dynamic={"x": {0: "n"}})


def test_what_a_text_decided_is_looked_for():
    """A text remembers no size, and asks nothing that anybody hears."""

    def model(x):
        return x.exp() if lost(x.shape[0]) % 3 else x.sin()

    with pytest.raises(hx.VerificationError, match=r"test_fitted\.py"):
        hx.export(Single(model), torch.randn(4, 6), None, dynamic={"x": {0: "n"}})


def test_a_size_in_a_text_is_no_escape():
    seen = {}

    def model(x):
        name = f"mask of {x.shape[0]}"
        if name not in seen:
            seen[name] = not name
        return x.exp()

    program = hx.export(
        Single(model), torch.randn(4, 6), None, dynamic={"x": {0: "n"}}, strict=True
    )
    assert not program.report.escapes


AT = [{"n": n, "m": m} for n, m in ((4, 6), (5, 8), (6, 11), (9, 17), (15, 7), (2, 2))]


@pytest.mark.parametrize(
    "wanted",
    [
        lambda n, m: 7,
        lambda n, m: n,
        lambda n, m: 3 * m - 4,
        lambda n, m: (m + 1) // 2,
        lambda n, m: (n + 3) // 4 + 2,
        lambda n, m: n % 3,
        lambda n, m: -m % 8,
        lambda n, m: min(n, 6),
        lambda n, m: max(m - 3, 0),
        lambda n, m: n * m,
        lambda n, m: 2 * n + 3 * m - 1,
        lambda n, m: n * (n - 1) // 2,
        lambda n, m: n * 0.25,
        lambda n, m: 1 / m,
        lambda n, m: 0.5 / n + 1,
        lambda n, m: 2 / (m - 1),
        lambda n, m: m**-0.5,
        lambda n, m: 0.9**n,
        lambda n, m: 0.5 * n - 0.25 * m,
    ],
)
def test_formulas(wanted):
    numbers = [wanted(**sizes) for sizes in AT]
    formula = find(AT, numbers)
    for n, m in ((3, 4), (8, 9), (21, 40)):
        assert formula({"n": n, "m": m}) == pytest.approx(wanted(n, m), rel=1e-9)


def test_numbers_without_a_formula():
    assert find(AT, [3, 1, 4, 1, 5, 9]) is None
    assert find(AT, [1.0, math.inf, 1.0, 1.0, 1.0, 1.0]) is None


PERIODS = {
    "a remainder of 100": lambda n: n % 100,
    "a remainder of 300": lambda n: n % 300,
    "a remainder of 128": lambda n: n % 128,
    "a remainder of 48": lambda n: n % 48,
    "a quotient": lambda n: (n + 3) // 7,
    "a limit": lambda n: min(n, 70),
    "a stair of limited height": lambda n: min(n, 70) // 10,
}


@pytest.mark.parametrize("form", PERIODS)
def test_a_formula_is_tried_where_it_turns(form):
    """A remainder of 64 and one of 100 are alike up to 63."""
    wanted = PERIODS[form]

    def model(x):
        return x + wanted(lost(x.shape[0]))

    try:
        program = hx.export(model, torch.randn(5, 4), None, dynamic={"x": {0: "n"}})
    except hx.VerificationError:
        return
    for n in (*range(1, 330), 1000, 1999):
        x = torch.ones(n, 4)
        try:
            found = program.run(x)
        except hx.UsageError as error:
            assert "is right for" in str(error)
            continue
        torch.testing.assert_close(found, x + wanted(n))


def test_sizes_on_both_sides_of_a_turn():
    turns = find(AT, [n % 3 for n in (4, 5, 6, 9, 15, 2)]).turns(1, 20)
    assert turns == {2, 3, 4, 17, 18, 19}
    limited = find(AT, [min(n, 6) for n in (4, 5, 6, 9, 15, 2)])
    assert limited.turns(1, 2000) == {5, 6, 7}
    assert find(AT, [n + 1 for n in (4, 5, 6, 9, 15, 2)]).turns(1, 2000) == set()
