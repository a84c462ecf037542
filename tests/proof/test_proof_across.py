"""The proof goes to the other side of what a model asks of its sizes, however far that is."""

from __future__ import annotations

import inspect
import json
from zlib import crc32

import onnx
import pytest
import torch
from across import BY_LENGTH, beyond, exported, refused
from torch import nn
from torch.testing import assert_close

import hx
from hx.budget import BUDGET


def tried(program):
    return [case.name for case in program.proof.cases]


def wrong(program, first=1):
    """The cases that are wrong, in the order in which they were tried."""
    found = [case.name for case in program.proof.cases if not case.equal]
    return found[:first] if first else found


class Scaled(nn.Module):
    """Rotary angles that are other ones for what is longer than the model was trained on."""

    def forward(self, x):
        n, base = x.shape[1], 10000.0
        if n > 64:  # here
            base = base * (2.0 * n / 64 - 1) ** 1.5
        steps = base ** (torch.arange(0, 6, 2).float() / 6)
        return x * torch.outer(torch.arange(n).float(), 1.0 / steps).cos().repeat(1, 2)


def test_a_branch_that_lies_far_off_is_found_and_the_file_is_promised_up_to_it(tmp_path):
    path = tmp_path / "m.onnx"
    program = hx.export(Scaled(), torch.randn(2, 16, 6), path, dynamic=BY_LENGTH, effort="low")
    lines, first = inspect.getsourcelines(Scaled)
    line = first + next(i for i, text in enumerate(lines) if "# here" in text)
    assert program.report.promised == {"s": "s<=64"} == program.report.to_dict()["promised"]
    assert beyond(program) == "wrong at s=65"
    assert (
        f"right for s<=64 only: at s=65 the model goes another way, at {__file__}:{line}"
        in (program.report.notes[-1])
    )
    assert program.proof.ok and program.proof.summary().startswith("verified for s<=64 only")
    assert wrong(program) == ["s=65"]
    written = onnx.load(path)  # the file says it, too
    assert {p.key: p.value for p in written.metadata_props}["hx.sizes"] == "s<=64"
    assert program.model.metadata_props["hx.sizes"] == "s<=64"
    x = torch.randn(2, 65, 6)
    assert_close(program.run(x[:, :64]), Scaled()(x[:, :64]))
    with pytest.raises(hx.UsageError, match="s is 65, and the file is right for s<=64 only"):
        program.run(x)


class Less(Scaled):
    """With one axis less there, so that no graph has both ways."""

    def forward(self, x):
        if x.shape[1] > 64:
            return x.sum(2)
        return super().forward(x)


def test_both_ways_are_in_a_file_that_is_not_right_for_twice_the_recorded_size(tmp_path):
    program = hx.export(Scaled(), torch.randn(2, 40, 6), tmp_path / "m.onnx", dynamic=BY_LENGTH)
    assert not program.report.promised
    for length in (1, 64, 65, 100):
        assert_close(program.run(x := torch.randn(3, length, 6)), Scaled()(x))


