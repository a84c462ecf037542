"""What `dynamic=` may say: the names of sizes, each of its forms, limits."""

from __future__ import annotations

import collections
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hx
from hx.errors import UsageError
from hx.ir import dynamic_axes


def shape_of(value):
    return [str(n) if not isinstance(n, int) else n for n in value.shape]


def test_the_graph_carries_the_names(proved):
    def f(x, y):
        return x @ y, torch.cat([x, x], 0), x[:, 1:], x.flatten()

    program = proved(
        f, (torch.randn(2, 3, 4), torch.randn(2, 4, 5)),
        dynamic={"x": {0: "batch", 1: "rows"}, "y": {0: "batch", 2: "columns"}},
        sizes=[{"batch": 3, "rows": 1, "columns": 7}],
    )  # fmt: skip
    told = {v["name"]: v["shape"] for v in program.report.inputs + program.report.outputs}
    assert told == {
        "x": ["batch", "rows", 4], "y": ["batch", 4, "columns"],
        "output_0": ["batch", "rows", "columns"], "output_1": ["2*batch", "rows", 4],
        "output_2": ["batch", "max(0, rows - 1)", 4], "output_3": ["4*batch*rows"],
    }  # fmt: skip


@pytest.mark.parametrize(
    "turned",
    [
        lambda x: x.flip(2), lambda x: x.flip((2, 3)), lambda x: x.roll(1, 2),
        lambda x: torch.fft.fftshift(x, 3), lambda x: x.rot90(2, (2, 3)),
        lambda x: F.fold(F.unfold(x, 2, stride=1), x.shape[2:], 2, stride=1),
    ],
)  # fmt: skip
def test_what_is_only_turned_keeps_the_names_of_its_sizes(turned, proved):
    dynamic = {"x": {0: "b", 2: "h", 3: "w"}}
    sizes = [{"b": 3, "h": 4, "w": 2}, {"b": 1, "h": 7, "w": 9}]
    program = proved(lambda x: turned(x) * 2, torch.randn(2, 3, 5, 6), dynamic, sizes)
    assert program.report.outputs[0]["shape"] == ["b", 3, "h", "w"]


def test_one_name_is_one_size(proved):
    def f(q, k):
        b, n = q.shape[0], k.shape[1]
        return (q @ k.transpose(1, 2)).view(b, -1, n) + q.new_zeros(k.shape[0], 1, 1)

    proved(
        f, (torch.randn(2, 3, 4), torch.randn(2, 5, 4)),
        dynamic={"q": {0: "b", 1: "i"}, "k": {0: "b", 1: "j"}},
        sizes=[{"b": 1, "i": 1, "j": 1}, {"b": 4, "i": 7, "j": 2}],
    )  # fmt: skip


def test_equal_sizes_of_two_names_are_not_the_same_size(proved):
    """Both are 3 in the recording, and that is chance."""

    def f(x, y):
        return x.sum(0)[:, None] * y.sum(0)[None], x.new_zeros(y.shape[1], x.shape[1])

    proved(
        f, (torch.randn(2, 3), torch.randn(2, 3)), dynamic={"x": {1: "n"}, "y": {1: "m"}},
        sizes=[{"n": 5, "m": 1}, {"n": 1, "m": 4}],
    )  # fmt: skip


def test_sizes_inside_containers(proved):
    def f(batch, *, extra):
        return batch["ids"].float().view(-1) * len(batch["ids"]), extra[0].sum(1) / extra[0].shape[
            1
        ]

    program = proved(
        f, ({"ids": torch.randint(0, 9, (2, 3))},), kwargs={"extra": [torch.randn(2, 4)]},
        dynamic={"batch_ids": {0: "b", 1: "s"}, "extra_0": [1]}, sizes=[{"b": 3, "s": 1}],
    )  # fmt: skip
    assert [shape_of(v) for v in program.model.graph.inputs] == [["b", "s"], [2, "extra_0_1"]]


