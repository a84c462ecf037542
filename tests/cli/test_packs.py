"""Packs whose code ends the process, or gives what nobody can use: it is told as theirs."""

from __future__ import annotations

import re
import subprocess

import pytest

GRAPH_PASS = """
import sys
from hx import GraphPass
def quit(model): {body}
def hx_passes(): return [GraphPass("tidy", quit)]
"""
CONVERTER = """
import sys
from hx import ReferenceKernel, converter
def kernel(x): sys.exit(0)
@converter("torch.Tensor.relu", overrides="hx")
def relu(op, self): {body}
def hx_converters(): return [relu]
def hx_reference_kernels(): return [ReferenceKernel("com.acme", "Foo", kernel)]
"""
CONTAINER = """
import sys
from hx import Container
def hx_containers(): return [Container("models.Held", lambda held: sys.exit(0), lambda parts, context: parts)]
"""
HELD = """
class Held:
    def __init__(self, x): self.x = x
class Holding(nn.Module):
    def forward(self, x): return torch.relu(torch.neg(Held(x)))
def holding(): return Holding(), (Held(torch.ones(2)),)
"""
EXPORT = ("export", "models.py:with_inputs", "-o", "m.onnx", "--json")


BREAKING = GRAPH_PASS.format(
    body="[n for n in model.graph if n.op_type == 'Relu'][0].op_type = 'Neg'"
)
NOTHING = CONVERTER.replace("sys.exit(0)", "print()").format(
    body="return op('com.acme', 'Foo', self)"
)
MISSPELT = CONVERTER.replace("kernel(x): sys.exit(0)", "kernel(x, alpha=1.0): return x").format(
    body="return op('com.acme', 'Foo', self, alhpa=1.0)"
)
TOO_MANY = CONVERTER.replace("sys.exit(0)", "return x, x").format(
    body="return op('com.acme', 'Foo', self)"
)
EXIT, CUSTOM = "sys.exit(0)", "return op('com.acme', 'Foo', self)"
ITS = "(hx-acme[main])"


@pytest.mark.parametrize(
    "plugin, code, told",
    [
        (GRAPH_PASS.format(body=EXIT), 1, f"graph pass tidy {ITS} raised sys.exit(0)"),
        (GRAPH_PASS.format(body="return 'x'"), 1, f"graph pass tidy {ITS} returned str"),
        (CONVERTER.format(body=EXIT), 1, f"torch.Tensor.relu {ITS} raised sys.exit(0)"),
        (CONVERTER.format(body=CUSTOM), 4, f"kernel of com.acme::Foo {ITS} raises sys.exit(0)"),
        (BREAKING, 4, f"graph passes of packs changed the graph before it was run: tidy {ITS}"),
        (NOTHING, 4, f"kernel of com.acme::Foo {ITS} gave None, and the node has 1 output"),
        (MISSPELT, 4, f"kernel of com.acme::Foo {ITS} takes no attribute alhpa, which"),
        (MISSPELT, 4, "did you mean alpha?"),
        (TOO_MANY, 4, f"kernel of com.acme::Foo {ITS} gave 2 arrays, and the node has 1 output"),
    ],
    ids=[
        "a pass exits",
        "a pass gives nonsense",
        "a converter exits",
        "a kernel exits",
        "a pass breaks the graph",
        "a kernel gives nothing",
        "a kernel lacks an attribute",
        "a kernel has one of nearly that name",
        "a kernel gives too much",
    ],
)
def test_what_a_pack_does_is_told_as_the_packs(shell, installed, folder, plugin, code, told):
    installed("hx-acme", plugin)
    done = shell(*EXPORT)
    assert done.code == code, done.told
    assert told in done.err and not (folder / "m.onnx").exists()
    assert done.json["ok"] is False and done.json["exit_code"] == code


MINE = """
import os
from hx import GraphPass, ReferenceKernel, converter
def tell(model): {body}
def hx_passes(): return [GraphPass("tell", tell)]
@converter("torch.Tensor.relu")
def relu(op, self): return op("com.acme", "Foo", self)
def kernel(x): return x  # wrong
def hx_reference_kernels(): return [ReferenceKernel("com.acme", "Foo", kernel)]
"""


@pytest.mark.parametrize("changes", [False, True])
def test_of_what_a_file_brings_that_is_blamed_which_may_be_wrong(hx, folder, changes):
    body = "model.graph[0].name = 'first'" if changes else "model.metadata_props['by'] = 'me'"
    (folder / "mine.py").write_text(MINE.format(body=body))
    with (folder / "models.py").open("a") as models:
        models.write("def below(): return Line(), (-torch.ones(2, 4),)\n")
    done = hx("converters", "try", "mine.py", "models.py:below")
    assert done.code == 4 and "--no-pack" not in done.err, done.told
    assert ("graph passes of packs changed the graph" in done.err) is changes
    assert "first off: com.acme::Foo of torch.Tensor.relu" in done.err
    assert "its reference kernel is wrong, which ran it: that of mine.py at mine.py:" in done.err


