"""What is missing, all at once; and what a converter does wrong, with its line and the user's."""

from __future__ import annotations

import linecache

import pytest
import torch
import torch.nn.functional as F
from called import Call, asked
from torch import nn

import hx
from hx import converter

# Missing: all of them, in one run.


class Block(nn.Module):
    def forward(self, x):
        y = torch.special.bessel_j0(x)  # bessel
        return y + torch.special.bessel_j0(y[:1])  # again


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        for block in self.blocks:
            x = block(x)
        a, b = torch.special.airy_ai(x), x.igamma(x.abs())  # two
        x.lgamma_()  # in place
        if a.shape[0] == 2:
            return F.relu(a) + b, x, x.lgamma()
        return x


@pytest.fixture
def poor(lacking):
    """Without what the models here call."""
    return lacking(
        "bessel_j0", "special_bessel_j0", "airy_ai", "special_airy_ai", "igamma", "gammainc",
        "special_gammainc", "lgamma", "gammaln", "special_gammaln",
    )  # fmt: skip


def test_everything_missing_is_told_in_one_run(line_of, poor):
    model = Model()
    with pytest.raises(hx.MissingConverters) as caught:
        asked(model, torch.rand(2, 3), registry=poor)
    error = caught.value
    assert error.exit_code == 5
    missing = {m.target: m for m in error.missing}
    assert set(missing) == {
        "torch.special.bessel_j0", "torch.special.airy_ai", "torch.Tensor.igamma",
        "torch.Tensor.lgamma_", "torch.Tensor.lgamma",
    }  # fmt: skip
    bessel = missing["torch.special.bessel_j0"]
    assert bessel.count == 4
    places = {(w.scope, w.file, w.line) for w in bessel.places}
    lines = [line_of(Block, "# bessel"), line_of(Block, "# again")]
    assert places == {(f"blocks.{i}", __file__, line) for i in (0, 1) for line in lines}
    assert bessel.inputs[0] == ["float32[2, 3]"] and bessel.inputs[1] == ["float32[1, 3]"]
    assert bessel.command == "hx packs new my-pack --target torch.special.bessel_j0"
    said = str(error)
    assert error.missing[0] is bessel  # what is called most stands first
    for one in error.missing:
        assert one.target in said and one.command in said
    assert f"{__file__}:{lines[0]} (in blocks.0)" in said
    assert model.calls == 0 and model.training  # as it was before


def test_missing_targets_can_be_written_for(poor):
    """Each target that is named is one that a converter can be registered for."""
    with pytest.raises(hx.MissingConverters) as caught:
        asked(Model(), torch.rand(2, 3), registry=poor)

    def stands_in(target):
        def convert(op, *args, **kwargs):
            many = len(op.result) if isinstance(op.result, tuple) else 1
            values = [a for a in args if hasattr(a, "rank")]
            return op("test", "Opaque", *values, target=target, outputs=many if many > 1 else None)

        return converter(target)(convert)

    mine = [stands_in(m.target) for m in caught.value.missing]
    program = asked(Model(), torch.rand(2, 3), *mine, registry=poor, verify=False)
    assert program.ops.count("Opaque") == 8


def test_scan_tells_the_same_and_raises_nothing(poor):
    report = hx.scan(Model(), torch.rand(2, 3), packs=poor)
    assert not report.covered and len(report.missing) == 5
    assert report.to_dict()["missing"][0]["places"][0]["scope"] == "blocks.0"


def test_what_is_missing_goes_on_with_the_right_values(poor):
    """The model runs on real tensors: what follows a missing call sees what it returns."""
    seen = []

    def forward(m, x):
        y = torch.special.bessel_j0(x)
        seen.append(y.clone())
        assert bool((y != 0).any()) and y.shape == x.shape
        y[0] = 1.0
        return y.sum()

    x = torch.rand(2, 3)
    with pytest.raises(hx.MissingConverters) as caught:
        asked(Call(forward), x, registry=poor)
    assert len(caught.value.missing) == 1
    assert torch.equal(seen[0], torch.special.bessel_j0(x))