@pytest.mark.parametrize(
    "dynamic, shape",
    [
        ({"x": {0: "batch", 2: "width"}}, ["batch", 3, "width"]),
        ({"x": [0, 2]}, ["x_0", 3, "x_2"]),
        ({"x": (0,)}, ["x_0", 3, 4]),
        ({"x": {-1: "width"}}, [2, 3, "width"]),
        ({"x": {0: None, 1: True}}, ["x_0", "x_1", 4]),
        ({"x": "batch"}, ["batch", 3, 4]),
        ({"x": 1}, [2, "x_1", 4]),
        ({"x": {}}, [2, 3, 4]),
        (None, [2, 3, 4]),
        ({"x": {0: torch.export.Dim("many"), 1: torch.export.Dim.AUTO}}, ["many", "x_1", 4]),
        ({"x": [torch.export.Dim("many"), None, torch.export.Dim.DYNAMIC]}, ["many", 3, "x_2"]),
        ({"x": {0: torch.export.Dim.STATIC, 1: "n"}}, [2, "n", 4]),
        ({"x": {0: torch.export.Dim("many"), 1: None, 2: 4}}, ["many", 3, 4]),
        (({0: "b"},), ["b", 3, 4]),
        ([{0: "b"}], ["b", 3, 4]),
    ],
    ids=str,
)
def test_every_form_of_dynamic(proved, dynamic, shape):
    program = proved(lambda x: x.flatten() * x.shape[0], torch.randn(2, 3, 4), dynamic=dynamic)
    (made,) = program.model.graph.inputs
    assert shape_of(made) == shape


def test_names_that_want_to_be_one_are_told():
    """PyTorch takes other numbers of keys than of values, and computes something then."""

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v)

    inputs = tuple(torch.randn(1, 2, 8, 4) for _ in range(3))
    with pytest.raises(hx.VerificationError, match="want one name: t and u"):
        hx.export(attend, inputs, dynamic={"q": {2: "s"}, "k": {2: "t"}, "v": {2: "u"}})
    assert hx.export(attend, inputs, dynamic={"q": {2: "s"}, "k": {2: "t"}, "v": {2: "t"}}).proof.ok


def test_an_argument_that_is_no_tensor_may_be_said_to_be_static(proved):
    dynamic = {"x": {0: torch.export.Dim("b", min=1)}, "n": torch.export.Dim.STATIC}
    proved(lambda x, n: x * n, (torch.randn(2, 3), 5), dynamic=dynamic, sizes=[{"b": 4}])


def test_dynamic_nested_as_the_arguments_are(proved):
    def f(batch, pair):
        return batch["ids"].float().sum(1) + pair[1].sum(0), pair[0] * pair[0].shape[0]

    program = proved(
        f, ({"ids": torch.randint(0, 9, (2, 3))}, [torch.randn(3), torch.randn(4, 2)]),
        dynamic={"batch": {"ids": {1: "s"}}, "pair": [None, {0: "n"}]}, sizes=[{"s": 1, "n": 9}],
    )  # fmt: skip
    assert [shape_of(v) for v in program.model.graph.inputs] == [[2, "s"], [3], ["n", 2]]


@pytest.mark.parametrize(
    "dynamic, message",
    [
        ({"y": {0: "b"}}, "names 'y', which is neither an input nor an output"),
        ({"outptu": {0: "b"}}, "did you mean 'output'"),
        ({"output": {3: "b"}}, "axis 3 of output, which has 3 axes"),
        ({"xs": {0: "b"}}, "did you mean 'x'"),
        ({"x": {3: "b"}}, "axis 3 of x, which has 3 axes"),
        ({"x": {"batch": 0}}, "axis 'batch'"),
        ({"x": {0: "2b"}}, "cannot be the name of a size"),
        ({"x": {0: "b", 1: "b"}}, "'b' is 2 in x and 3 in x"),
        ({"x": 1.5}, "cannot be 1.5"),
        ({"x": {0: "b", -3: "c"}}, "names axis 0 of x twice"),
        ([None, {0: "b"}], "describes 2 inputs, and there are 1: x"),
        ("batch", "dynamic= cannot be 'batch'"),
    ],
    ids=str,
)
def test_what_dynamic_cannot_be(dynamic, message):
    with pytest.raises(hx.UsageError) as caught:
        hx.export(lambda x: x * 2, torch.randn(2, 3, 4), dynamic=dynamic)
    assert message in str(caught.value)


