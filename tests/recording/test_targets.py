"""What a target string names is what arrives when it is called."""

import sys
import types

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from hx.errors import TargetError
from hx.packs.targets import NotInstalled, arrives, identify, innermost, resolve


class Listener(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.keys = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.keys.append(identify(func))
        return func(*args, **(kwargs or {}))


def heard(call):
    with Listener() as listener:
        call()
    return listener.keys


x = torch.rand(2, 3, 4, 4)
i = torch.arange(1, 7).reshape(2, 3)
T = "torch.Tensor."

OPERATORS = [
    ("__add__", "aten::add", lambda: x + 1),
    ("__radd__", "aten::add", lambda: 1 + x),
    ("__sub__", "aten::sub", lambda: x - 1),
    ("__mul__", "aten::mul", lambda: x * 2),
    ("__rmul__", "aten::mul", lambda: 2 * x),
    ("__truediv__", "aten::div", lambda: x / 2),
    ("__mod__", "aten::remainder", lambda: x % 2),
    ("__pow__", "aten::pow", lambda: x**2),
    ("__matmul__", "aten::matmul", lambda: x @ x),
    ("__and__", "aten::bitwise_and", lambda: i & 1),
    ("__rand__", "aten::bitwise_and", lambda: 1 & i),
    ("__or__", "aten::bitwise_or", lambda: i | 1),
    ("__xor__", "aten::bitwise_xor", lambda: i ^ 1),
    ("__rxor__", "aten::bitwise_xor", lambda: 1 ^ i),
    ("__lshift__", "aten::bitwise_left_shift", lambda: i << 1),
    ("__rshift__", "aten::bitwise_right_shift", lambda: i >> 1),
    ("__invert__", "aten::bitwise_not", lambda: ~i),
    ("__neg__", "aten::neg", lambda: -x),
    ("__pos__", "aten::positive", lambda: +x),
    ("__abs__", "aten::abs", lambda: abs(x)),
    ("__eq__", "aten::eq", lambda: x == 1),
    ("__eq__", "aten::eq", lambda: 1 == x),
    ("__ne__", "aten::ne", lambda: x != x),
    ("__lt__", "aten::lt", lambda: x < 1),
    ("__lt__", "aten::lt", lambda: 1 > x),
    ("__le__", "aten::le", lambda: x <= 1),
    ("__gt__", "aten::gt", lambda: x > 1),
    ("__ge__", "aten::ge", lambda: x >= 1),
    ("__iadd__", "aten::add_", lambda: x.clone().__iadd__(1)),
    ("__isub__", "aten::sub_", lambda: x.clone().__isub__(1)),
    ("__imul__", "aten::mul_", lambda: x.clone().__imul__(1)),
    ("__itruediv__", "aten::div_", lambda: x.clone().__itruediv__(1)),
    ("__ifloordiv__", "aten::floor_divide_", lambda: x.clone().__ifloordiv__(1)),
    ("__imod__", "aten::remainder_", lambda: x.clone().__imod__(1)),
    ("__ipow__", "aten::pow_", lambda: x.clone().__ipow__(1)),
    ("__iand__", "aten::bitwise_and_", lambda: i.clone().__iand__(1)),
    ("__ior__", "aten::bitwise_or_", lambda: i.clone().__ior__(1)),
    ("__ixor__", "aten::bitwise_xor_", lambda: i.clone().__ixor__(1)),
    ("__ilshift__", "aten::bitwise_left_shift_", lambda: i.clone().__ilshift__(1)),
    ("__irshift__", "aten::bitwise_right_shift_", lambda: i.clone().__irshift__(1)),
    ("__getitem__", "Tensor.__getitem__", lambda: x[0]),
    ("__setitem__", "Tensor.__setitem__", lambda: x.clone().__setitem__(0, 1)),
    ("__bool__", "aten::__bool__", lambda: bool(i[0, 0])),
    ("__nonzero__", "aten::__bool__", lambda: bool(i[0, 0])),
    ("__int__", "aten::__int__", lambda: int(i[0, 0])),
    ("__long__", "aten::__int__", lambda: int(i[0, 0])),
    ("__float__", "aten::__float__", lambda: float(x[0, 0, 0, 0])),
    ("__index__", "aten::__index__", lambda: range(3)[i[0, 0]]),
    ("shape", "Tensor.shape.__get__", lambda: x.shape),
    ("T.__get__", "Tensor.T.__get__", lambda: i.T),
    ("data.__set__", "Tensor.data.__set__", lambda: setattr(x.clone(), "data", x)),
    ("where", "Tensor.where", lambda: x.where(x > 0, x)),
    ("polygamma", "Tensor.polygamma", lambda: x.polygamma(1)),
]


@pytest.mark.parametrize("name, key, call", OPERATORS, ids=[f"{n}{i}" for i, (n, *_) in
                                                            enumerate(OPERATORS)])  # fmt: skip
def test_operators_of_tensor(name, key, call):
    target = resolve(T + name)
    assert (target.kind, target.key) == ("operator", key)
    assert heard(call)[-1] == key


@pytest.mark.parametrize(
    "name, call",
    [
        ("__rsub__", lambda: 1 - x),
        ("__rdiv__", lambda: 1 / x),
        ("__rtruediv__", lambda: 1 / x),
        ("__rpow__", lambda: 2**x),
        ("__rmod__", lambda: 5 % x),
        ("__floordiv__", lambda: x // 2),
        ("__rfloordiv__", lambda: 2 // x),
        ("__rlshift__", lambda: 1 << i),
        ("__rmatmul__", lambda: x.__rmatmul__(x)),
        ("__len__", lambda: len(x)),
        ("__contains__", lambda: 1.0 in x),
        ("norm", lambda: x.norm()),
        ("split", lambda: x.split(1)),
        ("unflatten", lambda: x.unflatten(3, (2, 2))),
    ],
)
def test_python_methods_of_tensor(name, call):
    target = resolve(T + name)
    assert (target.kind, target.key) == ("torch", getattr(torch.Tensor, name))
    assert heard(call)[0] == target.key


@pytest.mark.parametrize(
    "text, kind, call",
    [
        ("torch.relu", "operator", lambda: torch.relu(x)),
        ("torch.where", "operator", lambda: torch.where(x > 0, x, x)),
        ("torch.nn.functional.conv2d", "operator", lambda: F.conv2d(x, x)),
        ("torch.nn.functional.gelu", "operator", lambda: F.gelu(x)),
        ("torch.nn.functional.logsigmoid", "operator", lambda: F.logsigmoid(x)),
        ("torch.fft.fft", "operator", lambda: torch.fft.fft(x)),
        ("torch.special.expit", "operator", lambda: torch.special.expit(x)),
        ("torch.zeros", "operator", lambda: torch.zeros(2)),
        ("torch.nn.functional.relu", "torch", lambda: F.relu(x)),
        ("torch.nn.functional.hardswish", "torch", lambda: F.hardswish(x)),
        ("torch.nn.functional.max_pool2d", "torch", lambda: F.max_pool2d(x, 2)),
        ("torch.nn.functional.softmax", "torch", lambda: F.softmax(x, 0)),
        ("torch.einsum", "torch", lambda: torch.einsum("ij,kj", i, i)),
        ("torch.functional.einsum", "torch", lambda: torch.einsum("ij,kj", i, i)),
        ("torch.unique", "torch", lambda: torch.unique(i, return_inverse=True)),
        ("torch.meshgrid", "torch", lambda: torch.meshgrid(x[0, 0, 0], indexing="ij")),
        ("torch.ops.aten.add", "operator", lambda: torch.ops.aten.add.Tensor(x, x)),
        ("torch.ops.aten.add.Tensor", "operator", lambda: torch.add(x, x)),
        ("aten::where", "operator", lambda: torch.ops.aten.where(x > 0, x, x)),
    ],
)  # fmt: skip
def test_functions_of_torch(text, kind, call):
    target = resolve(text)
    assert target.kind == kind
    assert heard(call)[-1] == target.key


def test_the_same_operators_arrive_by_dispatch():
    seen = []

    class Beneath(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(identify(func))
            return func(*args, **(kwargs or {}))

    with Beneath():
        _ = i & i, i << i, torch.where(x > 0, x, x), x + x
    wanted = [resolve(t).key for t in ("torch.Tensor.__and__", "torch.Tensor.__lshift__",
                                       "torch.gt", "torch.where", "torch.add")]  # fmt: skip
    assert seen == wanted


def test_methods_whose_self_is_not_first_are_the_two_in_the_table():
    """METHODS_APART, measured anew: the schema of an operator says where its `self` is."""
    from hx.packs.targets import METHODS_APART

    apart = set()
    for name, method in vars(torch._C.TensorBase).items():
        packet = getattr(torch.ops.aten, name, None)
        if not isinstance(method, types.MethodDescriptorType) or not hasattr(packet, "overloads"):
            continue
        for overload in packet.overloads():
            names = [a.name for a in getattr(packet, overload)._schema.arguments]
            if "self" in names and names[0] != "self":
                apart.add(name)
    assert apart == METHODS_APART


def test_functions_that_only_call_others_never_arrive_and_are_callables():
    for name in ("sigmoid", "tanh", "upsample"):
        target = resolve(f"torch.nn.functional.{name}")
        assert target.kind == "callable"
        assert target.function is getattr(F, name)
        assert not arrives(target.function)
    assert heard(lambda: torch.from_numpy(x.new_ones(1).numpy()))[-1] != "aten::from_numpy"
    builtin = resolve("torch.from_numpy")
    assert (builtin.kind, builtin.function) == ("callable", None)


def test_modules():
    target = resolve("torch.nn.Conv2d")
    assert target.key is target.function is target.raw is torch.nn.Conv2d.forward
    assert (target.kind, target.owner, target.attribute) == ("callable", torch.nn.Conv2d, "forward")
    assert resolve("torch.nn.Conv2d.forward").key is target.key
    with pytest.raises(TargetError, match="does not define forward"):
        resolve("torch.nn.ModuleList")


@pytest.fixture
def package(monkeypatch):
    """A third party's package, loaded."""
    module = types.ModuleType("thirdparty")
    source = """
import functools, torch

class Base(torch.nn.Module):
    def forward(self, x): return x
class Sub(Base): pass
class Wrapped(torch.nn.Module):
    @torch.no_grad()
    def forward(self, x): return x
class Other:
    @staticmethod
    def still(x): return x
    @classmethod
    def made(cls, x): return x
    def plain(self, x): return x
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): return g * 2
def function(x, y=1): return x
part = functools.partial(function, y=3)
kept = Other().plain
number = 3
"""
    exec(source, vars(module))
    monkeypatch.setitem(sys.modules, "thirdparty", module)
    return module


def test_inherited_forward_keeps_the_class_that_was_named(package):
    base, sub = resolve("thirdparty.Base"), resolve("thirdparty.Sub.forward")
    assert base.key is sub.key is vars(package.Base)["forward"]
    assert (base.owner, sub.owner) == (package.Base, package.Sub)


def test_what_lies_under_wrappers(package):
    assert resolve("thirdparty.Wrapped").function is package.Wrapped.forward.__wrapped__
    still = resolve("thirdparty.Other.still")
    assert isinstance(still.raw, staticmethod)
    assert still.function is package.Other.still
    assert resolve("thirdparty.Other.made").function is package.Other.made.__func__
    assert resolve("thirdparty.part").function is package.function
    assert resolve("thirdparty.kept").function is package.Other.plain
    assert innermost(len) is None


def test_autograd_functions(package):
    for text in ("thirdparty.Double", "thirdparty.Double.apply"):
        target = resolve(text)
        assert (target.kind, target.key) == ("autograd", package.Double)
        assert target.function is innermost(vars(torch.autograd.Function)["apply"])


def test_custom_operators():
    @torch.library.custom_op("hxtargets::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    keys = {resolve(t).key for t in ("hxtargets::twice", "torch.ops.hxtargets.twice",
                                     "hxtargets::twice.default")}  # fmt: skip
    assert keys == {"hxtargets::twice"}
    assert heard(lambda: twice(x)) == heard(lambda: torch.ops.hxtargets.twice(x)) == [*keys]


@pytest.mark.parametrize(
    "text, message",
    [
        ("relu", "not a target"),
        ("torch.add.", "not a target"),
        ("torch.nn.functional.rleu", "did you mean.*relu"),
        ("torch.nn.Conv2d.forwrad", "did you mean forward"),
        ("aten::ad", "did you mean"),
        ("aten::add.Tensr", "did you mean Tensor"),
        ("torch.Size", "is a class"),
        ("torch.nn.functional", "nobody calls"),
        ("thirdparty.number", "nobody calls"),
    ],
)
def test_targets_that_name_nothing(package, text, message):
    with pytest.raises(TargetError, match=f"(?s){message}") as error:
        resolve(text)
    assert not isinstance(error.value, NotInstalled)


def test_packages_that_are_not_there(tmp_path, monkeypatch):
    with pytest.raises(NotInstalled, match="no package 'nosuchpackage'"):
        resolve("nosuchpackage.layer")
    (tmp_path / "hxlater").mkdir()
    (tmp_path / "hxlater" / "__init__.py").write_text("")
    (tmp_path / "hxlater" / "inner.py").write_text("def f(x): return x\n")
    (tmp_path / "hxbroken.py").write_text("raise OSError('no driver')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert resolve("hxlater.inner.f").kind == "absent"
    assert "hxlater" not in sys.modules
    try:
        import hxlater  # noqa: F401

        assert resolve("hxlater.inner.f").kind == "absent"
        assert "hxlater.inner" not in sys.modules
        assert resolve("hxlater.inner.f", import_missing=True).function.__name__ == "f"
        with pytest.raises(TargetError, match="importing hxbroken failed"):
            resolve("hxbroken.f", import_missing=True)
    finally:
        sys.modules.pop("hxlater", None)
        sys.modules.pop("hxlater.inner", None)


def test_lazy_packages_are_not_made_to_import(tmp_path, monkeypatch):
    (tmp_path / "hxlazy").mkdir()
    (tmp_path / "hxlazy" / "__init__.py").write_text(
        "def __getattr__(name):\n    from . import deep\n    return getattr(deep, name)\n"
        "def __dir__(): return ['Layer']\n"
    )
    (tmp_path / "hxlazy" / "deep.py").write_text(
        "class Layer:\n    def run(self, x): return x\n"
    )  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)
    try:
        import hxlazy  # noqa: F401

        assert resolve("hxlazy.Layer.run").kind == "absent"
        assert "hxlazy.deep" not in sys.modules
        from hxlazy.deep import Layer

        assert resolve("hxlazy.Layer.run").function is Layer.run
    finally:
        sys.modules.pop("hxlazy", None)
        sys.modules.pop("hxlazy.deep", None)