def test_a_container_that_exits_is_told_as_the_packs(shell, installed, folder):
    installed("hx-acme", CONTAINER)
    with (folder / "models.py").open("a") as models:
        models.write(HELD)
    done = shell("export", "models.py:holding", "-o", "m.onnx")
    assert done.code == 1, done.told
    assert "the container of models.Held (hx-acme[main]): flatten raised sys.exit(0)" in done.err


CHAIN = """
from hx import Container, ReferenceKernel, converter
def kernel(x): return x * (x > 0) * x.dtype.type({factor})
@converter("torch.Tensor.relu", priority={priority}, overrides="hx")
def relu(op, self): return op("com.acme", "Positive", self)
def hx_converters(): return [relu]
def hx_reference_kernels(): return [ReferenceKernel("com.acme", "Positive", kernel)]
def hx_containers(): return [Container("models.Held", lambda h: ({{"x": h.x}}, 0), lambda p, c: type("Held", (), p))]
"""


def test_of_two_packs_with_one_kernel_or_container_none_is_taken_in_silence(
    shell, installed, folder
):
    installed("hx-acme", CHAIN.format(factor=1, priority=1))
    installed("hx-zeta", CHAIN.format(factor=3, priority=2))
    with (folder / "models.py").open("a") as models:
        models.write(HELD)
    done = shell(*EXPORT)
    assert done.code == 3 and "hx-acme and hx-zeta, and neither comes first" in done.err, done.told
    assert "reference kernel of com.acme::Positive" in done.err
    assert "--use com.acme::Positive=hx-acme or --use com.acme::Positive=hx-zeta" in done.err
    for chosen, code in ("hx-acme", 0), ("hx-zeta", 4):
        done = shell(*EXPORT, "--use", f"com.acme::Positive={chosen}")
        assert done.code == code, done.told
    done = shell("export", "models.py:holding", "-o", "held.onnx")
    assert done.code == 3 and "the container of models.Held is given by" in done.err, done.told


CASES = """
from hx import case, converter
@converter("torch.nn.functional.reluu", cases=[case("float32[n,3]")])
def misspelt(op, input): return op.Relu(input)
@converter("writes.into", cases=[case("float32[n,3]", "float32[n,3]")])
def into(op, out, x): op.assign(out, op.Mul(x, 2.0))
def hx_converters(): return [misspelt, into]
"""


def test_a_misspelt_target_is_a_finding_and_targets_that_only_write_have_cases(
    shell, installed, folder
):
    installed("hx-acme", CASES)
    (folder / "site" / "writes.py").write_text(
        "def into(out, x): out.numpy()[...] = 2 * x.numpy()\n"
    )
    done = shell("packs", "check", "hx-acme", "--json")
    assert done.code == 3, done.told
    [pack] = done.json["packs"]
    assert [each["id"] for each in pack["findings"]] == ["target-unresolved"]
    assert pack["cases_run"] > 1
    done = shell("packs", "check", "hx-acme", "--no-cases")
    assert done.code == 3 and "hx-acme[main] 1.0: wrong, 2 converters" in done.out, done.told


def test_a_pack_for_what_is_not_there_is_refused(shell, folder):
    for target, told in (
        ("torch.nn.functional.reluu", "has no 'reluu'"),
        ("torch.nn.functional", "cannot be called|nobody calls|is a module"),
    ):
        done = shell("packs", "new", "hx-mine", "--target", target)
        assert done.code == 2 and not (folder / "hx-mine").exists(), done.told
        assert re.search(told, done.err), done.err
    done = shell("packs", "new", "hx-mine", "--target", "notinstalled.f")
    assert done.code == 0, done.told


def test_a_pack_for_autograd_functions_has_their_parameters(shell, folder):
    (folder / "fns.py").write_text(
        "import torch\n"
        "class First(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, k=2): return x * k\n"
        "class Second(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(x, *, by): return x * by\n"
        "    @staticmethod\n"
        "    def setup_context(ctx, inputs, output): pass\n"
        "first, second = First.apply, Second.apply\n"
    )
    done = shell("packs", "new", "hx-mine", "--target", "fns.first", "--target", "fns.second")
    assert done.code == 0, done.told
    [source] = (folder / "hx-mine").rglob("converters.py")
    text = source.read_text()
    assert "def first(op, x, k=2):" in text and "def second(op, x, *, by):" in text


def test_a_pattern_that_nothing_is_like_comes_with_a_hint(hx):
    none = hx("converters", "list", "qqq")
    assert none.code == 0 and "hint:  hx converters list has all names" in none.err
    for misspelt, name in (("reluu", "relu"), ("Cnov2d", "conv2d"), ("torch.nn.Lineer", "linear")):
        done = hx("converters", "list", misspelt)
        assert f"hint:  names like it: torch.nn.functional.{name}" in done.err
    assert "hint:" not in hx("converters", "list", "conv2d").err


