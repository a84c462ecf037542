"""Faulty models and converters: none ends in a file, and each is told where it went wrong."""

from __future__ import annotations

import ctypes
import inspect
import itertools
import re
from zlib import crc32

import numpy as np
import pytest
import torch
from tests.shared.lost_sizes import lost
from torch import nn
from torch.nn import functional as F

import hx
from hx.proof.diagnose.first_difference import _beside


def line_of(thing, text):
    """file:line of the one line of a class that holds `text`."""
    lines, first = inspect.getsourcelines(thing)
    (at,) = [first + i for i, line in enumerate(lines) if text in line]
    return f"{inspect.getsourcefile(thing)}:{at}"


def refused(model, args, tmp_path, kind=hx.VerificationError, **options):
    target = tmp_path / "model.onnx"
    target.write_text("what was there before")
    with pytest.raises(kind) as caught:
        hx.export(model, args, target, **options)
    assert target.read_text() == "what was there before"
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]
    return str(caught.value)


def test_a_converter_that_is_off_is_named(tmp_path):
    @hx.converter("torch.nn.functional.conv2d")
    def wrong(op, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        return op.Conv(op.Mul(input, 1.01), weight, bias, pads=[1] * 4)

    packs = hx.Registry.installed()
    packs.add(wrong)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU())
    message = refused(model, torch.randn(1, 3, 6, 6), tmp_path, packs=packs)
    assert "first off: Conv of torch.nn.functional.conv2d" in message
    assert "(in 0)" in message
    assert f"converter from local at {__file__}:{wrong.__code__.co_firstlineno}" in message


@pytest.mark.parametrize(
    "body",
    [
        lambda op, x: op.Concat(op.Mul(x, x), axis=5),
        lambda op, x: op.MatMul(op.Mul(x, x), x),
        lambda op, x: op.Squeeze(x, [8]),
        lambda op, x: op.If(
            op.constant(True),
            then_branch=op.body(lambda: op.Softmax(x, axis=7)),
            else_branch=op.body(lambda: op.Neg(x)),
        ),
    ],
)
def test_the_converter_of_a_node_that_is_refused_is_named(tmp_path, body):
    def wrong(op, input, inplace=False):
        return body(op, input)

    packs = hx.Registry.installed()
    packs.add(hx.converter("torch.nn.functional.silu")(wrong))
    message = refused(nn.Sequential(nn.SiLU()), torch.randn(2, 3), tmp_path, packs=packs)
    assert "of torch.nn.functional.silu at " in message and "(in 0)" in message
    assert f"converter from local at {__file__}:{wrong.__code__.co_firstlineno}" in message


def test_a_constant_that_a_converter_returns_for_what_inputs_decide_is_told(tmp_path):
    @hx.converter("torch.nn.functional.silu")
    def forgets(op, input, inplace=False):
        return op.constant([[1.0, 2, 3]] * 2)

    packs = hx.Registry.installed()
    packs.add(forgets)
    told = refused(nn.Sequential(nn.SiLU(), nn.ReLU()), torch.randn(2, 3), tmp_path, packs=packs)
    assert "torch.nn.functional.silu (local) returned a constant, and the target other" in told
    assert f"converter: {__file__}:{forgets.__code__.co_firstlineno}" in told


