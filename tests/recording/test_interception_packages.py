"""Functions and methods of other packages, wherever a model keeps them; heirs of classes."""

from __future__ import annotations

import functools
import importlib
import sys
import textwrap

import pytest
import torch
from called import Call, asked, speaks
from torch import nn

import hx

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
