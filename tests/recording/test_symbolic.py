"""Custom autograd functions, and what was written for PyTorch's older exporter."""

from __future__ import annotations

import importlib
import sys
import textwrap
import warnings

import numpy
import pytest
import torch
from called import Plain, asked
from torch import nn

import hx
from hx import converter

ACME = """
    import torch
    from torch.autograd import Function

    class Plain(Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.k = k
            ctx.save_for_backward(x)
            return torch.relu(x) * k

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (x > 0) * ctx.k, None

    class Split(Function):
        @staticmethod
        def forward(x, k=2.0):
            return x * k, x + k

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.k = inputs[1]

    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

    class Write(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(3)
            return x

    class Heir(Plain):
        pass

    class Opaque(Function):
        @staticmethod
        def forward(ctx, x, alpha, name):
            return torch.special.bessel_j0(x) * alpha

        @staticmethod
        def symbolic(g, x, alpha, name):
            return g.op("acme::Bessel", x, alpha_f=alpha, order_i=0, name_s=name, axes_i=[0, 1],
                        scales_f=(1.0, 2.0), none_i=None)

    class Standard(Function):
        @staticmethod
        def forward(ctx, x):
            return torch.special.bessel_j0(x) * 0 + torch.relu(x) + 1, x.shape[0] * x

        @staticmethod
        def symbolic(g, x):
            assert x.type().sizes()[1:] == [3] and x.type().dim() == 2
            assert x.type().scalarType() == "Float"
            one = g.op("Constant", value_t=torch.tensor(1.0))
            zero = g.op("Constant", value_t=torch.tensor(0))
            n = g.op("Gather", g.op("Shape", x), zero, axis_i=0)
            n = g.op("Cast", n, to_i=1)
            y = g.op("Add", g.op("onnx::Relu", x), one).setType(x.type())
            return y, g.op("Mul", n, x)

    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return torch.special.bessel_j0(x)

        @staticmethod
        def symbolic(g, x):
            return g.op("acme::Wrong", x, alpha=1.0)
    """


@pytest.fixture(scope="module")
def acme(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    (folder / "acmefn.py").write_text(textwrap.dedent(ACME))
    sys.path.insert(0, str(folder))
    yield importlib.import_module("acmefn")
    sys.path.remove(str(folder))
    del sys.modules["acmefn"]


# Bodies.


def test_the_body_of_a_function_is_recorded(acme):
    x = torch.randn(2, 3)
    program = asked(Plain(lambda x: acme.Plain.apply(x, 2.0)), x, dynamic={"xs_0": {0: "b"}})
    assert program.ops == ["Relu", "Mul"]
    assert asked(Plain(lambda x: acme.Split.apply(x, 3.0)), x).ops == ["Mul", "Add"]
    assert asked(Plain(lambda x: acme.Split.apply(x)[1]), x).ops == ["Add"]
    assert asked(Plain(lambda x: acme.Heir.apply(x, 2.0)), x).ops == ["Relu", "Mul"]


def test_functions_that_return_or_write_to_their_input(acme):
    x = torch.randn(2, 3)
    assert asked(Plain(lambda x: acme.Same.apply(x * 2) + 1), x).ops == ["Mul", "Add"]

    def written(x):
        y = x * 2
        z = acme.Write.apply(y)
        return y, z

    program = asked(Plain(written), x)
    assert program.ops.count("Mul") == 2
    assert len(program.model.graph.outputs) == 2


def test_parameters_in_a_function_and_gradients_that_are_on(acme):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(3))

        def forward(self, x):
            with torch.enable_grad():
                return acme.Plain.apply(x * self.w, 2.0)

    program = asked(Model(), torch.randn(2, 3))
    assert program.ops == ["Mul", "Relu", "Mul"]
    assert next(iter(program.model.graph.initializers)) == "w"


# Converters.