def test_half_a_name_is_that_of_no_list():
    with pytest.raises(hx.UsageError, match="names 'x', which") as caught:
        hx.export(lambda x_in: x_in * 2, torch.randn(2, 3), dynamic={"x": {0: "b"}})
    assert "did you mean 'x_in'?" in str(caught.value)


def test_outputs_are_named_as_torch_onnx_names_them():
    """Their sizes follow from the inputs'; what does not vary is told."""
    said = {"x": {0: "batch"}, "y": {0: "batch", 1: "features"}}
    names = {"input_names": ["x"], "output_names": ["y"]}
    program = hx.export(nn.Linear(3, 4), torch.randn(2, 3), **names, dynamic=said)
    (output,) = program.report.outputs
    assert output["shape"] == ["batch", 4]
    (told,) = program.report.notes
    assert "axis 1 of the output y, which is 4 whatever" in told
    with pytest.raises(UsageError, match="'z', which is neither an input nor an output"):
        hx.export(nn.Linear(3, 4), torch.randn(2, 3), **names, dynamic={"z": [0]})
    with pytest.raises(UsageError, match="'z', which is neither an input nor an output"):
        hx.scan(nn.Linear(3, 4), torch.randn(2, 3), dynamic={"z": [0]})


# Sizes that never come.


class Thirds(nn.Module):
    """Gives fewer rows where there are not enough for three."""

    def forward(self, x):
        return torch.stack([part.mean(1) for part in x.chunk(3, 1)], 1)


@pytest.mark.parametrize(
    "said", ["s>=5", "s >= 5 <= 40", torch.export.Dim("s", min=5, max=40)], ids=str
)
def test_a_model_is_proved_within_the_limits_of_its_sizes(said):
    program = hx.export(Thirds(), torch.randn(2, 6, 8), None, dynamic={"x": {0: "b", 1: said}})
    assert "s=5" in [case.name for case in program.proof.cases]
    assert any("5 <= s" in note and "no other size" in note for note in program.report.notes)
    for n in (5, 7, 30):
        x = torch.randn(3, n, 8)
        torch.testing.assert_close(program.run(x), Thirds()(x))


