"""Draws a model line by line, running it as it grows."""

from __future__ import annotations

import random
import re
import warnings
from typing import Any

import torch

from .model import Model, drawn, table
from .templates import DO, LOOP, MAKE

OTHER = ["bool", "float16", "float64", "int32", "uint8", "int8", "bfloat16"]


class Again(Exception):
    """Nothing fits here: draw something else."""


class Writer:
    """Draws one model, running it as it grows."""

    def __init__(self, seed: int, length: int) -> None:
        self.r = random.Random(seed)
        self.seed = seed
        self.space: dict[str, Any] = {"torch": torch, "math": math_module, "F": F, "self": Holder()}
        self.space["while_loop"] = torch._higher_order_ops.while_loop
        self.tensors: list[str] = []
        self.params: dict[str, tuple[int, ...]] = {}
        self.lines: list[str] = []
        self.length = length
        self.last = ""

    def draw(self) -> Model:
        r = self.r
        inputs, dynamic = self._inputs()
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            tries = 0
            while len(self.lines) < self.length and tries < 40 * self.length:
                tries += 1
                self._line()
        held = [n for n in self.tensors if n not in inputs] or list(inputs)
        outputs = [self._told(n) for n in r.sample(held, min(len(held), 6))]
        opset = r.choice([13, 14, 15, 16, 17, 18, 19, 20, 20, 20, 21, 22, 23, 24, 25, 26])
        params = {n: s for n, s in self.params.items() if any(f"self.{n}" in t for t in self.lines)}
        return Model(inputs, dynamic, params, self.lines, outputs, opset, self.seed)

    def _told(self, name: str) -> str:
        """Complex numbers are pairs in a file."""
        if self.space[name].is_complex():
            return f"torch.view_as_real({name}.resolve_conj().resolve_neg())"
        return name

    def _inputs(self):
        r = self.r
        words = {"b": r.choice([2, 3, 5]), "n": r.choice([4, 6, 7]), "m": r.choice([1, 5, 9])}
        inputs: dict[str, tuple[str, tuple[int, ...]]] = {}
        dynamic: dict[str, dict[int, str]] = {}
        for name in ["x", "y", "z"][: r.choice([1, 1, 2, 3])]:
            dtype = r.choice(["float32"] * 6 + ["int64"] * 2 + OTHER)
            if name == "x" and r.random() < 0.8:
                dtype = "float32"
            axes, shape = {}, []
            for axis in range(r.choice([1, 2, 2, 3, 3, 3, 4, 4])):
                word = (
                    r.choice(["b", "n", "m", "", "", ""]) if axis else r.choice(["b", "b", "n", ""])
                )
                shape.append(words[word] if word else r.choice([1, 2, 3, 4, 6, 8]))
                if word:
                    axes[axis] = word
            inputs[name] = (dtype, tuple(shape))
            dynamic[name] = axes
            self.space[name] = drawn(dtype, shape, 1000 * self.seed + len(inputs) - 1)
            self.tensors.append(name)
        return inputs, {k: v for k, v in dynamic.items() if v}

    def _line(self) -> None:
        r = self.r
        kind = r.random()
        before = dict(self.params)
        try:
            if kind < 0.78 or len(self.lines) == 0:
                self.last = ""
                name = f"v{len(self.lines)}"
                line = f"{name} = {self._filled(r.choice(MAKE))}"
            elif kind < 0.95:
                fresh = [t for t in self.tensors if t.startswith("v")]
                self.last = name = r.choice(fresh or self.tensors)
                if r.random() < 0.05:
                    self.last = name = r.choice(self.tensors)  # an input may be written to as well
                line = self._filled(r.choice(DO))
            else:
                self.last = name = r.choice(self.tensors)
                line = self._filled(r.choice(LOOP))
            exec(line, self.space)
            result = self.space[name]
            if result.numel() == 0 and r.random() < 0.95:
                raise Again
        except Exception:
            self.params = before
            return
        if not isinstance(result, torch.Tensor) or result.numel() > 3000 or result.dim() > 5:
            if name not in self.tensors:
                self.space.pop(name, None)
                return
        self.lines.append(line)
        if name not in self.tensors:
            self.tensors.append(name)

    # Templates.

    def _filled(self, template: str) -> str:
        # Left to right, as some refer to what was drawn before.
        return re.sub(r"\{([a-z]+\d?\+?)(?::([\d,]+))?\}", self._hole, template)

    def _hole(self, match: re.Match) -> str:
        word, detail = match.groups()
        if word == "w":
            return self._param(tuple(map(int, detail.split(","))))
        found = re.fullmatch(r"([tfibhz])(\d)?(\+)?", word)
        if found:
            return self._tensor(*found.groups())
        return getattr(self, f"_{word}")()

    def _tensor(self, kind: str, rank: str | None, more: str | None) -> str:
        def fits(name: str) -> bool:
            t = self.space[name]
            if rank is not None and not (t.dim() >= int(rank) if more else t.dim() == int(rank)):
                return False
            if kind == "f":
                return t.dtype == torch.float32
            if kind == "h":
                return t.is_floating_point()
            if kind == "z" or t.is_complex():
                return t.is_complex() and (kind == "z" or (kind == "t" and self.r.random() < 0.1))
            if kind in "ib":
                return t.dtype == (torch.int64 if kind == "i" else torch.bool)
            return True

        names = [n for n in self.tensors if fits(n)]
        if not names:
            raise Again
        # Rather the newer ones: chains are what models are.
        self.last = self.r.choice(names[-4:] if self.r.random() < 0.6 else names)
        return self.last

    def _value(self) -> torch.Tensor:
        return self.space[self.last]

    def _x(self) -> str:
        return self.last

    def _xf(self) -> str:
        if not self._value().is_floating_point():
            raise Again
        return self.last

    def _xz(self) -> str:
        if not self._value().is_complex():
            raise Again
        return self.last

    def _like(self) -> str:
        x, r = self._value(), self.r
        kind = r.random()
        if kind < 0.15:
            return self._c()
        if kind < 0.25:
            return self._k()
        if kind < 0.4:
            return self._n()
        if kind < 0.5:
            return self._r()
        if kind < 0.7:
            return self._same()
        if kind < 0.8 and x.dim():
            return f"{self.last}.mean({self._d()}, keepdim=True)"
        names = [n for n in self.tensors if _broadcast(x, self.space[n])]
        return r.choice(names)

    def _same(self) -> str:
        x = self.last
        names = [n for n in self.tensors if self.space[n].shape == self._value().shape]
        return self.r.choice([x, f"{x} * 2", f"{x}.flip(0)", *names])

    def _ax(self) -> str:
        return str(self.axis)

    def _d(self) -> str:
        rank = self._value().dim()
        if not rank:
            raise Again
        self.axis = self.r.randrange(rank)
        return str(self.axis if self.r.random() < 0.6 else self.axis - rank)

    def _dd(self) -> str:
        rank = self._value().dim()
        return str(sorted(self.r.sample(range(rank), 2)))

    def _ddargs(self) -> str:
        return self._dd()[1:-1]

    def _perm(self) -> str:
        rank = self._value().dim()
        return ", ".join(map(str, self.r.sample(range(rank), rank)))

    def _reps(self) -> str:
        return ", ".join(str(self.r.choice([1, 1, 2])) for _ in range(self._value().dim())) or "2"

    def _k(self) -> str:
        return str(self.r.choice([1, 2, 3]))

    def _c(self) -> str:
        return self.r.choice(["0.5", "1.25", "0.1", "2.0", "-0.75"])

    def _axis_of(self) -> str:
        r = self.r
        name = r.choice(self.tensors)
        rank = self.space[name].dim()
        if not rank:
            return f"{name}.numel()"
        if r.random() < 0.1:
            return f"len({name})"
        axis = r.randrange(-rank, rank)
        return r.choice([f"{name}.shape[{axis}]", f"{name}.size({axis})"])

    def _n(self) -> str:
        """A number computed from sizes that is not negative, and small."""
        r = self.r
        for _ in range(10):
            a = self._axis_of()
            if r.random() < 0.25:  # of sizes that were themselves computed
                b = self._axis_of()
                a = r.choice([f"({a} + {b} - 1)", f"({a} * 3 // 2)", f"(({a} - 1) // 2 + 1)",
                              f"(({a} + 2 * 1 - 3) // 2 + 1)", f"max({a}, {b} // 2)",
                              f"({a} % {b} + 1)", f"(-{a} % 4)", f"({a} - {a} % 2)"])  # fmt: skip
            text = r.choice([
                a, a, a, a, f"({a} * 2)", f"({a} + 1)", f"({a} * 2 + 1)", f"({a} // 2)", f"({a} % 3)",
                f"(({a} + 1) // 2)", f"max({a}, 3)", f"min({a}, 4)", f"max({a} - 2, 1)", f"abs(3 - {a})",
                f"({a} * {self._axis_of()} // 2)", f"min({a}, {self._axis_of()})", f"max({a}, {self._axis_of()})",
                f"({a} - {self._axis_of()} + 8)", f"(-(-{a} // 2))", f"(({a} - 5) // 2 + 3)", f"(({a} - 5) % 4)",
                f"math.ceil({a} / 2)", f"round({a} * 0.75)", f"({a} << 1)", f"({a} ** 2)", f"int({a} * 2)",
                f"(7 // max({a}, 1))", f"({a} & 3)", f"divmod({a}, 3)[1]", f"math.isqrt({a})",
                f"int({a} * 0.7)", f"int({a} / 3)", f"int(math.sqrt({a}) + 1)",
                f"int(2.5 * {a} % 7)", f"{r.choice(self.tensors)}.shape.numel() % 7",
            ])  # fmt: skip
            value = eval(text, self.space)
            if 0 <= value <= 24:
                self.n0 = text
                return text
        raise Again

    def _n0(self) -> str:
        """The size that was drawn last, again."""
        return self.n0

    def _r(self) -> str:
        a, r = self._axis_of(), self.r
        return r.choice([
            f"({a} / 4)", f"({a} ** -0.5)", f"(1 / {a})", f"math.sqrt({a})", f"({a} * 0.25)",
            f"({a} / {self._axis_of()})", f"math.log({a} + 2)", f"math.exp(-{a})", f"({a} / 2 // 1)",
            f"max({a} / 3, 1.0)", f"({a} / 2 - {self._axis_of()})", f"(1.5 * {a})", f"(1.0 / {a})",
                f"float({a})", f"(2.0 - {a})", f"({a} * 0.1 + {self._axis_of()})",
                f"(({a} - 1) * 0.5)", f"(1 - 1 / {a})",
        ])  # fmt: skip

    def _part(self) -> str:
        r = self.r

        def bound() -> str:
            kind = r.random()
            if kind < 0.4:
                return ""
            if kind < 0.75:
                return str(r.randint(-3, 3))
            return self._n() if kind < 0.9 else f"-{self._n()}"

        step = r.choice(["", "", "", " :2", " :3"]).replace(" ", "")
        return f"{bound()}:{bound()}{step}"

    def _at(self) -> str:
        r, rank = self.r, self._value().dim()
        parts = []
        for _ in range(r.randint(1, max(rank, 1))):
            kind = r.random()
            if kind < 0.5:
                parts.append(self._part())
            elif kind < 0.65:
                parts.append(str(r.choice([0, -1, 1])))
            elif kind < 0.75:
                parts.append("None")
            elif kind < 0.82:
                parts.append("[0, -1]")
            elif kind < 0.88:
                parts.append("torch.tensor([0, 0])")
            else:
                parts.append(":")
        if r.random() < 0.3:
            parts.insert(r.randint(0, len(parts)), "...")
        self.place = ", ".join(parts)
        return self.place

    def _at2(self) -> str:
        return self.place

    def _shape(self) -> str:
        """A shape in sizes of the tensor itself."""
        name, r = self.last, self.r
        rank = self._value().dim()
        sizes = [f"{name}.shape[{i}]" for i in range(rank)]
        if rank < 1:
            return "1, 1"
        i = r.randrange(rank)
        if r.random() < 0.4 and rank > 1 and i < rank - 1:
            sizes[i : i + 2] = [f"{sizes[i]} * {sizes[i + 1]}"]
        elif r.random() < 0.5:
            value = self._value().shape[i]
            if value % 2 == 0:
                sizes[i : i + 1] = r.choice([["2", f"{sizes[i]} // 2"], [f"{sizes[i]} // 2", "2"]])
            else:
                sizes[i : i + 1] = [sizes[i], "1"]
        if r.random() < 0.4:
            sizes[r.randrange(len(sizes))] = "-1"
        if r.random() < 0.15:
            return f"*{name}.shape, 1"
        return ", ".join(sizes)

    # Layers.

    def _param(self, shape: tuple[int, ...]) -> str:
        name = "w" + "_".join(map(str, shape))
        self.params[name] = shape
        setattr(self.space["self"], name, table(shape))
        return f"self.{name}"

    def _f_of_rank(self, rank: int) -> tuple[str, torch.Size]:
        name = self._tensor("f", str(rank), None)
        return name, self.space[name].shape

    def _lin(self) -> str:
        name = self._tensor("f", "1", "+")
        n = self.space[name].shape[-1]
        bias = self._param((3,)) if self.r.random() < 0.5 else "None"
        return f"F.linear({name}, {self._param((3, n))}, {bias})"

    def _conv1(self) -> str:
        name, shape = self._f_of_rank(3)
        more = self.r.choice(
            ["", ", padding=1", ", stride=2, padding=1", ", dilation=2, padding=2"]
        )
        return f"F.conv1d({name}, {self._param((2, shape[1], 3))}{more})"

    def _conv2(self) -> str:
        name, shape = self._f_of_rank(4)
        if self.r.random() < 0.25:
            return f"F.conv2d({name}, {self._param((shape[1], 1, 3, 3))}, padding=1, groups={shape[1]})"
        more = self.r.choice(
            ["", ", padding=1", ", stride=2, padding=1", ", padding='same'", ", padding=(0, 1)"]
        )
        return f"F.conv2d({name}, {self._param((2, shape[1], 3, 3))}{more})"

    def _deconv2(self) -> str:
        name, shape = self._f_of_rank(4)
        more = self.r.choice(["", ", stride=2", ", stride=2, padding=1, output_padding=1"])
        return f"F.conv_transpose2d({name}, {self._param((shape[1], 2, 2, 2))}{more})"

    def _pool1(self) -> str:
        name, _ = self._f_of_rank(3)
        return f"F.{self.r.choice(['max', 'avg'])}_pool1d({name}, 2{self._pooling()})"

    def _pool2(self) -> str:
        name, _ = self._f_of_rank(4)
        return f"F.{self.r.choice(['max', 'avg'])}_pool2d({name}, 2{self._pooling()})"

    def _pooling(self) -> str:
        return self.r.choice(["", ", 1", ", 2, 1", ", ceil_mode=True", ", 3, 1, ceil_mode=True"])

    def _norm(self) -> str:
        r = self.r
        name = self._tensor("f", "2", "+")
        shape = self.space[name].shape
        kind = r.choice(["layer", "layer", "group", "instance", "batch", "rms"])
        if kind in ("layer", "rms"):
            n = shape[-1]
            weight = f", {self._param((n,))}" if r.random() < 0.5 else ""
            size = f"({n},)" if r.random() < 0.7 else f"({name}.shape[-1],)"
            return f"F.{kind}_norm({name}, {size}{weight})"
        if kind == "group":
            return f"F.group_norm({name}, 1)"
        if kind == "instance":
            return f"F.instance_norm({name})"
        c = shape[1]
        return f"F.batch_norm({name}, {self._param((c,))}, {self._param((c,))}.abs() + 0.5)"


class Holder:
    pass


F = torch.nn.functional
math_module = __import__("math")


def _broadcast(a: torch.Tensor, b: torch.Tensor) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a.shape[::-1], b.shape[::-1]))


def draw(seed: int, length: int = 0) -> Model:
    r = random.Random(seed)
    return Writer(seed, length or r.choice([2, 3, 5, 8, 12])).draw()
