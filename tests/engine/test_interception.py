"""Every way of naming and of reaching a callable: the converter that is meant is the one asked."""

from __future__ import annotations

import functools
import importlib
import sys
import textwrap

import pytest
import torch
import torch.nn.functional as F
from called import Call, asked
from torch import nn
from torch.nn.functional import relu as imported_relu

import hx
from hx import converter


def speaks(target, body, **options):
    """A converter that writes down each time it is asked."""

    def convert(op, *args, **kwargs):
        convert.calls += 1
        return body(op, *args, **kwargs)

    convert.calls = 0
    return converter(target, **options)(convert)


# Names of torch.


def relu_by_max(op, x, *rest, **names):
    return op.Max(x, 0.0)


@pytest.mark.parametrize(
    "target", ["torch.relu", "torch.Tensor.relu", "torch.ops.aten.relu", "aten::relu"]
)
@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: torch.relu(x),
        lambda m, x: x.relu(),
        lambda m, x: torch.ops.aten.relu(x),
        lambda m, x: torch.ops.aten.relu.default(x),
        lambda m, x: F.relu(x),
        lambda m, x: imported_relu(x),
        lambda m, x: nn.ReLU()(x),
        lambda m, x: (x * 1).relu_(),
        lambda m, x: F.relu(x * 1, inplace=True),
        lambda m, x: functools.partial(F.relu, inplace=False)(x),
    ],
)
def test_an_operator_by_each_of_its_names(target, call):
    mine = speaks(target, relu_by_max)
    # Without the standard pack's own converter of F.relu, the calls inside are asked.
    registry = [mine, converter("torch.mul")(lambda op, x, y: op.Mul(x, y))]
    program = asked(Call(call), torch.randn(2, 3), *registry, alone=True)
    assert mine.calls == 1
    assert "Max" in program.ops and "Relu" not in program.ops


@pytest.mark.parametrize("target", ["torch.Tensor.__add__", "torch.add", "torch.Tensor.add",
                                    "torch.Tensor.__radd__", "aten::add"])  # fmt: skip
@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: 1 + x,
        lambda m, x: x + 1,
        lambda m, x: x.add(1),
        lambda m, x: torch.add(x, 1),
        lambda m, x: torch.add(input=x, other=1),
        lambda m, x: torch.ops.aten.add(x, 1),
        lambda m, x: torch.ops.aten.add.Scalar(x, 1),
        lambda m, x: sum([x]) + 0,
        lambda m, x: sum((1, x)),
        lambda m, x: torch.add(x, 1, out=torch.empty(2, 3)),
    ],
)
def test_addition_by_each_of_its_spellings(target, call):
    mine = speaks(
        target, lambda op, input, other, alpha=1: op.Sum(input, op.cast(other, input.dtype))
    )
    asked(Call(call), torch.randn(2, 3), mine, alone=True)
    assert mine.calls >= 1


@pytest.mark.parametrize("target", ["torch.nn.Conv2d", "torch.nn.Conv2d.forward",
                                    "torch.nn.modules.conv.Conv2d"])  # fmt: skip
def test_a_module_by_its_class_or_its_forward(target):
    def conv(op, self, input):
        return op.Conv(input, self.weight, self.bias)

    mine = speaks(target, conv)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Conv2d(2, 1, 3))
    program = asked(model, torch.randn(1, 1, 5, 5), mine, alone=True)
    assert mine.calls == 2
    assert program.ops == ["Conv", "Conv"]
    assert program.report.converters == {target: 2}


def test_a_property_and_a_subscript():
    mine = [
        speaks("torch.Tensor.T.__get__", lambda op, self: op.Transpose(self, perm=[1, 0])),
        speaks("torch.Tensor.__getitem__", lambda op, self, index: op.Gather(self, index, axis=0)),
    ]
    program = asked(Call(lambda m, x: x.T[1]), torch.randn(2, 3), *mine, alone=True)
    assert program.ops == ["Transpose", "Gather"]