def test_what_is_not_right_for_twice_the_recorded_size_is_refused(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_text("what was there before")
    with pytest.raises(hx.VerificationError) as caught:
        hx.export(Less(), torch.randn(2, 40, 6), path, dynamic=BY_LENGTH)
    message = str(caught.value)
    assert path.read_text() == "what was there before" and caught.value.exit_code == 4
    assert "s=65 inputs: wrong" in message and "s=42" in message
    assert "test_proof_across.py" in message and "depends on a size, s > 64" in message
    assert "ruled out: s<=64 in place of s" in message and "%" not in message.rpartition("why:")[2]


def test_both_ways_are_in_a_file_where_sizes_far_off_lead_along_another(tmp_path):
    path = tmp_path / "m.onnx"
    program = hx.export(Scaled(), torch.randn(2, 16, 6), path, dynamic=BY_LENGTH)
    assert not program.report.promised and "hx.sizes" not in program.model.metadata_props
    for length in (1, 64, 65, 300):
        assert_close(program.run(x := torch.randn(3, length, 6)), Scaled()(x))
    names = [each.name for each in program.report.strategies]
    assert len(names) == 2 and names[1].endswith("for all sizes")


def test_what_has_no_one_graph_keeps_the_promise_and_the_file(tmp_path):
    path, rejected = tmp_path / "m.onnx", tmp_path / "rejected.onnx"
    program = hx.export(
        Less(), torch.randn(2, 16, 6), path, dynamic=BY_LENGTH, keep_rejected=rejected
    )
    assert program.report.promised == {"s": "s<=64"}
    assert [each.name for each in tmp_path.iterdir()] == ["m.onnx"]
    assert {p.key: p.value for p in onnx.load(path).metadata_props}["hx.sizes"] == "s<=64"
    assert_close(program.run(x := torch.randn(2, 64, 6)), Less()(x))


def test_limits_leave_out_what_is_never_asked():
    for limit in ("s<=64", "s>=2<=64"):
        program = exported(Scaled(), torch.randn(2, 16, 6), {"x": {1: limit}})
        assert "s=65" not in tried(program) and not program.report.escapes
    other = exported(Scaled(), torch.randn(2, 80, 6), {"x": {1: "s>=65"}})
    assert other.proof.ok and not other.report.escapes
    within = exported(Scaled(), torch.randn(2, 16, 6), {"x": {1: "s<=65"}}, effort="low").report
    assert within.escapes and within.promised


def cut(x):
    return x[:, :20] * 2 if x.shape[1] > 20 else x * 2


def padded(x):
    size = x.shape[1]
    return nn.functional.pad(x, (0, 40 - size)) if size < 40 else x


def by_area(x):
    return x * 2 if x.shape[0] * x.shape[1] > 100 else x


def where_equal(x):
    return x * 2 if x.shape[1] == 50 else x


def filled(x):
    more = -x.shape[1] % 500
    return nn.functional.pad(x, (0, more)) * 2 if more > 0 else x


def by_a_float(x):
    return x * 2 if x.shape[1] / 10 >= 4.5 else x


def in_pieces(x):
    return [piece.sum(1) for piece in x.split(64, 1)]


def in_rounds(x):
    total = x.sum(1)
    for i in range(0, x.shape[1], 64):
        total = total + x[:, i : i + 64].sum(1) * crc32(bytes([i % 251]))
    return total


def of_a_root(x):
    return x[:, eval("int(n ** 0.5)", {"n": x.shape[1]}) :]


def in_plain_code(x):
    return eval("y if int(n) < 30 else y * 2", {"n": x.shape[1], "y": x.relu()})


def squeezed(x):
    return x.unfold(1, 4, 4).squeeze(1)


@pytest.mark.parametrize(
    ("model", "wrong", "limit"),
    [
        (cut, "s=21", "s<=20"),
        (padded, "s=41", "s<=39"),
        (where_equal, "s=50", "s<=49"),
        (filled, "s=500", "s<=499"),
        (by_a_float, "s=46", "s<=44"),
        (in_pieces, "s=65", "s<=64"),
        (in_rounds, "s=65", "s<=64"),
    ],
)
def test_whatever_was_asked(model, wrong, limit):
    program = exported(model, torch.randn(2, 9), effort="low")
    assert program.report.promised == {"s": limit}
    assert next(case.name for case in program.proof.cases if case.outside) == wrong


@pytest.mark.parametrize(
    ("model", "wrong", "rule"),
    [
        (of_a_root, "s=16", "s>=9<=15"),
    ],
)
def test_where_next_to_nothing_would_be_left(model, wrong, rule):
    message = refused(model, torch.randn(2, 9))
    assert f"{wrong} inputs: wrong" in message
    assert (f"ruled out: {rule} in place of" in message) if rule else "<=" not in message


def test_the_largest_right_size_is_found_where_a_number_left():
    program = exported(in_plain_code, torch.randn(2, 9))
    assert program.report.promised == {"s": "s<=29"}


def test_both_ways_are_in_a_file_of_which_next_to_nothing_would_be_left():
    program = exported(by_area, torch.randn(2, 9))
    for rows, length in ((1, 100), (1, 101), (7, 14), (8, 13), (10, 10)):
        assert_close(program.run(x := torch.randn(rows, length)), by_area(x))


def test_the_nearest_smaller_size_and_not_only_the_smallest():
    """At a length of 1, attention within a window is attention, as at most others it is not."""

    def windowed(x):
        scores = x @ x.mT
        if x.shape[1] > 20:
            scores = scores.tril().triu(-20)
        return scores.softmax(-1) @ x

    program = exported(windowed, torch.randn(2, 30, 4))
    for length in (1, 19, 20, 21, 33):
        assert_close(program.run(x := torch.randn(3, length, 4)), windowed(x))
    (note,) = [note for note in program.report.notes if "both ways" in note]
    assert "recorded 2 times" in note


def test_both_sides_the_same_is_right_and_told(tmp_path):
    def same(x):
        y = x.cumsum(1)
        return y[:, : x.shape[1]] if x.shape[1] > 20 else y

    program = exported(same, torch.randn(2, 5))
    assert "s=21" in tried(program) and beyond(program) == "tried at s=21"
    assert str(program.report.escapes[0]).endswith("s > 20; tried at s=21")
    assert program.report.to_dict()["escapes"][0]["beyond"] == "tried at s=21"
    program.report.write(tmp_path / "r.html")
    for page in (program.report.to_markdown(), (tmp_path / "r.html").read_text()):
        assert "tried at s=21" in page


def test_sizes_that_are_tried_anyway_are_not_tried_twice():
    def near(x):
        if x.shape[1] == 1 or x.shape[1] % 2:
            return x * 1
        return x

    program = exported(near, torch.randn(2, 6), {"x": {1: "s"}})
    assert [tried(program).count(name) for name in ("s=7", "s=1")] == [1, 1]
    assert beyond(program) == "tried at s=1; tried at s=7"


def test_a_size_that_the_model_refuses_is_no_failure():
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.randn(40, 3))

        def forward(self, x):
            if x.shape[1] > 40:
                raise ValueError("no more than 40")
            return x + self.table[: x.shape[1]]

    program = exported(Table(), torch.randn(2, 5, 3))
    assert beyond(program) == "the model itself refuses s=41 inputs: no more than 40"


