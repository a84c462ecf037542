"""Further inputs that a user knows to be valid: each is a case of the proof, as it is."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hx


class Summed(nn.Module):
    """Two sequences of one length, whose names hx does not know to be one."""

    def forward(self, x, y):
        return x + y


class Packed(nn.Module):
    """Patches of pictures of several sizes, which a grid tells apart."""

    def forward(self, patches, grid):
        count = int(grid.prod(-1).sum())
        if count != patches.shape[0]:
            raise ValueError(f"{count} patches in the grid, and {patches.shape[0]} given")
        return patches.cumsum(0)


def lengths(n):
    return torch.randn(n, 3), torch.randn(n, 3)


DYNAMIC = {"x": {0: "n"}, "y": {0: "m"}}


def names(program):
    return [case.name for case in program.proof.cases]


def test_each_is_a_case_with_its_values():
    seen = []

    class Seeing(nn.Module):
        def forward(self, x, y):
            seen.append(x)
            return x + y

    others = [lengths(5), lengths(9)]
    program = hx.export(Seeing(), lengths(4), dynamic=DYNAMIC, others=others)
    assert {"others[0]", "others[1]"} <= {*names(program)}
    for x, _ in others:
        assert any(x.equal(each) for each in seen if each.shape == x.shape)
    assert program.proof.sizes["n"][0] < 4 and program.proof.sizes["n"][1] >= 9


def test_sizes_that_are_always_equal_are_kept_equal():
    program = hx.export(Summed(), lengths(4), dynamic=DYNAMIC, others=[lengths(6)])
    assert {"n=7, m=7", "n=2, m=2"} <= {*names(program)} and not program.report.promised
    [found] = [each for each in program.report.findings if "n = m in all inputs" in each.text]
    assert "give them one name in dynamic=" in found.hint
    for n in (1, 5, 40):
        x, y = lengths(n)
        torch.testing.assert_close(program.run(x, y), x + y)


def packed(*sizes):
    grid = torch.tensor(sizes)
    return torch.randn(int(grid.prod(-1).sum()), 3), grid


def test_sizes_that_belong_to_values_are_tried_as_they_are_given():
    others = [packed((4, 4)), packed((1, 2), (3, 5), (2, 2))]
    dynamic = {"patches": {0: "count"}, "grid": {0: "pictures"}}
    program = hx.export(Packed(), packed((2, 2), (2, 3)), dynamic=dynamic, others=others)
    assert {"others[0]", "others[1]"} <= {*names(program)}
    for given in others:
        torch.testing.assert_close(program.run(*given), Packed()(*given))


def test_a_file_that_is_wrong_on_one_of_them_is_refused():
    class Counting(nn.Module):
        def forward(self, x):
            return x * len(x.abs().sum(1).nonzero())

    first, zeros = torch.ones(4, 3), torch.ones(4, 3)
    zeros[1] = 0
    program = hx.export(Counting(), first, others=[zeros], dynamic={"x": {0: "n"}})
    torch.testing.assert_close(program.run(zeros), Counting()(zeros))

    class Asking(nn.Module):
        def forward(self, x):
            return x * (2.0 if float(x.sum()) == 77.0 else 1.0)

    magic = torch.full((7,), 11.0)
    try:
        program = hx.export(Asking(), torch.ones(7), others=[magic])
    except hx.VerificationError as refused:
        assert "others[0]" in str(refused)
    else:
        torch.testing.assert_close(program.run(magic), Asking()(magic))


def test_they_may_be_named_and_nested_and_leave_out_what_stays():
    class Nested(nn.Module):
        def forward(self, x, state, scale=1.0):
            return x * state["a"] * scale

    def nested(n):
        return torch.randn(n), {"a": torch.randn(n)}

    x, state = nested(3)
    dynamic = {"x": {0: "n"}, "state": {"a": {0: "n"}}}
    others = [nested(5), dict(zip(("x", "state"), nested(8)))]
    program = hx.export(Nested(), (x, state), kwargs={"scale": 2.0}, dynamic=dynamic, others=others)
    assert {"others[0]", "others[1]"} <= {*names(program)}
    program = hx.export(Nested(), (x, state), dynamic=dynamic, others={"long": nested(30)})
    assert "long" in names(program)


X = torch.randn(4, 3)
WRONG = {
    "a rank": ([X[0]], "x in others[0] has shape [3], and [4, 3] in the recorded inputs"),
    "a dtype": ([X, X.double()], "x in others[1] is float64, and float32 in the recorded inputs"),
    "a fixed axis": ([X[:, :2]], "axis 1 of x in others[0] is 2, and 3 in the recorded inputs"),
    "a limit": ([torch.randn(40, 3)], "in others[0] n is 40, outside of its limits"),
    "no tensor": ([3], "x in others[0] is 3, and a tensor in the recorded inputs"),
    "a name": ([{"z": X}], "others[0] names 'z', which is no input"),
    "one too many": ([(X, X)], "others[0] has"),
    "too few": ([()], "others[0] lacks x"),
    "no list": (X, "others= has to be a list of inputs, and is Tensor"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_with_the_name_of_the_input(what):
    others, message = WRONG[what]
    with pytest.raises(hx.UsageError) as refused:
        hx.export(nn.ReLU(), X, input_names=["x"], dynamic={"x": {0: "n<=9"}}, others=others)
    text = " ".join(str(refused.value).split())
    assert message in text.replace("names 'z'", "names 'z'")


def test_sizes_that_disagree_are_said():
    both = {"x": {0: "n"}, "y": {0: "n"}}
    with pytest.raises(hx.UsageError, match=r"in others\[0\] 'n' is 5 in x and 6 in y"):
        hx.export(
            Summed(), lengths(4), dynamic=both, others=[(torch.randn(5, 3), torch.randn(6, 3))]
        )


def test_inputs_that_the_model_refuses_are_named():
    wrong = torch.randn(5, 3), torch.randn(6, 3)
    with pytest.raises(hx.UsageError, match=r"the model refuses others\[0\]: RuntimeError"):
        hx.export(Summed(), lengths(4), dynamic=DYNAMIC, others=[wrong])
