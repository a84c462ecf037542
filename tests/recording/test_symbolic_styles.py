"""The ways in which repositories write `symbolic`, each exported unchanged, or refused by name."""

from __future__ import annotations

import warnings

import onnx
import onnx_ir
import pytest
import torch
from called import Plain
from torch.autograd import Function
from torch.onnx import register_custom_op_symbolic, symbolic_helper, unregister_custom_op_symbolic
from torch.onnx.symbolic_helper import parse_args

import hx
from hx import Registry

DYNAMIC = {"xs_0": {0: "n"}}


def exported(function, *args, **options):
    return hx.export(Plain(function), args, packs=Registry.installed(), **options)


def only_node(program):
    [node] = [n for n in onnx_ir.to_proto(program.model).graph.node if n.domain]
    return node


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


@pytest.fixture
def library():
    """Operators of a library that has been compiled, and what is registered for them."""
    made = torch.library.Library("hxstyle", "DEF")
    registered = []

    def define(signature, body, symbolic):
        name = signature.partition("(")[0]
        made.define(signature)
        made.impl(name, body, "CompositeExplicitAutograd")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            register_custom_op_symbolic(f"hxstyle::{name}", symbolic, 11)
        registered.append(name)
        return getattr(torch.ops.hxstyle, name)

    yield define
    for name in registered:
        unregister_custom_op_symbolic(f"hxstyle::{name}", 11)
    made._destroy()


# Nodes that only a runtime of one's own knows.


class RegionAlign(Function):
    @staticmethod
    def symbolic(g, input, rois, output_size, scale, ratio, mode, aligned):
        return g.op(
            "mylib::RegionAlign", input, rois, height_i=output_size[0], width_i=output_size[1],
            scale_f=scale, ratio_i=ratio, mode_s=mode, aligned_i=aligned,
        )  # fmt: skip

    @staticmethod
    def forward(ctx, input, rois, output_size, scale, ratio, mode, aligned):
        return input.new_zeros(len(rois), input.shape[1], *output_size)


def test_an_attribute_has_the_type_that_its_name_says():
    x, rois = torch.randn(1, 3, 8, 8), torch.rand(4, 5)
    program = exported(
        lambda x, r: RegionAlign.apply(x, r, (2, 3), 1, 0, "avg", True), x, rois, verify=False
    )
    node = only_node(program)
    kinds = {a.name: onnx.AttributeProto.AttributeType.Name(a.type) for a in node.attribute}
    assert kinds == {
        "height": "INT", "width": "INT", "scale": "FLOAT", "ratio": "INT", "mode": "STRING",
        "aligned": "INT",
    }  # fmt: skip
    assert attributes(node) == {
        "height": 2, "width": 3, "scale": 1.0, "ratio": 0, "mode": b"avg", "aligned": 1
    }  # fmt: skip


class Suppress(Function):
    """A plugin with several outputs, whose sizes and dtypes are what was run says."""

    @staticmethod
    def forward(ctx, boxes, scores, iou=0.65, most=10, version="1"):
        n = len(boxes)
        return (
            torch.zeros(n, 1, dtype=torch.int32), torch.zeros(n, most, 4),
            torch.zeros(n, most), torch.zeros(n, most, dtype=torch.int32),
        )  # fmt: skip

    @staticmethod
    def symbolic(g, boxes, scores, iou=0.65, most=10, version="1"):
        out = g.op("TRT::Suppress_TRT", boxes, scores, iou_threshold_f=iou, max_output_boxes_i=most,
                   plugin_version_s=version, outputs=4)  # fmt: skip
        count, boxes, scores, classes = out
        return count, boxes, scores, classes


def test_a_plugin_with_several_outputs():
    program = exported(lambda b, s: Suppress.apply(b, s), torch.rand(2, 9, 4), torch.rand(2, 9, 3),
                       verify=False)  # fmt: skip
    assert len(only_node(program).output) == 4
    kinds = [str(value.dtype) for value in program.model.graph.outputs]
    assert kinds == ["INT32", "FLOAT", "FLOAT", "INT32"]