def test_what_a_size_has_to_be_divided_by_is_kept():
    def folded(x):
        x = x * 2 if x.shape[1] > 50 else x
        return x.reshape(x.shape[0], -1, 8).sum(1)

    program = exported(folded, torch.randn(2, 16), {"x": {1: "s%8"}}, effort="low")
    assert wrong(program) == ["s=56"] and program.report.promised == {"s": "s%8<=48"}
    assert wrong(exported(folded, torch.randn(2, 16), effort="low")) == ["s=64"]


def test_pieces_are_promised_from_two_on():
    assert exported(squeezed, torch.randn(2, 9)).report.promised == {"s": "s>=8"}


def test_what_is_asked_of_a_sum_is_promised_for_each_size():
    """Limits are of one name each: those that keep the answer rule out more than they have to."""

    def model(past, x):
        k = torch.cat((past, x), 1)
        return torch.cat((k[:, :2], k[:, -10:]), 1) if k.shape[1] > 12 else k.sum()

    inputs = torch.randn(2, 10), torch.randn(2, 4)
    program = exported(model, inputs, {"past": {1: "m"}, "x": {1: "n"}})
    assert program.report.promised == {"m": "m>=10", "n": "n>=4"}


def test_two_sizes_that_have_to_stay_equal():
    def added(x, y):
        x = x * 2 if x.shape[1] > 50 else x
        return x + y

    inputs = torch.randn(2, 16), torch.randn(2, 16)
    program = exported(added, inputs, {"x": [1], "y": [1]}, effort="low")
    assert wrong(program) == ["x_1=51, y_1=51"]


def test_what_costs_too_much_is_not_tried_and_told():
    linear = nn.Linear(64, 64)

    def attended(x):
        y = linear(x)
        return (y @ y.mT).softmax(-1) @ y if x.shape[1] <= 40000 else y

    program = exported(attended, torch.randn(2, 5, 64))
    told = beyond(program)
    assert told.startswith("not tried at s=40001: ") and "times the work of the recorded" in told
    assert "s<=40000 in place of s" in told
    assert not any("40001" in name for name in tried(program))


