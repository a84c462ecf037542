"""Loops whose Ifs count numbers or append to lists: both sides are computed, and selected between."""

from __future__ import annotations

import pytest
import torch
from tests.suites.promise import judge, listing

import hx


def counted(x):
    count, total = 0, torch.zeros(4)
    for row in x:
        if row.sum() > 0:
            total = total + row
            count += 1
    return total / max(count, 1)


def appended(x):
    rows = [x[0]]
    for i in range(1, x.shape[0]):
        if x[i, 0] > 0 and not x[i, 1] > 1:
            rows.append(x[i] * i)
    return torch.stack(rows)


def filtered(x):
    rows = [row for row in x if row.sum() > 0]
    return torch.stack(rows).sum(0) if rows else torch.zeros(4)


def skipped(x):
    kept, last = [], -1
    for i in x.argmax(-1):
        i = int(i)
        if i == last or i == 0:
            last = i
            continue
        kept.append(i)
        last = i
    return torch.tensor(kept, dtype=torch.long), x


def best(x):
    most, at = -float("inf"), -1
    for i, row in enumerate(x):
        s = row.sum().item()
        if s > most:
            most, at = s, i
    return x[at] + at


def by_cases(x):
    low = high = 0
    for row in x:
        if row[0] < -1:
            low += 1
        elif row[0] > 1:
            high = high + 2
            low = 0
        else:
            high -= 1
    return x * low + high


def written(x):
    out, many = torch.zeros_like(x), 0
    for i in range(x.shape[0]):
        if x[i].sum() > 0:
            out[i] = x[i] * 2
            many += 1
    return out, x * many


def chosen(x):
    run, out = 0, [0]
    for a, b in zip(x[:-1], x[1:]):
        run = run + 1 if a[0] < b[0] else 0
        out.append(run)
    return torch.tensor(out) + x[:, 0]


def in_a_while(x):
    i, total, many = 0, torch.zeros(4), 0
    while i < x.shape[0]:
        if x[i].sum() > 0:
            total = total + x[i]
            many += 1
        i += 1
    return total / max(many, 1)


def bisected(x):
    """A fixed number of rounds, which keep numbers of Python."""
    low, high = 0.0, 10.0
    for _ in range(12):
        middle = (low + high) / 2
        if (x - middle).clamp(min=0).sum() > 3:
            low = middle
        else:
            high = middle
    return x - low


MODELS = (
    counted,
    appended,
    filtered,
    skipped,
    best,
    by_cases,
    written,
    chosen,
    in_a_while,
    bisected,
)
NOTE = "both sides of the Ifs in its loops are computed, and the results selected between"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_ifs_that_count_and_append(model, proved):
    sizes = [{"n": 2}, {"n": 5}, {"n": 40}]
    program = proved(model, torch.randn(9, 4), dynamic={"x": {0: "n"}}, sizes=sizes)
    assert NOTE in [finding.text for finding in program.report.findings]
    for _ in range(5):
        x = torch.randn(23, 4)
        torch.testing.assert_close(program.run(x), model(x))


def test_values_that_cannot_be_selected_between_are_refused():
    def model(x):
        kept = None
        for row in x:
            if row.sum() > 0:
                kept = (row, row) if kept is None else (kept[0], row)
        return x.sum(0) if kept is None else kept[0] - kept[1]

    with pytest.raises(hx.VerificationError, match="is fixed as recorded"):
        hx.export(model, torch.randn(9, 4), dynamic={"x": {0: "n"}})


def test_a_side_that_raises_where_it_is_not_taken_is_no_error_of_the_model(tmp_path):
    """The best row of each class, of which one has no rows: argmax() refuses these."""
    listing.names()
    listed = listing.named("detection/best_of_each_class")
    with pytest.raises(hx.VerificationError, match="is fixed as recorded"):
        judge.exported(listed, tmp_path / "best.onnx")


def test_tests_are_asked_as_they_stand_in_other_recordings():
    """`or` and `and` evaluate no more than they need."""
    calls = []

    def called(row):
        calls.append(1)
        return row.sum() > 0

    def model(x):
        found = []
        for row in [x * 2, x - 1]:
            if x.dim() == 3 and called(row):
                found.append(row)
        return x + len(found)

    program = hx.export(model, torch.randn(9, 4), dynamic={"x": {0: "n"}})
    assert program.proof.ok and not calls
