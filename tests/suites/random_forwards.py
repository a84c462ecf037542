"""Forwards drawn by chance, which go round as often as a size says, or until what tensors hold ends
that, or branch on it; loops over kinds, places and cells, one within the other; and such as ask of
sizes what is left over of them, and pad, cut, or resize.

    python -m tests.suites.random_forwards loops --seed 0 --count 150
    python -m tests.suites.random_forwards pieces --count 150
    python -m tests.suites.random_forwards asked --count 60
    python -m tests.suites.random_forwards untils --count 100
    python -m tests.suites.random_forwards branches --count 100
    python -m tests.suites.random_forwards sizes --seed 3000 --count 60
    python -m tests.suites.random_forwards nested --count 60

Each is exported with sizes that may change, and its file compared with the model at others. What the
export refuses is counted, and what it promises for some sizes alone, or tells as an escape; a file
that is wrong otherwise ends the run with 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch

import hx

_START = "x[:, 0]|torch.zeros(x.shape[0], 4)|x.mean(1)|torch.zeros_like(x[:, 0])|x[:, -1] * 0.5"
_OVER = """i in range(x.shape[1])|i in range(1, x.shape[1])|i in reversed(range(x.shape[1]))
i in range(x.shape[1] - 1)|i in range(x.shape[1] - 1, -1, -1)|i in range(x.shape[1] // 2)
i in range(0, x.shape[1], 2)|i, row in enumerate(x.unbind(1))|i in range(len(x[0]))
row, back in zip(x.unbind(1), x.flip(1).unbind(1))""".replace("\n", "|")
_STEPS = """torch.tanh({a} + {b})|{a} * 0.5 + {b}|self.layer({a})|torch.where({a} > 0, {a}, {b} * 0.1)
{a}.softmax(-1)|torch.maximum({a}, {b})|self.cell({c}, {a})|{a} * {b}.sigmoid()""".replace(
    "\n", "|"
)
_COUNTED = "{a} + {b} * i * 0.1|{a} * 0.5 + (i + 1) * 0.01|{a} * 0.5 / (i + 1)|x[:, :i + 1].mean(1)"
_BEHIND = """torch.stack(outs, 1)|torch.stack(outs)|torch.cat(outs, -1)|torch.stack(outs[::-1], 1)
torch.cat([o.unsqueeze(1) for o in outs], 1)|torch.stack(outs, 1).mean(1)|sum(outs)
torch.stack(outs, 2).flatten(1)|self.layer(torch.stack(outs, 1))|outs[-1]|outs[0] + outs[-1]
torch.stack([o * 2 for o in outs], 1)|torch.stack(outs, 1)[:, -1]|torch.stack(outs[1:], 1)
torch.stack(outs, 1).transpose(0, 1).cumsum(0)""".replace("\n", "|")
# What rounds cut or find along axis 0 of a row, or axis 1 of the whole: each is as long as it is.
_PIECES = """0|row in x.unbind(1)|row[row[:, 0] > 0.1]
0|i in range(x.shape[1])|x[:, i][x[:, i].sum(-1) > 0]
0|i, row in enumerate(x.unbind(1))|row[(row > 0.5).any(-1)] + i
0|row in x.flip(1).unbind(1)|(row > 0.3).nonzero().float() @ torch.ones(2, 4)
1|p in x.split(3, 1)|p
1|p, q in zip(x.split(2, 1), x.flip(1).split(2, 1))|p + q
1|i, p in enumerate(x.split(4, dim=1))|p * (i + 1)
1|i in range(0, x.shape[1], 3)|x[:, i : i + 3]
1|i in range(x.shape[1])|x[:, i:]
1|i in range(1, x.shape[1])|x[:, :i]""".split("\n")
_OF_A_PIECE = """torch.relu({p}) + 0.1|self.layer({p})|{p}.softmax(-1)|{p}.cumsum({a})|{p}.flip({a})
{p} * {p}.shape[{a}]|{p} - {p}.sum({a}, keepdim=True)|torch.cat([{p}, {p} * 2], {a})|{p} * h.mean()
{p}.reshape(-1, {p}.shape[{a}], 4).sum(0) if {a} else {p}.abs()""".replace("\n", "|")
_OF_PIECES = """torch.cat(outs, {b})|torch.cat(outs[1:], {b})|torch.cat(outs, {b}).cumsum({b})
torch.stack([o.sum({b}) for o in outs])|torch.tensor([o.shape[{b}] for o in outs])|outs[-1] * h.mean()
torch.nn.utils.rnn.pad_sequence([o.transpose(0, {b}) for o in outs])""".replace("\n", "|")
_ASKED = """{a}.sum() > {n}|({a} > 0.5).any()|{a}.mean().item() < {n}|{a}.max() > 1.25
not torch.all({a} >= 0)|{a}[0, 0] > {a}[-1, -1]|x.shape[0] > 3|x.shape[0] % 2 == 0""".replace(
    "\n", "|"
)
_ENDS = """h.abs().max() < {t}|h.norm() < {t}|(h.abs() < {t}).all()|h.mean().abs().item() < {t}
(h - g).abs().sum() < {t}|z.abs().sum() > 9 + {t}|not (h.abs() > {t}).any()""".replace("\n", "|")
_ROUND = """z = z + h.sum(0)|k += 1|k += 2|outs.append(h)|g = h|g = g * 0.5 + h|z = z * 0.9 + k
h = torch.tanh(h) + 0.01 * z|h = self.layer(h) * 0.5|h = h.roll(1, 1)|h = h - h.mean(1, keepdim=True)
z = torch.maximum(z, h.amax(0))|g, h = h, g * 0.8|h = torch.where(h > 0.5, h - 0.3, h)""".replace(
    "\n", "|"
)
_ENDED = (
    "h|g|z|torch.stack(outs, 1)|torch.tensor(k)|h * len(outs)|outs[-1] + g|torch.cat(outs).sum(0)"
)
# What is asked of two sizes, and done then.
_OF_SIZES = """{n} % {k} != 0|{n} % {k} == 0|{n} % {k} > 0|{n} % {k}|{n} % {k} == 1|-{n} % {k} > 0|a == b
a != b|{n} == {r}|{n} != {r}|{n} > {r}|{n} < {r}|{n} <= {r}|{n} == 1""".replace("\n", "|")
_SIZED = """x = F.pad(x, ({z}0, {k} - {n} % {k}))|x = F.pad(x, ({z}0, -{n} % {k}))|x = x + 1|x = x * 2
x = F.pad(x, ({z}0, ({n} // {k} + 1) * {k} - {n}))|x = x.narrow({axis}, 0, {n} // {k} * {k})
x = x.narrow({axis}, 0, {n} - {n} % {k})|x = x.exp() / 10|x = x * ({n} // {k} + 1)
x = x - x.mean({axis}, keepdim=True)|x = F.interpolate(x[None, None], size=({n}, b))[0, 0]""".replace(
    "\n", "|"
)
# Over what data or sizes say there is, what each round has of it, and which rows of x are its own.
_KINDS = """kind in y.unique()|(y == kind).float() @ x + kind|y == kind
kind in y.unique().tolist()|x[y == kind].sum(0)|y == kind
kind in range(int(y.max()) + 1)|x[y == kind].sum(0) * 0.5|y == kind
place in (y > 1).nonzero()[:, 0]|x[place]|y == y[place]
place in torch.where(y > 0)[0].tolist()|x[place] * 0.5|y > 0
row in x|row|y > 1
row in x[y > 1]|row * 0.5|y <= 1
side in z.unique()|x.sum(0) * side * 0.1|y > side
n in z|x.mean(0) + n|y > 1
i in range(z.shape[0])|x[0] + z[i]|y > 0
i in range(len(y))|x[i] - y[i]|y == y[i]""".split("\n")
_WITHIN = """row in x[{own}]|row|{own}
row in x[({own}).nonzero()[:, 0]]|row * 0.5|{own}
cell in {a}|cell + x[0]|{own}""".split("\n")
_NESTED = """h = torch.tanh(h * 0.5 + {a})|outs.append({a})|outs.append(h)|total = total + {a} * 0.1
total = torch.maximum(total, {a})|h = h * 0.9 + {a}.softmax(-1)|outs.append(torch.tanh({a}) + h)""".replace(
    "\n", "|"
)
_JOINED = "torch.stack(outs)|torch.stack(outs, 1)|torch.cat(outs)|torch.stack(outs).mean(0)"
_TAB = "        "
_HEAD = """import torch
import torch.nn.functional as F
from torch import nn


class Drawn(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.cell = nn.Linear(4, 4), nn.GRUCell(4, 4)

    def forward(self, {names}):
"""


SIZED = ("loops", "pieces", "asked")


class Drawing:
    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def _one(self, choices: str, **words: str) -> str:
        return self._chance.choice(choices.split("|")).format(**words)

    def _often(self, share: float) -> bool:
        return self._chance.random() < share

    def loops(self) -> str:
        """A loop, what it carries, and what becomes of what each of its rounds made."""
        states = ["h", "g"][: self._chance.randint(1, 2)]
        lines = [f"{state} = {self._one(_START)}" for state in states]
        lines += [f"y = {self._one('torch.zeros_like(x)|x.clone()')}", "outs = []"]
        lines += ["outs.append(h)"] if self._often(0.3) else []
        over = self._one(_OVER)
        rows = ["row"] if "row" in over else ["x[:, i]"]
        rows = ["x[:, 2 * i]", "x[:, i * 2 : (i + 1) * 2].sum(1)"] if "// 2" in over else rows
        counts = over.startswith(("i ", "i,"))

        def step() -> str:
            a, b = (self._chance.choice(states + rows) for _ in range(2))
            more = counts and over == "i in range(x.shape[1])" and self._often(0.2)
            return self._one(_COUNTED if more else _STEPS, a=a, b=b, c=self._chance.choice(rows))

        body = []
        for _ in range(self._chance.randint(1, 4)):
            body.append(f"{self._chance.choice(states)} = {step()}")
            if counts and self._often(0.12):
                body += ["if i > 0:", f"    {self._chance.choice(states)} = {step()}"]
            if self._often(0.1):
                body += ["for k in range(2):", f"    {self._chance.choice(states)} = {step()}"]
        if counts and self._often(0.3):
            body.append(f"y[:, i] {self._one('=|+=')} {self._chance.choice(states)}")
        body.append(f"outs.append({step()})")
        lines += [f"for {over}:", *(f"    {line}" for line in body), f"z = {self._one(_BEHIND)}"]
        return self._source([*lines, f"return z, {self._chance.choice(states)}, y"])

    def asked(self) -> str:
        """A loop that asks in its rounds what is in a tensor."""
        names = ["h", "g", "x[:, i]"]
        lines = [f"{state} = {self._one(_START)}" for state in names[:2]] + ["outs = []"]

        def step() -> str:
            a, b = (self._chance.choice(names) for _ in range(2))
            return f"{self._chance.choice('hg')} = {self._one(_STEPS, a=a, b=b, c=names[2])}"

        body = []
        for asks in self._chance.choice(((True,), (False, True), (True, False), (True, True))):
            if not asks:
                body.append(step())
                continue
            body += [f"if {self._question(names)}:", f"    {step()}"]
            if self._often(0.3):
                body += [f"elif {self._question(names)}:", f"    {step()}"]
            body += ["else:", f"    {step()}"] if self._often(0.4) else []
        body += [f"outs.append({self._chance.choice(names)})"] if self._often(0.6) else []
        over = self._one("i in range(x.shape[1])|i in range(x.shape[1] - 1, -1, -1)")
        lines += [f"for {over}:", *(f"    {line}" for line in body)]
        lines.append("z = torch.stack(outs, 1) if outs else h * 2")
        return self._source([*lines, f"return z, {self._chance.choice('hg')}"])

    def pieces(self) -> str:
        """A loop over what is as long as it happens to be, and what becomes of these."""
        axis, over, piece = self._chance.choice(_PIECES).split("|")
        lines = ["h = x.mean((0, 1))", "outs = []", f"for {over}:", f"    o = {piece}"]
        along = axis
        for _ in range(self._chance.randint(0, 3)):
            step = self._one(_OF_A_PIECE, p="o", a=along)
            along = "0" if step.endswith(f"if {axis} else o.abs()") else along
            lines.append(f"    o = {step}")
            if self._often(0.3):
                lines.append(f"    h = h * 0.5 + o.sum({along}).reshape(-1, 4).mean(0)")
        lines += ["    outs.append(o)", f"z = {self._one(_OF_PIECES, b=along)}"]
        return self._source([*lines, "return z, h"])

    def untils(self) -> str:
        """A loop that data end, at any place of a round, and what is read behind it."""
        lines = ["h, g, z, k, outs = x, x * 0.5, torch.zeros(4), 0, [x]"]
        body = [self._one(_ROUND) for _ in range(self._chance.randint(1, 4))]
        body.append("h = h * 0.6")
        ends = self._one(_ENDS, t=f"{10 ** self._chance.uniform(-2, 0.5):.3f}")
        if self._often(0.4):
            shrinks = ends.replace("z.abs().sum() > 9 +", "h.abs().max() <").replace("- g", "")
            lines.append(f"while not ({shrinks}):")
            body = [line for line in body if "layer" not in line and "0.01" not in line]  # it ends
        else:
            lines.append(f"for _ in range({self._chance.choice((4, 9, 20, 60))}):")
            body.insert(self._chance.randint(0, len(body)), f"if {ends}: break")
        lines += [f"    {line}" for line in body]
        ended = (self._one(_ENDED) for _ in range(self._chance.randint(1, 3)))
        return self._source([*lines, f"return {', '.join(ended)}, h"])

    def nested(self) -> str:
        """Loops over kinds, places and rows, one behind or within the other, which fill one list."""
        lines = ["h, total, outs = x.mean(0), torch.zeros(4), [x.sum(0)]"]
        for _ in range(self._chance.randint(1, 2)):
            lines += self._loop(0)
        source = self._source([*lines, f"return {self._one(_JOINED)}, h, total"], "x, y, z")
        return source

    def _loop(self, depth: int, own: str = "", a: str = "") -> list[str]:
        words = self._chance.choice(_KINDS)
        if depth and self._often(0.4):
            words = self._chance.choice(_WITHIN)
        # Each depth has its own names; those of the one around it come in behind.
        words = re.sub(r"\b(kind|place|row|side|n|i|cell)\b", rf"\g<1>{depth or ''}", words)
        over, of_it, mine = words.format(own=own, a=a).split("|")
        body = [self._one(_NESTED, a=f"({of_it})") for _ in range(self._chance.randint(1, 2))]
        if depth < 2 and self._often(0.5 if depth == 0 else 0.25):
            at = self._chance.randint(0, len(body))
            body[at:at] = self._loop(depth + 1, mine, f"({of_it})")
        return [f"for {over}:", *(f"    {line}" for line in body)]

    def branches(self) -> str:
        lines, names = ["y = x * 1.5"], ["x", "y"]
        for _ in range(self._chance.randint(1, 3)):
            lines += self._branch(names, 0)
        if self._often(0.3):
            lines.append(f"if {self._question(names)}: return y * 2, x")
        return self._source([*lines, f"return y, {self._chance.choice(names)}"])

    def sizes(self) -> str:
        """Branches on what is left over of two sizes, on whether they are equal, on how large."""
        lines = []
        for _ in range(self._chance.randint(1, 3)):
            ask = self._of_sizes(_OF_SIZES)
            if self._often(0.3):
                ask += f" {self._one('or|and')} {self._of_sizes(_OF_SIZES)}"
            lines += ["a, b = x.shape", f"if {ask}:"]
            if self._often(0.3):
                lines += [
                    f"    if {self._of_sizes(_OF_SIZES)}:",
                    f"        {self._of_sizes(_SIZED)}",
                ]
                lines += ["    else:"] + [f"        {self._of_sizes(_SIZED)}"]
            else:
                lines.append(f"    {self._of_sizes(_SIZED)}")
            lines += ["else:", f"    {self._of_sizes(_SIZED)}"] if self._often(0.35) else []
            lines += ["x = x + x.amax(1, keepdim=True)"] if self._often(0.5) else []
        return self._source([*lines, "return (x,)"])

    def _of_sizes(self, choices: str) -> str:
        axis = self._chance.choice((0, 1))
        words = {"n": "ab"[axis], "axis": str(axis), "z": "0, 0, " if axis == 0 else ""}
        k, r = self._chance.choice("234"), self._chance.choice(("5", "6", "8", "12", "16"))
        return self._one(choices, k=k, r=r, **words)

    def _question(self, names: list[str]) -> str:
        return self._one(
            _ASKED, a=self._chance.choice(names), n=f"{self._chance.uniform(-1, 1):.2f}"
        )

    def _branch(self, names: list[str], depth: int) -> list[str]:
        def step() -> str:
            a, b = (self._chance.choice(names) for _ in range(2))
            return f"y = {self._one(_STEPS, a=a, b=b, c=a)}"

        inner = [step()]
        if depth < 2 and self._often(0.3):
            inner += self._branch(names, depth + 1)
        lines = [step(), f"if {self._question(names)}:", *(f"    {line}" for line in inner)]
        return [*lines, "else:", f"    {step()}"] if self._often(0.5) else lines

    @staticmethod
    def _source(lines: list[str], names: str = "x") -> str:
        return _HEAD.replace("{names}", names) + "".join(f"{_TAB}{line}\n" for line in lines)


def drawn(kind: str, seed: int, folder: Path) -> tuple[torch.nn.Module, str]:
    source = getattr(Drawing(seed), kind)()
    path = folder / f"{kind}_{seed}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(seed)
    return module.Drawn().eval(), source


def inputs(kind: str) -> Iterator[tuple[torch.Tensor, ...]]:
    if kind == "nested":
        for n, kinds, m in ((7, 3, 3), (12, 5, 2), (3, 2, 5), (1, 1, 1), (30, 9, 4), (5, 5, 1)):
            yield torch.randn(n, 4), torch.randint(kinds, (n,)), torch.randint(3, (m,))
        return
    for x in _of_one(kind):
        yield (x,)


def given(kind: str) -> tuple[tuple[torch.Tensor, ...], dict[str, dict[int, str]]]:
    """What is recorded, and the axes that may change."""
    if kind == "nested":
        y, z = torch.tensor([0, 2, 1, 3, 2, 2, 0]), torch.tensor([1, 0, 2])
        return (torch.randn(7, 4), y, z), {"x": {0: "n"}, "y": {0: "n"}, "z": {0: "m"}}
    if kind == "sizes":
        return (torch.randn(8, 12),), {"x": {0: "a", 1: "b"}}
    if kind in SIZED:
        return (torch.randn(3, 6, 4),), {"x": {0: "b", 1: "n"}}
    return (torch.randn(3, 4),), {"x": {0: "b"}}


def _of_one(kind: str) -> Iterator[torch.Tensor]:
    if kind in SIZED:
        for b, n in ((3, 6), (2, 9), (1, 4), (4, 17), (5, 2), (2, 3), (1, 30), (3, 8), (2, 1)):
            yield torch.randn(b, n, 4)
        return
    if kind == "sizes":
        for a in (*range(1, 20), 33, 40):
            for b in (*range(1, 20, 2), 8, 12, 36):
                yield torch.rand(a, b)
        return
    for b in (3, 1, 2, 4, 7):
        for scale in (1.0, 0.1, 3.0):  # onnxruntime rounds what a sigmoid has far out
            for shift in (0.0, 0.7, -0.7, 2.0):
                yield torch.randn(b, 4) * scale + shift


def outcome(kind: str, model: torch.nn.Module) -> str:
    """What comes of an export: joined, looped or plain, promised, told, refused, or wrong."""
    recorded, dynamic = given(kind)
    try:
        program = hx.export(model, recorded, None, dynamic=dynamic)
    except hx.VerificationError:
        return "refused"
    report = program.report
    notes = " ".join(report.notes)
    what = "joined" if "both ways" in notes else "looped" if "a loop in" in notes else "plain"
    if any(not escape.carried for escape in report.escapes):
        what += ", promised" if report.promised else ", told"
    for tensors in inputs(kind):
        at = ", ".join(str(list(tensor.shape)) for tensor in tensors)
        try:
            want = model(*tensors)
        except Exception:  # the model's own, at a size that it does not take
            continue
        try:
            got = program.run(*tensors)
        except hx.UsageError:
            continue  # not promised
        except (
            Exception
        ) as error:  # whatever is raised: a file that does not run is counted as wrong
            return f"{what} and wrong, as it does not run, at {at}: {error}"
        for a, b in zip(got, want, strict=True):
            if a.shape != b.shape or not torch.allclose(a, b, 1e-3, 1e-4, equal_nan=True):
                return f"{what} and wrong at {at}"
    return what


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kind", choices=(*SIZED, "untils", "branches", "sizes", "nested"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_grad_enabled(False)
    found: Counter[str] = Counter()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(asked.seed, asked.seed + asked.count):
            model, source = drawn(asked.kind, seed, Path(folder))
            what = outcome(asked.kind, model)
            found[what.partition(" at")[0]] += 1
            if "wrong" in what:
                wrong += "told" not in what or asked.kind == "sizes"
                print(f"--- seed {seed}: {what}\n{source}", flush=True)
    print("; ".join(f"{n} {what}" for what, n in found.most_common()))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