def test_a_model_that_raises_raises_its_own_error():
    def forward(m, x):
        torch.special.bessel_j0(x)
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        asked(Call(forward), torch.rand(2, 3))

    with pytest.raises(RuntimeError, match="must match"):
        asked(Call(lambda m, x: x + torch.ones(5)), torch.rand(2, 3))

    def caught_inside(m, x):
        try:
            x = x + torch.ones(5)
        except RuntimeError:
            x = x + 1
        return x

    assert asked(Call(caught_inside), torch.rand(2, 3)).ops == ["Add"]


# Converters that are wrong.


def raises(op, input, inplace=False):
    return input.nothing  # wrong


def no_value(op, input, inplace=False):
    return 3  # wrong


def nothing(op, input, inplace=False):
    op.Relu(input)  # wrong


def wrong_dtype(op, input, inplace=False):
    return op.cast(input, torch.int64)  # wrong


def wrong_shape(op, input, inplace=False):
    return op.ReduceSum(input, [0], keepdims=0)  # wrong


def wrong_rank(op, input, inplace=False):
    return op.Unsqueeze(input, [0])  # wrong


def unknown_operator(op, input, inplace=False):
    return op.Reluu(input)  # wrong


def unknown_attribute(op, input, inplace=False):
    return op.Relu(input, alpha=1)  # wrong


def too_many(op, input, inplace=False):
    return op.Relu(input, input)  # wrong


def too_few(op, input, inplace=False):
    return op.Add(input)  # wrong


def bad_attribute(op, input, inplace=False):
    return op.LeakyRelu(input, alpha="a")  # wrong


def bad_input(op, input, inplace=False):
    return op.Add(input, object())  # wrong


def lower_case(op, input, inplace=False):
    return op.relu(input)  # wrong


def wrong_arguments(op, x, y, z):  # wrong
    return x


def truth(op, input, inplace=False):
    return input if input else None  # wrong


WRONG = {
    raises: "nothing",
    no_value: "should be a value, and is int",
    nothing: "should be a value, and is NoneType",
    wrong_dtype: r"should be float32, and is int64",
    wrong_shape: r"should have the shape \[2, 3\]",
    wrong_rank: r"should have the shape \[2, 3\], and has \[1, 2, 3\]",
    unknown_operator: r"ONNX has no operator Reluu\n(.*\n)*.*op\.Relu",
    unknown_attribute: "Relu has no attribute alpha",
    too_many: "at most 1 input",
    too_few: "at least 2 inputs",
    bad_attribute: "alpha cannot be 'a'",
    bad_input: "cannot be <object",
    lower_case: "capital",
    wrong_arguments: "has no parameter for inplace",
    truth: "no truth value",
}


@pytest.mark.parametrize("function", WRONG, ids=lambda f: f.__name__)
def test_the_error_names_the_converter_its_line_and_the_users(function, line_of):
    def forward(m, x):
        return F.relu(x) + 1  # here

    mine = converter("torch.nn.functional.relu")(function)
    with pytest.raises(hx.ConverterError, match=WRONG[function]) as caught:
        asked(Call(forward), torch.randn(2, 3), mine)
    error, said = caught.value, str(caught.value)
    assert (error.where.file, error.where.line) == (__file__, line_of(forward, "# here"))
    assert f"{error.where.file}:{error.where.line}" in said
    assert "torch.nn.functional.relu" in said and "local" in said
    # The converter's own line; where only what it returned is wrong, that of its definition.
    lines = {line_of(function, "# wrong"), function.__code__.co_firstlineno}
    assert any(f"{__file__}:{line}" in said for line in lines), said