@pytest.mark.parametrize(
    ("said", "ask"),
    [
        ("n>=5", lambda n: n > 4),
        ("n<=64", lambda n: n > 64),
        ("n>=2", lambda n: n == 1),
        ("n%4>=8", lambda n: n // 4 >= 2),
        ("n>=2<=8", lambda n: n * 3 <= 24),
        ("n>=4", lambda n: n - 4 < 0),
        (torch.export.Dim("n", min=3, max=9), lambda n: 2 < n < 10),
    ],
    ids=lambda given: None if callable(given) else str(given),
)
def test_what_limits_answer_is_no_branch(said, ask):
    def f(x):
        return x * 2 if ask(x.shape[0]) else x

    assert hx.export(f, torch.randn(8, 3), dynamic={"x": {0: said}}, strict=True).proof.ok


def test_what_limits_do_not_answer_is_a_branch():
    for said, least in (("n>=5", 5), ("n<=64", 63)):
        report = hx.scan(
            lambda x, n=least: x * 2 if x.shape[0] > n else x,
            torch.randn(8, 3), dynamic={"x": {0: said}},
        )  # fmt: skip
        assert [escape.kind for escape in report.escapes] == ["branch"]


def test_without_limits_every_size_counts_and_those_that_are_right_are_promised():
    program = hx.export(Thirds(), torch.randn(2, 6, 8), None, dynamic={"x": {1: "s"}})
    assert program.report.promised == {"s": "s>=5"}  # wrong at 4, too
    assert hx.export(Thirds(), torch.randn(2, 6, 8), None, dynamic={"x": {1: "s>=5"}}).proof.ok


def test_a_size_outside_of_its_limits_is_a_mistake():
    with pytest.raises(UsageError, match="s is 6 in x, outside of its limits: 7 <= s <= 9"):
        hx.export(Thirds(), torch.randn(2, 6, 8), None, dynamic={"x": {1: "s>=7<=9"}})


# Sizes that are multiples.

Dim = torch.export.Dim


class UNet(nn.Module):
    """Down and up again; what is odd on the way is padded."""

    def __init__(self):
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1)

    def forward(self, x):
        if x.shape[2] % 4 != 0 or x.shape[3] & 3:
            x = F.pad(x, (0, -x.shape[3] % 4, 0, -x.shape[2] % 4)) * 0.5
        a = self.first(x)
        b = F.interpolate(self.down(a), scale_factor=2.0)
        if b.shape[2:] != a.shape[2:]:
            b = b[:, :, : a.shape[2], : a.shape[3]]
        a = F.interpolate(torch.cat([a, b], 1), scale_factor=2, mode="bilinear")
        return torch.cat([x, a], 1), F.max_pool2d(x, 2).flatten(2) * (x.shape[3] / 4)


@pytest.mark.parametrize(
    "h, w",
    [
        ("h%4", "w%8"),
        ("h % 4 >= 8", "w%8<=64"),
        ("h>=8<=32%4", "w<=64%8"),
        ("4*h", "8 * w"),
        (4 * Dim("h"), 8 * Dim("w", min=1, max=8)),
        (2 * (2 * Dim("h")), "w%4%8"),
    ],
    ids=str,
)
def test_a_size_may_be_a_multiple_and_what_asks_for_that_is_no_branch(proved, h, w):
    program = proved(
        UNet(), torch.randn(2, 3, 16, 24), {"x": {0: "b", 2: h, 3: w}},
        sizes=[{"b": 1, "h": 12, "w": 64}, {"b": 3, "h": 28, "w": 8}],
    )  # fmt: skip
    assert not program.report.escapes
    assert [shape_of(v) for v in program.model.graph.inputs] == [["b", 3, "h", "w"]]
    whole, halves = map(shape_of, program.model.graph.outputs)
    assert whole == ["b", 11, "h", "w"] and halves == ["b", 3, "(w//4)*h"]
    cases = program._subject.cases
    tried = {tuple(case.feeds["x"].shape[2:]) for case in cases} - {(16, 24)}
    assert all(h % 4 == 0 and w % 8 == 0 for h, w in tried)
    assert len({h for h, _ in tried}) > 1 and len({w for _, w in tried}) > 1
    assert any("w" in n and "a multiple of 8" in n for n in program.report.notes)


def test_sizes_stay_between_limits_that_are_no_multiples_themselves():
    program = hx.export(UNet(), torch.randn(1, 3, 8, 16), None, dynamic={"x": {2: "h%4>=6<=14"}})
    tried = {case.feeds["x"].shape[2] for case in program._subject.cases}
    assert tried == {8, 12} and not program.report.escapes
    assert "6 <= h <= 14, a multiple of 4: no other size was tried" in program.report.notes