def test_names_of_one_operator_by_several_converters():
    """Who wins does not hang on which of the names stands first: what was added by hand does."""
    mine = speaks("torch.Tensor.__mul__", lambda op, x, y: op.Sum(x, x))
    program = asked(Call(lambda m, x: x * 2), torch.randn(2, 3), mine)
    assert mine.calls == 1 and "Sum" in program.ops

    one = speaks("torch.mul", lambda op, x, y: op.Sum(x, x))
    two = speaks("torch.Tensor.mul", lambda op, x, y: op.Add(x, x))
    with pytest.raises(hx.PackError, match="converted 2 times"):
        asked(Call(lambda m, x: x * 2), torch.randn(2, 3), one, two)
    one = speaks("torch.mul", lambda op, x, y: op.Sum(x, x), priority=1)
    assert "Sum" in asked(Call(lambda m, x: x * 2), torch.randn(2, 3), two, one).ops


# Operators of torch.library.


@pytest.fixture(scope="module")
def library():
    made = torch.library.Library("hxtest", "DEF")
    made.define("twice(Tensor x, int k=2) -> Tensor")
    made.impl("twice", lambda x, k=2: x * k, "CompositeExplicitAutograd")

    @torch.library.custom_op("hxtest::thrice", mutates_args=())
    def thrice(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    yield thrice
    made._destroy()


@pytest.mark.parametrize(
    "target",
    [
        "hxtest::twice",
        "hxtest::twice.default",
        "torch.ops.hxtest.twice",
        "torch.ops.hxtest.twice.default",
    ],
)
def test_an_operator_of_a_library(library, target):
    mine = speaks(target, lambda op, x, k=2: op.Mul(x, float(k)))
    program = asked(Call(lambda m, x: torch.ops.hxtest.twice(x, 4)), torch.randn(3), mine)
    assert mine.calls == 1 and program.ops == ["Mul"]
    program = asked(Call(lambda m, x: torch.ops.hxtest.twice.default(x)), torch.randn(3), mine)
    assert mine.calls == 2


@pytest.mark.parametrize("target", ["hxtest::thrice", "torch.ops.hxtest.thrice"])
def test_a_custom_op_of_python(library, target):
    mine = speaks(target, lambda op, x: op.Mul(x, 3.0))
    for call in (lambda m, x: library(x), lambda m, x: torch.ops.hxtest.thrice(x)):
        program = asked(Call(call), torch.randn(3), mine)
        assert program.ops == ["Mul"]
        assert program.report.converters == {target: 1}
    assert mine.calls == 2


def test_an_operator_of_python_without_a_converter_is_opened(library):
    def forward(m, x):
        return torch.ops.hxtest.twice(x) + library(x)

    program = asked(Call(forward), torch.randn(3))
    assert program.ops == ["Mul", "Mul", "Add"]
    assert not program.report.escapes


def test_sizes_stay_sizes_within_an_operator_of_python():
    @torch.library.custom_op("hxtest::flattened", mutates_args=())
    def flattened(x: torch.Tensor) -> torch.Tensor:
        return F.relu(x).reshape(x.shape[0] * 2, -1)

    program = hx.export(lambda x: flattened(x) + 1, torch.randn(3, 4), dynamic={"x": {0: "n"}})
    assert not program.report.escapes
    x = torch.randn(5, 4)
    torch.testing.assert_close(program.run(x), flattened(x) + 1)


def test_sizes_stay_sizes_within_an_operator_that_is_composed_in_python():
    def rows(x, k):
        return F.relu(x).view(x.shape[0] * k, -1).amax(1)

    made = torch.library.Library("hxcomposed", "DEF")
    made.define("rows(Tensor x, int k) -> Tensor")
    made.impl("rows", rows, "CompositeImplicitAutograd")
    for operator in (torch.ops.hxcomposed.rows, torch.ops.hxcomposed.rows.default):
        program = hx.export(
            lambda x, call=operator: call(x, 2) + call(x, 1).sum(), torch.randn(3, 4),
            dynamic={"x": {0: "n"}},
        )  # fmt: skip
        assert program.proof.ok and not program.report.escapes
        x = torch.randn(5, 4)
        torch.testing.assert_close(program.run(x), rows(x, 2) + rows(x, 1).sum())
    made._destroy()


def test_an_operator_of_python_that_writes_to_its_argument_is_missing():
    @torch.library.custom_op("hxtest::raised", mutates_args=("x",))
    def raised(x: torch.Tensor) -> None:
        x.add_(1)
        x[0] = 2

    def model(x):
        y = x * 1
        raised(y)
        return y

    with pytest.raises(hx.MissingConverters, match="hxtest::raised"):
        hx.export(model, torch.randn(3, 4))


def test_an_operator_whose_kernel_goes_through_numpy_is_missing_by_its_name():
    @torch.library.custom_op("hxtest::by_numpy", mutates_args=())
    def by_numpy(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy() * 2)

    with pytest.raises(hx.MissingConverters, match="hands memory to other code") as caught:
        hx.export(lambda x: by_numpy(x) + by_numpy(x * 3), torch.randn(3))
    (missing,) = caught.value.missing
    assert missing.target == "hxtest::by_numpy" and missing.count == 2


# Functions and methods of other packages.

ACME = {
    "__init__.py": "from .ops import swirl\nfrom .layers import Swirl, Wide, Narrow, Other\n",
    "ops.py": """
        import torch

        def swirl(x, k=1.0, *, shift=0.0):
            return torch.special.bessel_j0(x) * k + shift

        def _unwrapped(x):
            return torch.special.bessel_j1(x)

        class Kernel:
            def __init__(self, k):
                self.k = k

            def __call__(self, x):
                return torch.special.bessel_j0(x) * self.k

            def run(self, x):
                return torch.special.bessel_j0(x) * self.k

            @staticmethod
            def plain(x):
                return torch.special.bessel_j0(x)

            @classmethod
            def of_class(cls, x):
                return torch.special.bessel_j0(x)
        """,
    "layers.py": """
        import torch
        from torch import nn
        from .ops import swirl as renamed

        class Swirl(nn.Module):
            def __init__(self):
                super().__init__()
                self.act = renamed

            def forward(self, x):
                return self.act(x)

        class Wide(nn.Module):
            k = 2.0

            def forward(self, x):
                return torch.special.bessel_j0(x) * self.k

        class Narrow(Wide):
            k = 3.0

        class Narrower(Narrow):
            k = 4.0

        class Other(Wide):
            def forward(self, x):
                return super().forward(x) + 1
        """,
}


@pytest.fixture
def acme(tmp_path, monkeypatch):
    """A third-party package, none of whose calls anybody else converts."""
    folder = tmp_path / "site" / "acme"
    folder.mkdir(parents=True)
    for name, text in ACME.items():
        (folder / name).write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(str(folder.parent))
    importlib.invalidate_caches()
    yield importlib.import_module("acme")
    for name in [n for n in sys.modules if n.partition(".")[0] == "acme"]:
        del sys.modules[name]


def cosine(op, x, k=1.0, *, shift=0.0):
    """Not what it stands for, so that its traces are seen. Nothing here is verified."""
    return op.Add(op.Mul(op.Cos(x), float(k)), float(shift))


def in_closure(function):
    return lambda m, x: function(x)


@pytest.mark.parametrize("target", ["acme.swirl", "acme.ops.swirl"])
def test_a_function_of_another_package_wherever_it_is_kept(acme, target):
    from acme import swirl
    from acme.layers import renamed

    class Stored(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = swirl
            self.table = {"swirl": swirl}

        def forward(self, x):
            return self.one(self.table["swirl"](x))

    mine = speaks(target, cosine)
    models = [
        Call(lambda m, x: acme.swirl(x)),
        Call(lambda m, x: acme.ops.swirl(x, k=2.0)),
        Call(lambda m, x: renamed(x)),
        Call(lambda m, x: functools.partial(swirl, k=3.0)(x)),
        Call(lambda m, x: functools.partial(swirl, shift=1.0)(x, 2.0)),
        Call(in_closure(swirl)),
        Call(lambda m, x: next(map(swirl, [x]))),
        acme.Swirl(),
        Stored(),
        swirl,
        functools.partial(swirl, k=2.0),
    ]
    for n, model in enumerate(models):
        mine.calls = 0
        program = asked(model, torch.randn(2, 3), mine, verify=False)
        assert mine.calls == (2 if isinstance(model, Stored) else 1), n
        assert program.report.converters.keys() == {target}
        assert program.ops.count("Cos") == mine.calls


def test_methods_of_another_package(acme):
    kernel = acme.ops.Kernel(2.0)
    calls = {
        "acme.ops.Kernel.run": (
            lambda m, x: kernel.run(x),
            lambda op, self, x: op.Mul(op.Cos(x), self.k),
        ),
        "acme.ops.Kernel.__call__": (
            lambda m, x: kernel(x),
            lambda op, self, x: op.Mul(op.Cos(x), self.k),
        ),
        "acme.ops.Kernel.plain": (lambda m, x: kernel.plain(x), lambda op, x: op.Cos(x)),
        "acme.ops.Kernel.of_class": (lambda m, x: kernel.of_class(x), lambda op, cls, x: op.Cos(x)),
    }
    for target, (call, body) in calls.items():
        mine = speaks(target, body)
        program = asked(Call(call), torch.randn(2, 3), mine, verify=False)
        assert mine.calls == 1, target
        assert "Cos" in program.ops
    bound = kernel.run
    mine = speaks("acme.ops.Kernel.run", calls["acme.ops.Kernel.run"][1])
    asked(Call(lambda m, x: bound(x)), torch.randn(2, 3), mine, verify=False)
    asked(bound, torch.randn(2, 3), mine, verify=False)
    assert mine.calls == 2


def test_an_inherited_forward_and_its_heirs(acme, lacking):
    """One function is the forward of three classes: each class gets the converter nearest to it."""
    wide = speaks("acme.layers.Wide", lambda op, self, x: op.Cos(x))
    narrow = speaks("acme.layers.Narrow.forward", lambda op, self, x: op.Sin(x))

    def ops(cls, *converters):
        return asked(cls(), torch.randn(2), *converters, verify=False).ops

    assert ops(acme.Wide, wide, narrow) == ops(acme.Wide, narrow, wide) == ["Cos"]
    assert ops(acme.Narrow, wide, narrow) == ops(acme.Narrow, narrow, wide) == ["Sin"]
    assert ops(acme.layers.Narrower, wide, narrow) == ["Sin"]
    assert ops(acme.Other, wide, narrow) == ["Cos", "Add"]  # through super().forward
    assert ops(acme.Narrow, wide) == ["Cos"]
    with pytest.raises(hx.MissingConverters):  # one of Narrow says nothing of Wide
        poor = lacking("bessel_j0", "special_bessel_j0", "bessel_j1", "special_bessel_j1")
        asked(acme.Wide(), torch.randn(2), narrow, registry=poor)
    # A class that says no asks the one that it comes from.
    narrow = speaks("acme.layers.Narrow.forward", lambda op, self, x: NotImplemented)
    assert ops(acme.Narrow, narrow, wide) == ["Cos"]


class Deeper(nn.Conv2d):
    pass


class Padded(nn.Conv2d):
    def forward(self, x):
        return super().forward(F.pad(x, (1, 1, 1, 1)))


def test_subclasses_of_a_module():
    mine = speaks("torch.nn.Conv2d", lambda op, self, x: op.Conv(x, self.weight, self.bias))
    x = torch.randn(1, 1, 5, 5)
    assert asked(Deeper(1, 2, 3), x, mine, alone=True).ops == ["Conv"]
    assert asked(Padded(1, 2, 3), x, mine).ops == ["Pad", "Conv"]
    assert mine.calls == 2


# Who is asked first.


class Doubled(nn.Module):
    def forward(self, x):
        return F.relu(x) * 2


def test_the_outermost_wins_and_may_decline():
    outer = speaks(f"{__name__}.Doubled", lambda op, self, x: op.Mul(op.Max(x, 0.0), 2.0))
    sys.modules.setdefault(__name__, sys.modules[Doubled.__module__])
    program = asked(Doubled(), torch.randn(2, 3), outer)
    assert program.ops == ["Max", "Mul"]

    def no(op, self, x):
        return NotImplemented

    outer = speaks(f"{__name__}.Doubled", no)
    middle = speaks("torch.nn.functional.relu", lambda op, input, inplace=False: NotImplemented)
    inner = speaks("torch.relu", relu_by_max)
    program = asked(Doubled(), torch.randn(2, 3), outer, middle, inner)
    assert (outer.calls, middle.calls, inner.calls) == (1, 1, 1)
    assert program.ops == ["Max", "Mul"]
    assert program.report.declined == {f"{__name__}.Doubled": 1, "torch.nn.functional.relu": 1}


def test_nodes_of_a_converter_that_declines_in_the_end_are_gone():
    def half(op, input, inplace=False):
        op.Exp(input)
        return NotImplemented

    program = asked(Doubled(), torch.randn(2, 3), speaks("torch.nn.functional.relu", half))
    assert program.ops == ["Relu", "Mul"]


def test_a_converter_that_declines_with_the_result_in_hand():
    def late(op, x):
        assert op.result.shape == (2, 3)
        return NotImplemented

    mine = speaks("torch.relu", late)
    with pytest.raises(hx.MissingConverters, match=r"torch\.relu|relu"):
        asked(Call(lambda m, x: torch.relu(x)), torch.randn(2, 3), mine, alone=True)


# Modules of unusual kinds.


def test_forwards_of_instances():
    x = torch.randn(2, 3)
    model = nn.Sequential(nn.ReLU(), nn.Tanh())
    model[0].forward = lambda x: torch.sigmoid(x)
    model[1].forward = functools.partial(lambda k, x: x * k, 3.0)
    assert asked(model, x).ops == ["Sigmoid", "Mul"]

    def doubled(self, x):
        return type(self).forward(self, x) * 2

    model = nn.Linear(3, 4)
    model.forward = doubled.__get__(model)
    assert asked(model, x).ops in (["Gemm", "Mul"], ["MatMul", "Add", "Mul"])


def test_modules_in_containers_that_are_called_by_hand():
    class Routes(nn.Module):
        def __init__(self):
            super().__init__()
            self.routes = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
            self.plain = [nn.Sigmoid()]  # not registered

        def forward(self, x):
            for route in self.routes.values():
                x = route(x)
            return self.plain[0].forward(x)

    assert asked(Routes(), torch.randn(2, 3)).ops == ["Relu", "Tanh", "Sigmoid"]


def test_compiled_modules_run_as_they_were_written():
    class Model(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner
            self.tail = nn.Linear(3, 3)

        def forward(self, x):
            return self.tail(self.inner(x)) + helper(x)

    @torch.compile(backend="eager")
    def helper(x):
        return torch.tanh(x)

    x = torch.randn(2, 3)
    inner = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    plain = asked(Model(inner), x)
    nested = asked(Model(torch.compile(inner, backend="eager")), x)
    root = asked(torch.compile(Model(inner), backend="eager"), x)
    in_place = Model(inner)
    in_place.compile(backend="eager")
    placed = asked(in_place, x)
    assert plain.ops == nested.ops == root.ops == placed.ops
    assert set(root.model.graph.initializers) == set(plain.model.graph.initializers)
    assert "inner.0.weight" in plain.model.graph.initializers
    assert "inner._orig_mod.0.weight" in nested.model.graph.initializers  # as in its state_dict

    function = torch.compile(lambda x: torch.relu(x) + 1, backend="eager")
    assert asked(function, x).ops == ["Relu", "Add"]


def test_data_parallel():
    model = nn.DataParallel(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    program = asked(model, torch.randn(2, 3), dynamic={"inputs_0": {0: "b"}})
    assert program.ops[-1] == "Relu"
    assert "module.0.weight" in program.model.graph.initializers


# TorchScript.


@torch.jit.script
def scripted(x):
    return torch.relu(x) + 1


@pytest.mark.parametrize(
    "make", [torch.jit.script, lambda m: torch.jit.trace(m, torch.randn(2, 3))]
)
def test_a_scripted_module_wherever_it_is(make):
    x, dynamic = torch.randn(2, 3), {0: "b"}
    one = make(nn.Linear(3, 4).eval())
    program = asked(one, x, dynamic={"input": dynamic})
    assert program.ops == ["Gemm"] and {"weight", "bias"} <= program.model.graph.initializers.keys()
    assert asked(nn.Sequential(nn.ReLU(), one), x, dynamic={"input": dynamic}).ops == [
        "Relu",
        "Gemm",
    ]
    hidden = Call(lambda m, x: one(x) * x.shape[0])
    assert "Gemm" in asked(hidden, x, dynamic={"x": dynamic}).ops


class Scripted(nn.Module):
    """Loops, branches, lists, dicts and sizes, as TorchScript has them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.register_buffer("table", torch.randn(9, 4))
        self.scale = 2.5

    def forward(self, x, more: torch.Tensor | None = None):
        found: list[torch.Tensor] = []
        for layer in self.layers:
            x = F.gelu(layer(x))
            found.append(x)
        if more is not None:
            x = x + more
        held: dict[str, torch.Tensor] = {}
        held["all"] = torch.cat(found, 1)
        held["mean"] = x * self.scale / float(x.size(0))
        b, c = x.shape
        for i in range(1, c, 2):
            x = x + i
        places = torch.arange(b, dtype=x.dtype).unsqueeze(1).expand(b, c)
        return (
            held["all"], held["mean"], x.view(b * c // 2, 2), places, torch.zeros(b, 3),
            x.to(torch.float64), self.table[:b] + x[:, -1:], torch.tensor([b, c]),
        )  # fmt: skip


def test_what_torchscript_writes_keeps_its_sizes():
    program = asked(torch.jit.script(Scripted().eval()), torch.rand(2, 4), dynamic={"x": {0: "b"}})
    assert not program.report.escapes
    traced = torch.jit.trace(Scripted().eval(), torch.rand(2, 4))
    assert not asked(traced, torch.rand(2, 4), dynamic={"x": {0: "b"}}).report.escapes


def test_a_script_that_was_saved_or_frozen(tmp_path):
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.ConvTranspose2d(8, 4, 2, 2), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 5),
    ).eval()  # fmt: skip
    x, dynamic = torch.rand(2, 3, 8, 8), {"input": {0: "b", 2: "h"}}
    for made in (torch.jit.script(net), torch.jit.trace(net, x)):
        made.save(tmp_path / "net.pt")
        assert asked(torch.jit.load(tmp_path / "net.pt"), x, dynamic=dynamic).proof.ok
        assert asked(torch.jit.freeze(made), x, dynamic=dynamic).proof.ok


def test_a_branch_of_a_script_is_told_with_its_line(line_of):
    (escape,) = hx.scan(
        torch.jit.script(Choosing()), torch.randn(2, 3), dynamic={"x": {0: "b"}}
    ).escapes
    assert (escape.kind, escape.where.file) == ("branch", __file__)
    assert escape.where.line == line_of(Choosing.forward, "# here")


class Choosing(nn.Module):
    def forward(self, x):
        if x.shape[0] > 3:  # here
            x = x * 2
        return x


def test_what_hx_does_not_know_of_torchscript_is_named():
    class Waits(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return torch.jit.wait(torch.jit.fork(self.fc, x))

    with pytest.raises(hx.Unsupported, match=r"Waits is of TorchScript, and has prim::fork"):
        asked(torch.jit.script(Waits()), torch.randn(2, 3))


def test_a_scripted_function_runs_as_the_python_that_it_was_made_from():
    program = asked(Call(lambda m, x: scripted(x)), torch.randn(2, 3))
    assert program.ops == ["Relu", "Add"]
    assert asked(scripted, torch.randn(2, 3)).ops == ["Relu", "Add"]


@torch.jit._script_if_tracing
def scripted_if_traced(x):
    return scripted(x) * 2


def test_a_function_that_would_script_itself_runs_as_it_is():
    program = asked(Call(lambda m, x: scripted_if_traced(x)), torch.randn(2, 3))
    assert program.ops == ["Relu", "Add", "Mul"]


def test_a_traced_function_is_what_was_traced():
    def plain(x):
        return torch.relu(x) + x.shape[0] * 2

    traced = torch.jit.trace(plain, torch.randn(2, 3))
    program = asked(traced, torch.randn(2, 3), dynamic={"x": {0: "b"}})
    assert "Relu" in program.ops and not program.report.escapes
    assert "Relu" in asked(Call(lambda m, x: traced(x)), torch.randn(2, 3)).ops