def test_a_wrong_structure(line_of):
    def forward(m, x):
        return torch.split(x, 1)  # here

    for function, message in [
        (lambda op, tensor, split_size, dim=0: tensor, "returned Value, and the target returns"),
        (lambda op, tensor, split_size, dim=0: (tensor,), "returned 1, and the target returns"),
        (lambda op, tensor, split_size, dim=0: [tensor, tensor], "should have the shape"),
    ]:
        mine = converter("torch.split")(function)
        with pytest.raises(hx.ConverterError, match=message) as caught:
            asked(Call(forward), torch.randn(2, 3), mine)
        assert caught.value.where.line == line_of(forward, "# here")
        assert f"{__file__}:{function.__code__.co_firstlineno}" in str(caught.value)


def test_a_wrong_structure_of_a_dict_and_of_a_dataclass(tmp_path, monkeypatch):
    (tmp_path / "acmeout.py").write_text(
        "import dataclasses\n"
        "@dataclasses.dataclass\n"
        "class Out:\n    a: object\n    b: object\n"
        "def both(x):\n    return {'a': x + 1, 'b': [x * 2]}\n"
        "def made(x):\n    return Out(x + 1, x * 2)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import acmeout

    right = converter("acmeout.both")(lambda op, x: {"a": op.Add(x, 1.0), "b": [op.Mul(x, 2.0)]})
    assert asked(Call(lambda m, x: acmeout.both(x)), torch.randn(2), right).proof.ok
    made = converter("acmeout.made")(lambda op, x: acmeout.Out(op.Add(x, 1.0), op.Mul(x, 2.0)))
    assert asked(Call(lambda m, x: acmeout.made(x).b), torch.randn(2), made).proof.ok
    for wrong in (lambda op, x: {"a": x}, lambda op, x: x, lambda op, x: {"a": x, "b": []}):
        with pytest.raises(hx.ConverterError, match=r"b'\]|result"):
            asked(
                Call(lambda m, x: acmeout.both(x)), torch.randn(2), converter("acmeout.both")(wrong)
            )
    with pytest.raises(hx.ConverterError):
        one = converter("acmeout.made")(lambda op, x: x)
        asked(Call(lambda m, x: acmeout.made(x).b), torch.randn(2), one)


def test_a_helper_of_the_converter_is_not_blamed_for_its_line():
    def helper(op, x):
        return op.Reluu(x)

    def convert(op, input, inplace=False):
        return helper(op, input)

    with pytest.raises(hx.BuilderError) as caught:
        asked(
            Call(lambda m, x: F.relu(x)),
            torch.randn(2),
            converter("torch.nn.functional.relu")(convert),
        )
    line = helper.__code__.co_firstlineno + 1
    assert "Reluu" in linecache.getline(__file__, line)
    assert f"{__file__}:{line}" in str(caught.value)


def test_an_operator_that_the_opset_lacks_is_unsupported_with_the_users_line(line_of):
    def forward(m, x):
        return F.relu(x)  # here

    mine = converter("torch.nn.functional.relu")(
        lambda op, input, inplace=False: op.AffineGrid(input, [1, 1, 2, 3])
    )
    with pytest.raises(hx.Unsupported, match="opset") as caught:
        asked(Call(forward), torch.randn(2, 3), mine, opset=13, verify=False)
    assert caught.value.where.line == line_of(forward, "# here")


def test_converters_that_run_the_model_and_find_its_error():
    """The model's own exception, raised under op.result, is not blamed on the converter."""

    def convert(op, input, weight, bias=None):
        assert op.result.rank == 2
        return op.MatMul(input, op.Transpose(weight, perm=[1, 0]))

    mine = converter("torch.nn.functional.linear")(convert)

    class Bad(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2, bias=False)

        def forward(self, x):
            return self.fc(x)

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        asked(Bad(), torch.randn(2, 3), mine)


def test_an_interrupt_in_a_converter_passes():
    def convert(op, input, inplace=False):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asked(
            Call(lambda m, x: F.relu(x)),
            torch.randn(2),
            converter("torch.nn.functional.relu")(convert),
        )