def test_what_follows_a_node_that_nobody_knows_is_typed_by_what_symbolic_says():
    class Scatter(Function):
        @staticmethod
        def forward(ctx, x):
            return torch.special.bessel_j0(x) + 1

        @staticmethod
        def symbolic(g, x):
            y = g.op("mylib::Scatter", x).setType(x.type().with_sizes([None, 3]))
            assert symbolic_helper._get_tensor_rank(x) == 2
            one = g.op("Constant", value_t=torch.ones((), dtype=y.type().dtype()))
            return g.op("Add", y, one)

    program = exported(Scatter.apply, torch.randn(2, 3), verify=False)
    assert [n.op_type for n in program.model.graph] == ["Scatter", "Add"]


# Nodes of ONNX, that are proved. The values of constants are there for who asks.


class ClassWise(Function):
    """Suppression by way of PyTorch's own helpers."""

    @staticmethod
    def forward(ctx, boxes, scores, iou, offset, class_agnostic=False):
        kept, left = [], list(range(len(scores)))
        for i in sorted(left, key=lambda i: -scores[i].item()):
            width = [
                (torch.min(boxes[i, 2:], boxes[j, 2:]) - torch.max(boxes[i, :2], boxes[j, :2]))
                for j in kept
            ]
            sizes = boxes[:, 2:] - boxes[:, :2]
            area = sizes.prod(1)
            inner = [w.clamp(min=0).prod() for w in width]
            if all(n / (area[i] + area[j] - n) <= iou for n, j in zip(inner, kept)):
                kept.append(i)
        return torch.tensor(kept)

    @staticmethod
    def symbolic(g, boxes, scores, iou, offset, class_agnostic=False):
        from torch.onnx.symbolic_opset11 import select, squeeze, unsqueeze

        assert class_agnostic is True and offset == 0
        boxes = unsqueeze(g, boxes, 0)
        scores = unsqueeze(g, unsqueeze(g, scores, 0), 0)
        most = g.op("Constant", value_t=torch.tensor([100], dtype=torch.long))
        threshold = g.op("Constant", value_t=torch.tensor([iou], dtype=torch.float))
        found = g.op("NonMaxSuppression", boxes, scores, most, threshold)
        column = g.op("Constant", value_t=torch.tensor([2], dtype=torch.long))
        return squeeze(g, select(g, found, 1, column), 1)


def test_helpers_of_pytorchs_own_symbolics_are_called():
    torch.manual_seed(0)
    corner = torch.rand(12, 2) * 5
    boxes = torch.cat([corner, corner + 1 + torch.rand(12, 2) * 3], 1)
    program = exported(
        lambda b, s: ClassWise.apply(b, s, 0.3, 0, True), boxes, torch.rand(12), verify=False
    )
    assert "NonMaxSuppression" in [n.op_type for n in program.model.graph]
    session = hx.runtime.Session(onnx_ir.to_proto(program.model).SerializeToString())
    scores = torch.rand(12)
    [kept] = session.run({"xs_0": boxes, "xs_1": scores})
    assert kept.tolist() == ClassWise.apply(boxes, scores, 0.3, 0, True).tolist()


class MaskedSoftmax(Function):
    """As transformers' SEW-D has it: constants of another dtype, given to PyTorch's own functions."""

    @staticmethod
    def forward(ctx, x, mask, dim):
        hidden = ~mask.to(torch.bool)
        y = torch.softmax(x.masked_fill(hidden, torch.finfo(x.dtype).min), dim)
        return y.masked_fill(hidden, 0)

    @staticmethod
    def symbolic(g, x, mask, dim):
        from torch.onnx.symbolic_opset9 import masked_fill, softmax

        to = symbolic_helper.cast_pytorch_to_onnx
        one = g.op("Constant", value_t=torch.tensor(1, dtype=torch.int64))
        hidden = g.op(
            "Cast", g.op("Sub", one, g.op("Cast", mask, to_i=to["Long"])), to_i=to["Bool"]
        )
        lowest = g.op("Constant", value_t=torch.tensor(torch.finfo(x.type().dtype()).min))
        y = softmax(g, masked_fill(g, x, hidden, lowest), dim)
        return masked_fill(
            g, y, hidden, g.op("Constant", value_t=torch.tensor(0, dtype=torch.bool))
        )


