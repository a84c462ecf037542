"""Converters from a loose file, tried with `hx converters try`."""

from __future__ import annotations

import onnx


def test_converters_from_a_loose_file_can_be_tried(hx, folder):
    (folder / "mine.py").write_text(
        "from hx import converter\n"
        "@converter('torch.Tensor.relu')\n"
        "def relu(op, input): return op.Max(input, 0.0)\n"
        "@converter('torch.cosh')\n"
        "def cosh(op, input): return op.Cosh(input)\n"
    )
    done = hx("converters", "try", "mine.py", "models.py:with_inputs", "-o", "m.onnx")
    assert done.code == 0, done.err
    assert "torch.Tensor.relu: 1 call converted by mine.py" in done.err
    assert "torch.cosh of mine.py was never called" in done.err
    assert "Max" in [node.op_type for node in onnx.load("m.onnx").graph.node]


def test_a_loose_file_may_bring_kernels_for_its_operators(hx, folder):
    (folder / "mine.py").write_text(
        "from hx import ReferenceKernel, converter\n"
        "@converter('torch.Tensor.relu')\n"
        "def relu(op, input): return op('com.acme', 'Positive', input)\n"
        "def hx_reference_kernels():\n"
        "    return [ReferenceKernel('com.acme', 'Positive', lambda x: x * (x > 0))]\n"
    )
    done = hx("converters", "try", "mine.py", "models.py:with_inputs", "--json")
    assert done.code == 0, done.err
    assert done.json["report"]["proof"]["ok"]
    assert "com.acme::Positive" in done.json["report"]["proof"]["runtime"]
    (folder / "mine.py").write_text(
        "from hx import converter\n"
        "def hx_reference_kernels(): return 1 / 0\n"
        "@converter('torch.Tensor.relu')\n"
        "def relu(op, input): return op.Max(input, 0.0)\n"
    )
    done = hx("converters", "try", "mine.py", "models.py:with_inputs")
    assert done.code == 3 and "mine.py: hx_reference_kernels() raises" in done.err


def test_why_a_tried_converter_was_not_asked_is_told_when_the_export_fails(hx, folder):
    (folder / "mine.py").write_text(
        "from hx import converter\n"
        "@converter('models.reluu')\n"
        "def misspelt(op, x): return op.Neg(x)\n"
        "@converter('models.opaque', since=21)\n"
        "def late(op, x): return op.Neg(x)\n"
    )
    with (folder / "models.py").open("a") as models:
        models.write(
            "import numpy\n"
            "def opaque(x): return torch.from_numpy(numpy.convolve(x.numpy(), x.numpy(), 'same'))\n"
            "class Opaque(nn.Module):\n"
            "    def forward(self, x): return opaque(x)\n"
            "def made(): return Opaque(), (torch.ones(2),)\n"
        )
    done = hx("converters", "try", "mine.py", "models.py:made")
    assert done.code == 4, done.err
    assert "nothing was written" in done.err and "--keep-rejected" not in done.err
    assert "the converter of models.reluu answers for nothing" in done.err
    assert "the converter of models.opaque is for opset 21+, and this is opset 20" in done.err


def test_what_a_tried_converter_did_not_do_is_told_with_the_reason(hx, folder):
    (folder / "mine.py").write_text(
        "from hx import converter\n"
        "@converter('torch.Tensor.relu', since=21)\n"
        "def late(op, input): return op.Neg(input)\n"
        "@converter('torch.nn.Linear.forward')\n"
        "def linear(op, self, input): return NotImplemented\n"
        "@converter('torch.nn.functional.reluu')\n"
        "def nothing(op, input): return input\n"
        "@converter('torch.cosh')\n"
        "def cosh(op, input): return op.Cosh(input)\n"
        "@converter('torch.nn.functional.linear')\n"
        "def other(op, input, weight, bias=None): return NotImplemented\n"
    )
    words = ["converters", "try", "mine.py", "models.py:with_inputs"]
    words += ["--use", "torch.nn.functional.linear=hx"]
    tried = {each.pop("target"): each for each in hx(*words, "--json").json["tried"]}
    assert {each["converted"] for each in tried.values()} == {0}
    why = {target: each["why"] for target, each in tried.items()}
    assert why["torch.Tensor.relu"] == "is for opset 21+, and this is opset 20"
    assert why["torch.nn.Linear.forward"].startswith("declined 1 call: what they call inside")
    assert why["torch.nn.functional.reluu"].startswith("answers for nothing: torch.nn.functional")
    assert why["torch.cosh"] == "was never called by this model"
    assert why["torch.nn.functional.linear"] == "is not used: that of hx was chosen"
    told = hx(*words).err
    assert "converted by mine.py" not in told
    (folder / "mine.py").write_text(
        "from hx import converter\n@converter('torch.Tensor.relu')\ndef wrong(op, input): 1 / 0\n"
    )
    raised = hx("converters", "try", "mine.py", "models.py:with_inputs").err
    assert "ZeroDivisionError" in raised and "hx converters try" not in raised