def test_far_more_numbers_than_were_recorded_are_not_compared(limit):
    def cubes(x, n):
        return x.sum() * torch.ones(int(n) ** 3)

    given = torch.randn(2), torch.tensor(4)
    assert "larger n" in tried(hx.export(cubes, given, None))
    limit(BUDGET.elements, outputs=1000)
    assert "larger n" not in tried(hx.export(cubes, given, None))


def test_what_has_other_axes_elsewhere_is_not_recorded_there():
    sizes = []

    def tiled(x, counts):
        sizes.append(len(counts))
        return x.repeat(counts.tolist())

    given = torch.rand(2, 3), torch.tensor([7, 6])
    with pytest.raises(hx.VerificationError, match="the shape is"):
        hx.export(tiled, given, None, dynamic={"x": {0: "a", 1: "b"}, "counts": {0: "r"}})
    assert max(sizes) == 3


def test_no_more_than_a_few_sizes_are_tried():
    def by_steps(x):
        y = x.relu()
        for bound in range(20, 100, 10):
            y = y[:, : x.shape[1]] if x.shape[1] > bound else y  # here
        return y

    program = exported(by_steps, torch.randn(2, 5))
    assert {"s=21", "s=31", "s=41", "s=51"} < {*tried(program)} and "s=61" not in tried(program)
    assert len([name for name in tried(program) if "values" not in name]) < 60
    program = exported(by_steps, torch.randn(2, 95))  # the other way
    assert program.proof.ok


def test_the_work_of_loops_and_recurrent_layers_is_counted():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(4, 5, batch_first=True)

        def forward(self, x):
            y = self.lstm(x)[0].cummax(1)[0]
            return y * 2 if x.shape[1] > self.bound else y

    model = Net()
    model.bound = 50
    assert wrong(exported(model, torch.randn(2, 5, 4), effort="low")) == ["s=51"]
    model.bound = 10**5  # rounds of next to nothing
    assert "times the work" in beyond(exported(model, torch.randn(2, 5, 4)))


def test_where_the_other_side_is_no_size_at_all():
    def never(x):
        return x * 2 if x.shape[1] < 1 or x.sum(1).shape[0] == 0 else x

    program = exported(never, torch.randn(2, 5))
    sizes = [name for name in tried(program) if "value" not in name]
    assert sizes[-5:] == ["b=3, s=7", "b=1", "s=1", "b=1682", "s=1840"]


def test_a_dry_run_and_an_export_without_a_proof_try_nothing():
    assert [e.beyond for e in hx.scan(cut, torch.randn(2, 5), dynamic=BY_LENGTH).escapes] == [""]
    assert beyond(exported(cut, torch.randn(2, 5), verify=False)) == ""
    with pytest.raises(hx.EscapeError):
        exported(cut, torch.randn(2, 5), strict=True, verify=False)


def test_beyond_where_both_sides_meet():
    program = exported(padded, torch.randn(2, 38))  # 40, which is tried anyway, is nothing to fill
    for length in (1, 39, 40, 41, 50):
        assert_close(program.run(x := torch.randn(3, length)), padded(x))


def test_what_is_refused_takes_no_place_of_what_is_not():
    def picky(x):
        for bound in (20, 24, 28, 40):
            assert x.shape[1] <= bound or x.shape[1] % 16 == 0, "in blocks only"
        return x * 2 if x.shape[1] > 50 else x

    found = wrong(exported(picky, torch.randn(2, 16), effort="low"), first=0)
    assert "s=64" in found
    assert all("s=64" in name or name == "s=1840" for name in found)  # the size far off


class Short(nn.Module):
    """Takes another way up to some length."""

    def __init__(self, length, less=False):
        super().__init__()
        self.length, self.less = length, less  # with an axis less, no graph has both ways

    def forward(self, x):
        if x.shape[1] <= self.length:
            return x[0] if self.less else x * 2
        return x + x.shape[1]


def test_a_branch_of_smaller_sizes_is_promised_from_there_on_though_size_1_is_wrong_too():
    program = exported(Short(20), torch.randn(2, 50), effort="low")
    assert program.report.promised == {"s": "s>=21"} and program.proof.ok
    assert wrong(program, first=2) == ["s=1", "s=19"]
    with pytest.raises(hx.UsageError, match="s is 20, and the file is right for s>=21 only"):
        program.run(torch.randn(2, 20))
    x = torch.randn(3, 21)
    assert_close(program.run(x), Short(20)(x))