@pytest.mark.parametrize("target", ["acmefn.Plain", "acmefn.Plain.apply", "acmefn.plain"])
def test_a_converter_of_a_function_class(acme, target):
    def plain(op, x, k):
        return op.Mul(op.Max(x, 0.0), k)

    acme.plain = acme.Plain.apply  # as repositories keep it
    mine = converter(target)(plain)
    for call in (lambda x: acme.Plain.apply(x, 2.0), lambda x: acme.plain(x, 2.0)):
        program = asked(Plain(call), torch.randn(2, 3), mine)
        assert program.ops == ["Max", "Mul"]
        assert program.report.converters == {target: 1}
    # Another function of the same base is not meant by it, and an heir is.
    assert asked(Plain(lambda x: acme.Split.apply(x)), torch.randn(2, 3), mine).ops == [
        "Mul",
        "Add",
    ]
    assert asked(Plain(lambda x: acme.Heir.apply(x, 2.0)), torch.randn(2, 3), mine).ops == [
        "Max",
        "Mul",
    ]
    heir = converter("acmefn.Heir")(lambda op, x, k: op.Mul(k, op.Max(x, 0.0)))
    program = asked(Plain(lambda x: acme.Heir.apply(x, 2.0)), torch.randn(2, 3), mine, heir)
    assert program.report.converters == {"acmefn.Heir": 1}
    no = converter("acmefn.Plain")(lambda op, x, k: NotImplemented)
    assert asked(Plain(lambda x: acme.Plain.apply(x, 2.0)), torch.randn(2, 3), no).ops == [
        "Relu",
        "Mul",
    ]


# symbolic.


def test_symbolic_of_a_function_is_honoured(acme):
    x = torch.randn(2, 3)
    program = asked(Plain(lambda x: acme.Opaque.apply(x, 0.5, "bessel") + 1), x, verify=False)
    node = program.model.graph[0]
    assert (node.domain, node.op_type) == ("acme", "Bessel")
    attributes = {a.name: a.value for a in node.attributes.values()}
    assert attributes == {
        "alpha": 0.5, "order": 0, "name": "bessel", "axes": (0, 1), "scales": (1.0, 2.0)
    }  # fmt: skip
    assert program.model.graph.opset_imports["acme"] == 1
    assert program.report.converters["acmefn.Opaque"] == 1
    assert program.report.packs["symbolic"] == 1
    # The type of the output is that of the real one.
    assert str(node.outputs[0].dtype) == "FLOAT" and list(node.outputs[0].shape) == [2, 3]


def test_symbolic_with_operators_of_onnx_is_proved(acme):
    program = asked(
        Plain(lambda x: acme.Standard.apply(x)), torch.randn(2, 3), dynamic={"xs_0": {0: "b"}}
    )
    assert program.proof.ok
    assert "Relu" in program.ops


def test_a_converter_comes_before_symbolic(acme):
    mine = converter("acmefn.Opaque")(lambda op, x, alpha, name: op("mine", "Bessel", x))
    program = asked(
        Plain(lambda x: acme.Opaque.apply(x, 0.5, "n")), torch.randn(2, 3), mine, verify=False
    )
    assert program.model.graph[0].domain == "mine"


def test_a_symbolic_that_is_wrong_is_named(acme, line_of):
    def forward(x):
        return acme.Wrong.apply(x)  # here

    with pytest.raises(hx.BuilderError, match="attribute alpha") as caught:
        asked(Plain(forward), torch.randn(2, 3))
    said = str(caught.value)
    assert "acmefn.Wrong" in said and "acmefn.py:" in said and "symbolic" in said
    assert caught.value.where.line == line_of(forward, "# here")


@pytest.fixture
def library():
    made = torch.library.Library("hxold", "DEF")
    made.define("swirl(Tensor x, float k, int[] axes, str mode='a') -> Tensor")
    made.impl(
        "swirl",
        lambda x, k, axes, mode="a": torch.from_numpy(numpy.sinc(x.numpy()) * numpy.float32(k)),
        "CompositeExplicitAutograd",
    )
    yield
    made._destroy()