def test_constants_are_known_to_pytorchs_own_functions():
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    program = exported(
        lambda x, m: MaskedSoftmax.apply(x, m, -1), torch.randn(2, 3), mask,
        dynamic={"xs_0": {0: "n"}, "xs_1": {0: "n"}},
    )  # fmt: skip
    assert program.proof.ok and "symbolic" in program.report.packs


class Stretch(Function):
    """Decorated as an operator's would be; and what its arguments are asked."""

    @staticmethod
    @parse_args("v", "f", "b", "is", "s")
    def symbolic(g, x, factor, plus, axes, name):
        assert (factor, plus, axes, name) == (2.5, True, [0, 1], "up")
        y = g.op("Mul", x, g.op("Constant", value_t=torch.tensor(factor)))
        if plus:
            y = g.op("Add", y, torch.tensor(1.0))
        kind = symbolic_helper.cast_pytorch_to_onnx[x.type().scalarType()]
        return g.op("Cast", y, to_i=kind).setTypeAs(x)

    @staticmethod
    def forward(ctx, x, factor, plus, axes, name):
        return torch.special.bessel_j0(x) * 0 + x * factor + int(plus)


def test_arguments_are_parsed():
    program = exported(
        lambda x: Stretch.apply(x, 2.5, True, [0, 1], "up"), torch.randn(2, 3), dynamic=DYNAMIC
    )
    assert program.proof.ok and "symbolic" in program.report.packs


class Rounded(Function):
    @staticmethod
    def forward(ctx, x, scale, zero):
        return (torch.round(x / scale) + zero).clamp(-128, 127).sub(zero) * scale

    @staticmethod
    def symbolic(g, x, scale, zero):
        zero = g.op("Cast", zero, to_i=torch.onnx.TensorProtoDataType.INT8)
        q = g.op("QuantizeLinear", x, scale, zero)
        return g.op("DequantizeLinear", q, scale, zero)


def test_quantizing_as_two_nodes():
    scale, zero = torch.tensor(0.1), torch.tensor(0.0)
    program = exported(lambda x: Rounded.apply(x, scale, zero), torch.randn(2, 3), dynamic=DYNAMIC)
    assert [n.op_type for n in program.model.graph][-2:] == ["QuantizeLinear", "DequantizeLinear"]
    assert program.proof.ok


# Operators that were registered.


def test_an_operator_with_a_list_of_tensors_and_one_that_may_be_missing(library):
    def blend(g, tensors, bias, weights, size):
        assert symbolic_helper._is_packed_list(tensors)
        total, *rest = symbolic_helper._unpack_list(tensors)
        for each in rest:
            total = g.op("Add", total, each)
        if not symbolic_helper._is_none(bias):
            total = g.op("Add", total, bias)
        sizes = [
            symbolic_helper._get_const(n, "i", "size") for n in symbolic_helper._unpack_list(size)
        ]
        assert sizes == [2, 7] and all(map(symbolic_helper._is_value, [total, tensors]))
        weight = symbolic_helper._maybe_get_const(weights, "f")
        return g.op("Mul", total, g.op("Constant", value_t=torch.tensor(weight)))

    def body(tensors, bias, weight, size):
        total = torch.stack(tensors).sum(0) + torch.special.bessel_j0(tensors[0]) * 0
        return (total if bias is None else total + bias) * weight

    run = library(
        "blend(Tensor[] xs, Tensor? bias, float weight, int[] size) -> Tensor", body, blend
    )
    x, bias = torch.randn(2, 3), torch.randn(3)
    for program in (
        exported(lambda x, y: run([x, y], None, 0.5, [2, 7]), x, x + 1),
        exported(lambda x, y: run([x, y], bias, 0.5, [2, 7]), x, x + 1),
    ):
        assert program.proof.ok and "symbolic" in program.report.packs