def test_smaller_sizes_that_go_another_way_are_not_promised():
    assert exported(Short(40, less=True), torch.randn(2, 50)).report.promised == {"s": "s>=41"}
    limited = {"x": {0: "b", 1: "s>=41"}}
    assert exported(Short(40, less=True), torch.randn(2, 50), limited).proof.ok
    both = exported(Short(40), torch.randn(2, 50))
    for length in (1, 40, 41, 60):
        assert_close(both.run(x := torch.randn(3, length)), Short(40)(x))


@pytest.mark.parametrize("length", [1, 2])
def test_what_is_wrong_at_the_smallest_sizes_alone_is_promised_above(length):
    program = exported(Short(length), torch.randn(2, 50), effort="low")
    assert program.report.promised == {"s": f"s>={length + 1}"}
    assert exported(lambda x: x.squeeze(0), torch.randn(4, 5)).report.promised == {"b": "b>=2"}


class ShortAndOdd(nn.Module):
    """Asks about short ones, and is wrong for another reason at one number of rows."""

    def __init__(self, rows="1"):
        super().__init__()
        self.rows = rows

    def forward(self, x):
        y = x * 2 if x.shape[1] <= 20 else x + x.shape[1]
        return y + x * int(json.dumps(x.shape[0]) == self.rows)


def test_what_is_wrong_within_the_limits_too_is_refused():
    message = refused(ShortAndOdd("3"), torch.randn(2, 50))
    assert "b=3" in message and "inputs: wrong" in message


def test_what_is_wrong_for_one_row_alone_is_promised_for_more():
    program = exported(ShortAndOdd(), torch.randn(2, 50))
    assert program.report.promised["b"] == "b>=2"
    assert any("json" in str(e) or "dumps" in str(e) for e in program.report.escapes)
    for sizes in ((2, 30), (5, 50), (9, 21)):
        x = torch.randn(sizes)
        assert_close(program.run(x), ShortAndOdd()(x))


def one_or_other(x):
    return x + 1 if x.shape[0] > 3 or x.shape[1] > 4 else x - 1


def one_and_other(x):
    return x + 1 if x.shape[0] == 1 and x.shape[1] > 8 else x - 1


def one_within_other(x):
    if x.shape[1] < 5:
        if x.shape[0] == 1:
            return x + 4
    return x


def alike_or_long(x):
    return x + 1 if x.shape[0] != x.shape[1] or x.shape[1] > 8 else x - 1


@pytest.mark.parametrize("model", [one_or_other, one_and_other, one_within_other, alike_or_long])
@pytest.mark.parametrize("shape", [(5, 6), (3, 4), (20, 30), (3, 12)], ids=str)
def test_a_question_that_is_asked_on_one_side_of_another_alone(model, shape):
    """Each of them alone changes nothing, or is not heard where the model was recorded."""
    try:
        program = exported(model, torch.rand(shape), {"x": {0: "a", 1: "b"}})
    except hx.VerificationError:
        return  # too near to what was recorded
    within = 0
    for a in range(1, 12):
        for b in range(1, 12):
            try:
                found = program.run(x := torch.rand(a, b))
            except hx.UsageError as outside:
                assert "and the file is right for" in str(outside)
                continue
            assert_close(found, model(x))
            within += 1
    assert within


def test_what_both_sides_leave_is_promised():
    program = exported(one_or_other, torch.rand(20, 30), {"x": {0: "a", 1: "b"}}, effort="low")
    assert program.report.promised == {"b": "b>=5"}
    assert {int(name.rpartition("b=")[2]) for name in wrong(program, first=0)} <= {1, 2, 3, 4}


def test_what_failed_at_some_sizes_is_proved_again_and_not_promised():
    def model(x):
        if x.shape[1] < 5:
            if x.shape[0] == 2:
                return x[0]
        return x

    program = exported(model, torch.rand(3, 4), {"x": {0: "a", 1: "b"}})
    assert program.report.promised == {"a": "a>=3"}