@pytest.mark.filterwarnings("ignore:No custom function registered")  # it is unregistered twice
@pytest.mark.parametrize("parsed", [False, True])
def test_a_registered_custom_symbolic_is_honoured(library, parsed):
    register = pytest.importorskip("torch.onnx").register_custom_op_symbolic

    def swirl(g, x, k, axes, mode="a"):
        return g.op("old::Swirl", x, k_f=k, axes_i=axes, mode_s=mode)

    if parsed:
        from torch.onnx import symbolic_helper

        swirl = symbolic_helper.parse_args("v", "f", "is", "s")(swirl)

    def forward(x):
        return torch.ops.hxold.swirl(x, 0.5, [0, 1]) + 1

    with pytest.raises(hx.MissingConverters, match="hxold::swirl"):
        asked(Plain(forward), torch.randn(2, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        register("hxold::swirl", swirl, 9)
    try:
        program = asked(Plain(forward), torch.randn(2, 3), verify=False)
        node = program.model.graph[0]
        assert (node.domain, node.op_type) == ("old", "Swirl")
        assert {a.name for a in node.attributes.values()} >= {"k", "axes"}
        mine = converter("hxold::swirl")(lambda op, x, k, axes, mode="a": op("new", "Swirl", x))
        assert (
            asked(Plain(forward), torch.randn(2, 3), mine, verify=False).model.graph[0].domain
            == "new"
        )
        with pytest.raises(hx.MissingConverters):  # registered for newer opsets only
            torch.onnx.unregister_custom_op_symbolic("hxold::swirl", 9)
            register("hxold::swirl", swirl, 17)
            asked(Plain(forward), torch.randn(2, 3), opset=16)
        assert (
            asked(Plain(forward), torch.randn(2, 3), verify=False, opset=17).model.graph[0].domain
            == "old"
        )
    finally:
        for version in (9, 17):
            torch.onnx.unregister_custom_op_symbolic("hxold::swirl", version)


def test_a_registered_symbolic_gets_all_that_the_schema_has_at_the_opset_of_the_export(library):
    """As PyTorch hands it over: by position, with the defaults, and the opset in its globals."""
    from torch.onnx._internal.torchscript_exporter._globals import GLOBALS

    heard = []

    def swirl(g, x, k, axes, mode):
        heard.append((mode, GLOBALS.export_onnx_opset_version))
        return g.op("old::Swirl", x, k_f=k, axes_i=axes, mode_s=mode)

    before = GLOBALS.export_onnx_opset_version
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.register_custom_op_symbolic("hxold::swirl", swirl, 9)
    try:
        for opset in (13, 23):
            calls = (
                lambda x: torch.ops.hxold.swirl(x, 0.5, [0, 1]),
                lambda x: torch.ops.hxold.swirl(x, axes=[0, 1], k=0.5, mode="b"),
            )
            for call, mode in zip(calls, "ab"):
                program = asked(Plain(call), torch.randn(2, 3), verify=False, opset=opset)
                [node] = program.model.graph
                assert node.attributes["mode"].as_string() == mode
                assert heard.pop() == (mode, opset)
    finally:
        torch.onnx.unregister_custom_op_symbolic("hxold::swirl", 9)
    assert before == GLOBALS.export_onnx_opset_version


def test_contexts_are_as_in_pytorch():
    """Everything that a forward may do to its ctx, without gradients and with them."""
    seen = []

    class Asks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.set_materialize_grads(False)
            ctx.mark_non_differentiable(x)
            ctx.save_for_backward(x)
            ctx.own = k
            seen.append((ctx.needs_input_grad, type(ctx).__name__, torch.is_grad_enabled()))
            return x * k

        @staticmethod
        def backward(ctx, g):
            return g * ctx.own, None

    def forward(x):
        y = Asks.apply(x, 2.0)
        with torch.enable_grad():
            return y + Asks.apply(x, 3.0)

    assert asked(Plain(forward), torch.randn(2, 3), verify=False).ops == ["Mul", "Mul", "Add"]
    recorded = list(seen)
    seen.clear()
    with torch.no_grad():
        forward(torch.randn(2, 3))
    assert recorded == seen