def test_only_what_follows_from_the_multiple_is_known():
    """Of a multiple of 4 nobody knows whether 8 divides it, nor whether it is 4."""

    def f(x):
        n = x.shape[1]
        known = [n % 2 == 0, n & 1, n != 6, n // 2 * 2 == n, (n + 3) % 4, (n - 1) // 4 + 1 == n / 4]
        known += [math.ceil(n / 2) == n / 2, (n / 4).is_integer(), int(n * 0.25) * 4 == n]
        return x * sum(known) if n % 8 != 4 else x.sum()

    program = hx.export(f, torch.randn(2, 8), None, dynamic={"x": {1: "n%4>=8"}}, verify=False)
    assert [each.detail for each in program.report.escapes] == ["(n%8) != 4"]
    with pytest.raises(hx.VerificationError, match=r"n%8 in place of n"):
        hx.export(f, torch.randn(2, 8), None, dynamic={"x": {1: "n%4>=8"}})
    assert not hx.export(f, torch.randn(2, 8), None, dynamic={"x": {1: "n%8"}}).report.escapes


def test_without_the_multiple_the_error_says_how_to_give_it():
    """The number that the model asks for, where it does."""

    class Multiples(UNet):
        def forward(self, x):
            return x.sum() if x.shape[2] % 4 or x.shape[3] % 4 else super().forward(x)

    sizes = {"x": {0: "b", 2: "h", 3: "w"}}
    with pytest.raises(hx.VerificationError, match=r"h%4 in place of h, w%4 in place of w"):
        hx.export(Multiples(), torch.randn(2, 3, 16, 24), None, dynamic=sizes)
    assert hx.export(UNet(), torch.randn(2, 3, 16, 24), None, dynamic=sizes).proof.ok


@pytest.mark.parametrize(
    "said, message",
    [
        ("s%4", "s is 6 in x, outside of its limits: s is a multiple of 4"),
        (4 * Dim("s"), "s is 6 in x, outside of its limits: s is a multiple of 4"),
        ("s%3>=7", "s is 6 in x, outside of its limits: 7 <= s, a multiple of 3"),
        ("s%0", "'s%0' cannot be the name of a size"),
        ("s%", "'s%' cannot be the name of a size"),
        ("1<=s<=8", "write its limits after it: batch>=1<=8"),
        ("8*s + 1", "axis 1 of x is 8*s + 1, and no axis is s"),
        ("0*s", "axis 1 of x is 0*s, and no axis is s"),
    ],
    ids=str,
)
def test_what_is_no_such_multiple_is_a_mistake(said, message):
    with pytest.raises(UsageError) as caught:
        hx.export(Thirds(), torch.randn(2, 6, 8), None, dynamic={"x": {1: said}})
    assert message in str(caught.value)


def test_a_multiple_of_an_axis_is_tied_to_it(proved):
    """As an image is to the latent that it is made from: no other sizes come."""

    def decode(latent, image):
        up = F.interpolate(latent, scale_factor=8.0)
        return up + image if up.shape == image.shape else up

    h = Dim("h", min=2)
    said = {"latent": {2: h, 3: "w"}, "image": {2: 8 * h, 3: "8*w"}}
    program = proved(decode, (torch.randn(1, 2, 4, 5), torch.randn(1, 2, 32, 40)), said)
    assert not program.report.escapes
    assert shape_of(program.model.graph.inputs[1]) == [1, 2, "8*h", "8*w"]
    latent, image = torch.randn(1, 2, 3, 7), torch.randn(1, 2, 24, 56)
    torch.testing.assert_close(program.run(latent, image), decode(latent, image))
    with pytest.raises(UsageError, match=r"image is 8\*h = 32, and it is 31"):
        hx.export(decode, (torch.randn(1, 2, 4, 5), torch.randn(1, 2, 31, 40)), None, dynamic=said)


def test_two_multiples_of_a_size_that_no_axis_has_are_refused():
    with pytest.raises(UsageError, match=r"axis 2 of x is 8\*h, and no axis is h"):
        hx.export(UNet(), torch.randn(1, 3, 16, 32), None, dynamic={"x": {2: "8*h", 3: "16*h"}})


def test_what_is_said_of_one_size_in_several_places_all_holds():
    inputs = {"x": torch.ones(24, 2), "y": torch.ones(24), "z": torch.ones(24)}
    found = dynamic_axes.axes({"x": {0: "n%4"}, "y": {0: "n%6>=5"}, "z": {0: "n<=50"}}, inputs)
    assert found == {name: {0: "n"} for name in inputs}
    assert found.limits["n"].in_words("n") == "5 <= n <= 50, a multiple of 12"
    assert dynamic_axes.axes(found, inputs).limits == found.limits


@pytest.mark.parametrize(
    "dynamic",
    [
        ({0: "x"}, [{0: "a"}, {0: "b"}]),
        [{0: "x"}, ({0: "a"}, {0: torch.export.Dim("b")})],
        {"x": {0: "x"}, "parts": [{0: "a"}, {0: "b"}]},
    ],
)
def test_what_is_said_by_position_is_nested_as_the_arguments_are(dynamic):
    class Several(torch.nn.Module):
        def forward(self, x, parts):
            return x * 2, [part + 1 for part in parts]

    parts = [torch.randn(3, 4), torch.randn(5, 4)]
    program = hx.export(Several(), (torch.randn(2, 3), parts), dynamic=dynamic)
    assert [str(each.shape[0]) for each in program.model.graph.inputs] == ["x", "a", "b"]


class WithOptions(torch.nn.Module):
    def forward(self, x, flag=None, by=2, *, z=None):
        return x * by if z is None else x * by + z


Point = collections.namedtuple("Point", "x y")
B = torch.export.Dim("b")


def collected(x):
    shapes = torch.export.ShapesCollection()
    shapes[x] = {0: B}
    return shapes


@pytest.mark.parametrize(
    "dynamic",
    [
        {"x": {0: B}, "flag": None, "by": None},
        ({0: B}, None, None),
        ((B, None), None, None),
        collected,
    ],
    ids=["by name", "by place", "axis by axis", "a collection"],
)
def test_torch_exports_shapes_of_arguments_that_are_no_tensors(dynamic):
    x = torch.randn(3, 4)
    said = dynamic(x) if callable(dynamic) else dynamic
    program = hx.export(WithOptions(), (x, None, 3), dynamic=said)
    assert [str(n) for n in program.model.graph.inputs[0].shape] == ["b", "4"]


@pytest.mark.parametrize(
    "dynamic", [{"p": Point({0: B}, {0: B})}, {"p": [{0: B}, {0: B}]}, (Point({0: B}, {0: B}),)]
)
def test_shapes_of_a_named_tuple(dynamic):
    class Added(torch.nn.Module):
        def forward(self, p):
            return p.x + p.y

    x = torch.randn(3, 4)
    program = hx.export(Added(), (Point(x, x),), dynamic=dynamic)
    assert [str(each.shape[0]) for each in program.model.graph.inputs] == ["b", "b"]


def test_sizes_are_told_as_one_writes_them():
    def model(x):
        h = x.shape[1]
        sizes = (
            math.ceil(h / 2),
            round((h + 1) * 0.5) + 1,
            (((h - 1) // 4) // 2) // 2 + 1,
            1 - (-h // 3),
            math.floor((h + 1) / (h + 0.5)),
            (-h * 1.5) ** 2 // 1 + 1,
        )
        return tuple(torch.zeros(int(n)) + x.sum() for n in sizes)

    program = hx.export(model, torch.rand(1, 40), dynamic={"x": {1: "h"}})
    told = [output["shape"][0] for output in program.report.outputs]
    assert told == [
        "ceil(h/2.0)",
        "round((h + 1)*0.5) + 1",
        "((((h - 1)//4)//2)//2) + 1",
        "-((-h)//3) + 1",
        "floor((h + 1)/(h + 0.5))",
        "floor((((-h)*1.5)**2.0)/1.0) + 1",
    ]
    for h in (7, 12, 41):
        for out, want in zip(program.run(torch.rand(1, h)), model(torch.rand(1, h))):
            assert out.shape == want.shape