def test_numbers_that_are_passed_on_as_inputs_and_nothing_in_the_place_of_an_input(library):
    def spread(g, x, times, scale):
        none = symbolic_helper._optional_input_placeholder_tensor(g)
        return g.op("mylib::Spread", x, none, times, scale, times_i=times, scale_f=scale)

    run = library("spread(Tensor x, int times, float scale) -> Tensor",
                  lambda x, times, scale: torch.special.bessel_j0(x) * times * scale, spread)  # fmt: skip
    program = exported(lambda x: run(x, 3, 0.5), torch.randn(2, 3), verify=False)
    node = only_node(program)
    assert [bool(name) for name in node.input] == [True, False, True, True]
    assert attributes(node) == {"times": 3, "scale": 0.5}
    held = {name: v.const_value.numpy() for name, v in program.model.graph.initializers.items()}
    times, scale = (held[name] for name in node.input[2:])
    assert (times.dtype, times.item(), scale.dtype, scale.item()) == ("int64", 3, "float32", 0.5)


def test_a_parsed_operator_with_lists(library):
    @parse_args("v", "is", "fs", "none")
    def tile(g, x, repeats, offsets, ignored):
        assert offsets == [0.5, 1.5]
        return g.op("Tile", x, g.op("Constant", value_t=torch.tensor(repeats)))

    run = library("tile(Tensor x, int[] repeats, float[] offsets, bool ignored) -> Tensor",
                  lambda x, repeats, *_: x.repeat(repeats), tile)  # fmt: skip
    program = exported(
        lambda x: run(x, [2, 1], [0.5, 1.5], False), torch.randn(2, 3), dynamic=DYNAMIC
    )
    assert [n.op_type for n in program.model.graph] == ["Tile"] and program.proof.ok


def test_it_is_said_that_pytorchs_own_operators_keep_their_converters():
    x = torch.randn(2, 3)
    assert not exported(torch.relu, x).report.notes
    register_custom_op_symbolic("aten::relu", lambda g, x: g.op("my::Relu", x), 11)
    try:
        [note] = exported(torch.relu, x).report.notes
    finally:
        unregister_custom_op_symbolic("aten::relu", 11)
    assert "aten::relu" in note


# What cannot be had is refused by name.


def refused(symbolic, *args, **options):
    kind = type("Refused", (Function,), {
        "forward": staticmethod(lambda ctx, x, *_: torch.special.bessel_j0(x)),
        "symbolic": staticmethod(symbolic),
    })  # fmt: skip
    with pytest.raises(hx.HxError) as caught:
        exported(lambda x: kind.apply(x, *args), torch.randn(2, 3), **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("symbolic", "said"),
    [
        (lambda g, x: g.at("bessel_j0", x), "g.at belongs to PyTorch's own graph"),
        (lambda g, x: g.op("aten::bessel_j0", x), "operator of PyTorch"),
        (lambda g, x: g.op("my::Op", x, axis_i="one"), "my::Op: the attribute axis_i cannot be 'one'"),
        (lambda g, x: g.op("my::Op", x, axis_i=1.5), "the attribute axis_i cannot be 1.5"),
        (lambda g, x: x.inferredShape(), "has no inferredShape()"),
        (lambda g, x: symbolic_helper._unimplemented("J0", "not in ONNX") or x, "not in ONNX"),
        (lambda g, x: g.op("my::Op", x, x_t=symbolic_helper._get_const(x, "t", "x")),
         "expected a constant value of the 'x' argument"),
    ],
)  # fmt: skip
def test_it_is_said_what_is_missing(symbolic, said):
    assert said in refused(symbolic)


def test_a_size_that_may_vary_is_no_attribute():
    def sized(g, x):
        return g.op("my::Op", x, height_i=x.type().sizes()[0], width_i=x.type().sizes()[1])

    assert "a size that may vary" in refused(sized, dynamic=DYNAMIC)
    assert "a size that may vary" in refused(
        lambda g, x: g.op("my::Op", x, sizes_i=x.type().sizes()), dynamic=DYNAMIC
    )


def test_hasattr_may_ask_what_a_value_has():
    def careful(g, x):
        assert not hasattr(x, "inferredShape") and not hasattr(g, "graph")
        return g.op("my::Op", x)

    kind = type("Careful", (Function,), {
        "forward": staticmethod(lambda ctx, x: torch.special.bessel_j0(x)),
        "symbolic": staticmethod(careful),
    })  # fmt: skip
    assert only_node(exported(kind.apply, torch.randn(2), verify=False)).op_type == "Op"