def test_a_number_that_a_converter_returns_for_a_size_is_told(tmp_path, monkeypatch):
    (tmp_path / "acmecount.py").write_text(
        "def counted(x):\n    return x.neg(), int(x.detach().numpy().shape[0])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import acmecount

    (tmp_path / "out").mkdir()

    @hx.converter("acmecount.counted")
    def counted(op, x):
        return op.Neg(x), 2

    class Counts(nn.Module):
        def forward(self, x):
            y, n = acmecount.counted(x)
            return y / n

    packs = hx.Registry.installed()
    packs.add(counted)
    told = refused(
        Counts(), torch.randn(2, 3), tmp_path / "out", packs=packs, dynamic={"x": {0: "b"}}
    )
    assert "acmecount.counted (local) returned 2, but acmecount.counted itself returned" in told
    assert f"converter: {__file__}:{counted.__code__.co_firstlineno}" in told


def test_a_converter_that_says_another_size_is_named(tmp_path):
    """The numbers are right: who reads the file would take them for more, or for fewer."""

    @hx.converter("torch.relu")
    def wrong(op, input):
        y = op.Relu(input)
        y.sized((4 - input.shape[0], 3))  # 2 in the recording, as it should be
        return y

    def model(x):
        return torch.relu(x), x > 0.1  # which rounding may decide

    packs = hx.Registry.installed()
    packs.add(wrong)
    dynamic = {"x": {0: "n"}}
    message = refused(model, torch.randn(2, 3), tmp_path, packs=packs, dynamic=dynamic)
    assert "the output has size 3 on axis 0, where the file declares" in message, message


class Baked(nn.Module):
    def forward(self, x):
        n = lost(x.shape[0])
        return x.reshape(n, -1).sum(1) * sum(
            int(digit) for digit in str(n)
        )  # no formula gives that


def test_a_baked_batch_size(tmp_path):
    message = refused(Baked(), torch.randn(2, 3, 4), tmp_path, dynamic={"x": {0: "batch"}})
    assert f"baked in at {line_of(Baked, 'reshape')}" in message
    assert "torch.reshape has [2, -1], and needs [3, -1] on batch=3 inputs" in message
    headline = "the graph does not compute what the model computes"
    assert message.startswith(f"{headline}\n  batch=3 inputs: wrong\n")
    assert re.search(r"batch=1, batch=1669.* inputs: wrong, too", message)


class Branch(nn.Module):
    """One side has an axis more: no graph has both."""

    def forward(self, x):
        if x.shape[0] > 2:
            return x * 2
        return (x + 1).unsqueeze(0)


def test_a_branch_on_a_size(tmp_path):
    message = refused(Branch(), torch.randn(2, 3), tmp_path, dynamic={"x": {0: "batch"}})
    assert f"a branch: at {line_of(Branch, 'x + 1')}" in message
    told = f"the branch at {line_of(Branch, 'if x.shape')} depends on a size, batch > 2"
    assert told in message and "on batch=3 inputs Mul" in message


class Signed(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return torch.sigmoid(x)
        return x.sum()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_branch_on_a_value(tmp_path, sign):
    message = refused(Signed(), sign * torch.rand(2, 3), tmp_path)
    assert f"bool of one value at {line_of(Signed, 'x.sum() > 0')}" in message


class Scaled(nn.Module):
    def forward(self, x):
        return x * x.mean().item()


def test_a_number_used_as_a_scale_is_carried_and_told():
    program = hx.export(Scaled(), torch.randn(2, 3))
    (escape,) = program.report.escapes
    assert str(escape.where).startswith(line_of(Scaled, "item"))
    assert [finding.level for finding in program.report.findings] == ["followed"]
    assert hx.export(Scaled(), torch.randn(2, 3), strict=True).proof.ok
    with pytest.raises(hx.EscapeError, match="item"):  # without a proof, nobody knows
        hx.export(Scaled(), torch.randn(2, 3), strict=True, verify=False)


class Numpy(nn.Module):
    def forward(self, x):
        return x + torch.from_numpy(np.cbrt(x.numpy()))


def test_a_detour_through_numpy(tmp_path):
    message = refused(Numpy(), torch.randn(2, 3), tmp_path)
    assert f"left the graph: numpy of [2, 3] at {line_of(Numpy, 'numpy')}" in message
    target = f"{Numpy.__module__}.Numpy.forward"
    assert f"write a converter for what does it: hx packs new my-pack --target {target}" in message


class View(nn.Module):
    def forward(self, x):
        y = x * 1  # made
        np.from_dlpack(y)[:, 0] = 5  # written
        return y + 1  # read


def test_a_write_through_a_view_of_numpys(tmp_path):
    message = refused(View(), torch.randn(2, 3), tmp_path)
    made, read = line_of(View, "# made"), line_of(View, "# read")
    assert (
        f"unseen: a tensor of shape [2, 3] made at {made} had other contents at {read}" in message
    )
    assert f"dlpack of [2, 3] at {line_of(View, '# written')}" in message


class Counted(nn.Module):
    calls = 0

    def forward(self, x):
        Counted.calls += 1
        return x * Counted.calls


def test_a_model_that_counts_its_calls_out_of_reach(tmp_path):
    message = refused(Counted(), torch.randn(2, 3), tmp_path)
    assert "asked again, the model itself gives another answer" in message
    assert f"baked in at {line_of(Counted, 'return')}: torch.mul has 1, and needs" in message


def test_a_size_that_the_proof_cannot_see_is_told_all_the_same():
    class Clamped(nn.Module):
        def forward(self, x):
            return x.clamp(max=1000 + lost(x.shape[0]))  # here

    program = hx.export(Clamped(), torch.randn(2, 3), dynamic={"x": {0: "n"}})
    (told,) = program.report.baked
    assert f"baked in at {line_of(Clamped, '# here')}: torch.clamp has 1002, and needs 1003" in told
    assert not hx.export(Clamped(), torch.randn(2, 3)).report.baked
    fine = hx.export(nn.Linear(3, 2), torch.randn(2, 3), dynamic={"input": {0: "n"}})
    assert not fine.report.baked


class Foreign(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        ctypes.memmove(out.data_ptr(), x.data_ptr(), x.numel() * 4)
        return out * 2


def test_an_extension_that_writes_to_memory(tmp_path):
    message = refused(Foreign(), torch.randn(2, 3), tmp_path, hx.Unaccounted)
    assert f"ctypes.memmove at {line_of(Foreign, 'memmove')} is compiled code" in message


class Looped(nn.Module):
    def forward(self, x):
        total = 0
        for i in range(x.shape[0]):
            total = total + x[i] * crc32(bytes([i]))  # no step from round to round
        return total


def test_a_loop_over_a_size(tmp_path):
    message = refused(Looped(), torch.randn(2, 3), tmp_path, dynamic={"x": [0]})
    assert line_of(Looped, "x[i]") in message
    assert "different numbers of nodes" in message


class Unbound(nn.Module):
    def forward(self, x):
        total = 0
        for i, row in enumerate(x):
            total = total * 0.5 + row * crc32(bytes([i]))
        return total


def test_a_loop_over_rows_is_told_as_one_with_the_size_and_what_to_do(tmp_path):
    message = refused(Unbound(), torch.randn(7, 3), tmp_path, dynamic={"x": {0: "steps"}})
    place = line_of(Unbound, "in enumerate(x)")
    assert f"loop at {place} runs as often as in the recording, 7 times, over steps: " in message
    assert "leave that size out of dynamic=" in message and "scan" in message
    assert "[1, 1, 1, 1, ...] (7 in all), and needs [1, 1, 1, 1, ...] (8)" in message
    assert f"at {place} torch.unbind gives 7 results in the recording, and 8 on" in message
    assert "steps%" not in message


class Adapted(nn.Module):
    """Around an attention, with the weights of that as its own, as adapters have it."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.more = inner, nn.Linear(16, 16)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)

    def forward(self, x, *args, **kwargs):
        return self.inner(x, *args, **kwargs)[0] + self.more(x), None


def test_a_model_that_computes_otherwise_when_it_is_not_recorded_is_told_as_such(tmp_path):
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    layer.self_attn = Adapted(layer.self_attn).eval()
    message = refused(layer, torch.randn(2, 5, 16), tmp_path)
    assert "gives something else when it is not recorded: there it takes" in message
    assert "set_fastpath_enabled(False)" in message


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "n"}}])
def test_a_loop_over_what_values_count_is_told_as_such(dynamic, tmp_path):
    def experts(x):
        total = torch.zeros(x.shape[0])
        for each in (x.sum(0) > 0).nonzero():
            total = total + x[:, each].sum(1)
        return total

    message = refused(experts, torch.rand(6, 2), tmp_path, dynamic=dynamic)
    assert "other values may have more or fewer" in message and "out of dynamic=" not in message


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ([1, 1, 1, 1, 5], [1, 1, 1, 1, 6], ("5 at [4]", "6")),
        ([[0] * 5], [[0] * 4 + [9]], ("0 at [0][4]", "9")),
        ([1, 2], [1, 2, 3], ("[1, 2]", "[1, 2, 3]")),
        ([[7] * 5], [[7] * 6], ("[7, 7, 7, 7, ...] (5 in all) at [0]", "[7, 7, 7, 7, ...] (6)")),
        ([[1, 2], [3, 4]], [[5, 6], [7, 8]], ("numbers of shape [2, 2]", "others")),
        ([[1, 2], [3, 4]], [[5, 6]], ("numbers of shape [2, 2]", "[1, 2]")),
        (0.33333, 0.33334, ("0.33333", "0.33334")),
        (0.5, 0.25, ("0.5", "0.25")),
    ],
)
def test_constants_are_told_apart(old, new, told):
    assert _beside(old, new) == told


def test_a_constant_that_is_an_output_is_told_by_its_name(tmp_path):
    def model(x):
        found = torch.from_numpy(np.sinc(x.numpy()))
        return found, found + 1, found + 2

    message = refused(model, torch.randn(2, 3), tmp_path)
    assert "unknown line" not in message
    assert "baked in: output_0 has numbers of shape [2, 3], and needs others on" in message


def test_random_numbers_and_dropout_are_told_and_compared_as_far_as_can_be():
    class Random(nn.Module):
        def forward(self, x):
            return x + torch.rand(3), x * 2

    class Dropping(nn.Module):
        def forward(self, x):
            return F.dropout(x)  # in eval mode, and nobody turned it off

    program = hx.export(Random(), torch.randn(2, 3))
    (note,) = program.report.notes
    assert f"torch.rand at {line_of(Random, 'rand')} draws random numbers" in note
    assert all(case.same_draws for case in program.proof.cases) and not program.proof.random
    assert "on the random numbers that the model drew" in program.proof.summary()
    program = hx.export(Dropping(), torch.randn(2, 3))
    assert "draws random numbers" in program.report.notes[0]
    assert program.proof.cases[0].outputs[0].random


def test_a_model_that_counts_its_calls_is_left_as_it_was():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.plain = 0

        def forward(self, x):
            self.calls += 1
            self.plain += 1
            return x * self.calls

    model = Counting()
    program = hx.export(model, torch.randn(2, 3))
    assert program.report.changed_buffers == ["calls"]
    assert model.calls == 0 and model.plain == 0


def test_a_model_that_magnifies_rounding_is_not_accused():
    class Magnifying(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.GroupNorm(2, 4)

        def forward(self, x):
            y = self.norm(x)
            return y - y.mean((2, 3), keepdim=True) + y.std((2, 3), keepdim=True) - y.abs().amax()

    assert hx.export(Magnifying(), torch.randn(2, 4, 8, 8)).proof.ok


def test_outputs_that_are_nothing_but_rounding():
    """A group of one number less its mean is 0, and what PyTorch's kernel makes of that."""
    model = nn.GroupNorm(1, 1)
    assert model(torch.randn(64, 1)).abs().amax() > 0
    assert hx.export(model, torch.randn(64, 1), dynamic={"input": {0: "n"}}).proof.ok


def test_outputs_that_show_nothing_are_told():
    """On zeros, or on NaN everywhere, nearly every file would be right."""

    def model(x, y):
        return F.relu(x * 0 - 99), (-1 - x.abs()).log(), x * y, x.sum(), x > 99

    told = hx.export(model, (torch.randn(2, 3), torch.ones(2, 3))).proof
    assert told.ok and told.untold == {"output_0": "0", "output_1": "nan"}
    assert "output_0 is 0, output_1 is nan everywhere, which shows little" in told.summary()
    assert "shows little" not in hx.export(F.relu, torch.randn(2, 3)).proof.summary()


def test_small_outputs_are_held_to_their_own_size(tmp_path):
    @hx.converter("torch.nn.functional.softsign")
    def wrong(op, input):
        return op.Mul(op.Softsign(input), 1.1)

    packs = hx.Registry.installed()
    packs.add(wrong)
    x = torch.randn(2, 3) * 1e-4
    assert hx.export(Soft(), x).proof.ok
    assert "tolerance" in refused(Soft(), x, tmp_path, packs=packs)


def test_a_model_that_refuses_a_size_is_asked_for_others():
    class Even(nn.Module):
        def forward(self, x):
            return x.reshape(x.shape[0], 2, -1) * 2

    program = hx.export(Even(), torch.randn(2, 4), dynamic={"x": {0: "n", 1: "wide"}})
    names = [case.name for case in program.proof.cases if "value" not in case.name]
    assert names == [
        "recorded",
        "fresh",
        "n=3, wide=6",
        "n=1",
        "wide=2",
        "n=8, wide=16",
        "n=1647",
        "wide=68",
    ]
    assert not any("n=3" in note for note in program.report.notes)

    class Wide(nn.Module):
        def forward(self, x):
            return x.reshape(-1, 4) * 2

    program = hx.export(Wide(), torch.randn(2, 4), dynamic={"x": {1: "wide"}})
    names = [case.name for case in program.proof.cases]
    assert names[:4] == ["recorded", "fresh", "wide=8", "wide=2"]
    assert names[4:7] == ["wide=38", "opposite values at wide=4", "large values at wide=4"]


def test_what_the_proof_ran_on():
    program = hx.export(nn.Linear(3, 2), torch.randn(2, 3), dynamic={"input": {0: "n"}})
    names = [case.name for case in program.proof.cases]
    assert names[:5] == ["recorded", "fresh", "n=3", "n=1", "n=1647"]
    assert names[5:7] == ["opposite values at n=2", "large values at n=2"]
    assert hx.export(nn.Linear(3, 2), torch.randn(2, 3), verify=False).proof is None


def test_a_model_that_does_not_agree_with_itself_is_told(tmp_path):
    calls = (call for call in itertools.count(1))  # a generator, which nobody can put back

    class Unsteady(nn.Module):
        def forward(self, x):
            is_second = next(calls) == 2  # as threads that race would, now and then
            return x * (2.0 if is_second else 1.0)

    message = refused(Unsteady(), torch.randn(2, 3), tmp_path)
    assert "the model itself gives another answer" in message
    steady = refused(Baked(), torch.randn(2, 3, 4), tmp_path, dynamic={"x": {0: "batch"}})
    assert "the model itself" not in steady


def test_the_body_of_a_loop_is_not_what_was_baked_in(tmp_path):
    @hx.converter("torch.nn.functional.softsign")
    def wrong(op, input):
        start = op.Mul(input, 0.0)
        inputs = [
            op.input(torch.int64, ()),
            op.input(torch.bool, ()),
            op.input(input.dtype, input.shape),
        ]
        body = op.body(lambda i, _, at: (op.constant(True), op.Add(at, input)), *inputs)
        found = op.Loop(3, None, start, body=body, outputs=1)[0]
        found.sized(input.shape)
        return found

    packs = hx.Registry.installed()
    packs.add(wrong)
    message = refused(Soft(), torch.randn(2, 3), tmp_path, packs=packs)
    assert "first off: Loop" in message and "baked in" not in message


class Soft(nn.Module):
    def forward(self, x):
        return F.softsign(x)


def test_numbers_beyond_all_whole_ones_are_varied_too():
    x = torch.randn(3, 4) * 1e32
    assert hx.export(lambda x: x * 2, x).proof.ok