def test_a_check_says_what_it_does_where_nothing_else_is_shown(hx):
    done = hx("packs", "check", "hx", "--no-cases")
    assert done.err.startswith("checking hx[standard]: ") and "the cases" not in done.err


def test_the_standard_pack_is_checked_only_if_it_is_named(hx):
    done = hx("packs", "check", "--no-cases")
    assert done.code == 0 and not done.out
    assert "no third-party pack is installed" in done.err and "hx packs check hx" in done.err


def test_each_pack_is_printed_before_the_next_one_is_checked(terminal, installed):
    for name in ("hx-acme", "hx-berg"):
        installed(name, "def hx_converters(): return []\n")
    both = terminal("packs", "check", stderr=subprocess.STDOUT)  # into one pipe
    assert [line.partition(":")[0] for line in both.out.splitlines()] == [
        "checking hx-acme[main]", "hx-acme[main] 1.0", "checking hx-berg[main]",
        "hx-berg[main] 1.0", "all is well",
    ]  # fmt: skip


LACKING = """
import torch
from hx import converter

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor): return x * factor

@torch.library.custom_op("hx_lacking::scale", mutates_args=())
def scale(x: torch.Tensor, factor: float) -> torch.Tensor: return x * factor

def plain(x, factor): return x * factor

@converter(f"{__name__}.Twice")
def twice(op, x): return op.Mul(x, 2.0)

@converter("hx_lacking::scale")
def scaled(op, x): return op.Mul(x, 2.0)

@converter(f"{__name__}.plain")
def plainly(op, x): return op.Mul(x, 2.0)

def hx_converters(): return [twice, scaled, plainly]
"""


def test_a_parameter_that_a_converter_lacks_is_an_error(shell, installed):
    installed("hx-lacking", LACKING)
    done = shell("packs", "check", "hx-lacking", "--json")
    [pack] = done.json["packs"]
    wrong = [each for each in pack["findings"] if each["id"] == "signature-differs"]
    assert done.code == 3 and {each["level"] for each in wrong} == {"error"}
    names = ("twice", "scaled", "plainly")
    assert {each["message"] for each in wrong} == {f"{n} does not take factor" for n in names}


def needing(folder, name, *requirements):
    """Let an installed pack require something."""
    metadata = folder / "site" / f"{name.replace('-', '_')}-1.0.dist-info" / "METADATA"
    lines = "".join(f"Requires-Dist: {each}\n" for each in requirements)
    metadata.write_text(metadata.read_text() + lines)


NOTHING = "from hx import hookimpl\ndef hx_converters(): return []\n"


def test_a_pack_without_what_it_requires_is_told_with_the_command_of_pip(shell, installed, folder):
    installed("hx-lonely", NOTHING)
    needing(folder, "hx-lonely", "acme-absent (>=2)", "numpy>=1", 'nobody; extra == "test"')
    told = "hx-lonely needs acme-absent(>=2) (acme-absent is not installed)"
    fix = "fix:   pip install 'acme-absent(>=2)'"
    listed = shell("packs", "list")
    assert listed.code == 0 and told in listed.out and fix in listed.out
    assert listed.out.count("acme-absent") == 3 and "numpy" not in listed.out
    [pack] = [p for p in shell("packs", "list", "--json").json["packs"] if "lonely" in p["key"]]
    assert [each["id"] for each in pack["findings"]] == ["requirement-unmet"]
    checked = shell("packs", "check", "hx-lonely")
    assert checked.code == 0 and told in checked.out and fix in checked.out


def test_a_pack_that_cannot_be_imported_for_want_of_a_library_is_one_message(
    shell, installed, folder
):
    installed("hx-needy", "import acme_absent\n")
    needing(folder, "hx-needy", "acme-absent>=2", "onnx<1")
    listed = shell("packs", "list")
    assert (
        "hx-needy needs acme-absent>=2 (acme-absent is not installed) and onnx<1 (onnx "
        in listed.out
    )
    assert "fix:   pip install 'acme-absent>=2' 'onnx<1'" in listed.out
    assert listed.out.count("acme-absent is not installed") == 1
    checked = shell("packs", "check", "hx-needy")
    assert checked.code == 3 and "error requirement-unmet: hx-needy needs" in checked.out


MISSPELT = """
from hx import converter
@converter("torch.nn.functional.siluu")
def silu(op, x): return x
@converter("torch.relu_twice")
def relu(op, x): return x
@converter("nobody_has_this.thing")
def thing(op, x): return x
def hx_converters(): return [silu, relu, thing]
"""


def test_a_target_that_does_not_exist_is_told_at_export(shell, installed):
    installed("hx-misspelt", MISSPELT)
    done = shell("export", "models.py:with_inputs", "-o", "m.onnx")
    assert done.code == 0
    [line] = [each for each in done.err.splitlines() if "answers for nothing" in each]
    assert "a converter of hx-misspelt[main] answers for nothing: torch.nn.functional.siluu" in line
    assert "did you mean silu" in line and "; and 1 more" in line and "nobody_has" not in done.err
