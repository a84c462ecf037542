"""TorchScript, whole or a part: its calls are seen one by one, and its sizes stay sizes."""

import enum
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from called import Call, asked
from torch import nn

import hx


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


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # the model reads a size as a float
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
    """One that decides on a number, which no graph carries out of its branches."""
    (escape,) = hx.scan(
        torch.jit.script(Choosing()), torch.randn(2, 3), dynamic={"x": {0: "b"}}
    ).escapes
    assert (escape.kind, escape.where.file) == ("branch", __file__)
    assert escape.where.line == line_of(Choosing.forward, "# here")


class Choosing(nn.Module):
    def forward(self, x):
        many = x.shape[0] > 3  # here
        return x * int(many)


class BySize(nn.Module):
    def forward(self, x):
        if x.shape[0] > 3:
            x = x * 2
        elif x.shape[1] != 3:
            x = x - 1
        return x


class BySum(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def forward(self, x):
        if bool(x.sum() > 0):
            y = self.linear(x)
            if x.mean() > 0.5:
                y = y.abs()
        else:
            y = -self.linear(x)
        return y + 1


class Narrowed(nn.Module):
    """The sizes of the two sides differ."""

    def forward(self, x):
        if x[0, 0] > 0:
            x = x[:, :2].contiguous()
        return x.sum(1)


class Complaining(nn.Module):
    def forward(self, x):
        if bool((x > 100).any()):
            raise ValueError("too large")
        return x * 2


@pytest.mark.parametrize("kind", [BySize, BySum, Narrowed])
def test_a_branch_of_a_script_that_tensors_or_sizes_decide_is_an_if(kind):
    """What people script for: PyTorch's older exporter has no other way to take both."""
    model = kind().eval()
    program = asked(
        torch.jit.script(model), torch.randn(2, 3), dynamic={"x": {0: "b"}}, strict=True
    )
    assert program.proof.ok and "If" in program.ops
    for n, shift in ((1, 0), (2, 1), (3, -1), (4, 2), (7, -2)):
        x = torch.randn(n, 3) + shift
        torch.testing.assert_close(program.run(x), model(x))


def test_a_branch_of_a_script_that_raises_is_left_out_and_told():
    program = asked(torch.jit.script(Complaining()), torch.randn(2, 3), dynamic={"x": {0: "b"}})
    assert [each.kind for each in program.report.escapes] == ["bool"] and program.ops == ["Mul"]


class OfAny(nn.Module):
    def forward(self, x: Any):
        if isinstance(x, torch.Tensor):
            return x + 1
        return x


class Listing(nn.Module):
    def forward(self, x):
        numbers: list[float] = x.tolist()
        return x * numbers[0]


def test_a_script_that_lists_the_numbers_of_a_tensor_is_told_as_python_is():
    program = asked(torch.jit.script(Listing()), torch.randn(3))
    assert [each.kind for each in program.report.escapes] == ["tolist"]


class OfNorms(nn.Module):
    def forward(self, x):
        if x.layout == torch.strided:  # as torch.norm asks
            x = x * 2
        return torch.norm(x, p="fro", dim=1, keepdim=False)


def test_the_layout_of_a_tensor_is_known_to_scripts():
    model = OfNorms()
    program = asked(torch.jit.script(model), torch.randn(3, 4), dynamic={"x": {0: "b"}})
    x = torch.randn(5, 4)
    torch.testing.assert_close(program.run(x), model(x))


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@torch.jit.interface
class Layer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass


class Wide(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu() * x.size(0)


class Held:
    def __init__(self, x: torch.Tensor):
        self.x = x
        self.count = 1

    def add(self, x: torch.Tensor):
        self.x = self.x + x
        self.count += 1


class OfObjects(nn.Module):
    """Objects of a class, an interface, a table of layers, an enumeration, no_grad, isinstance."""

    layer: Layer

    def __init__(self):
        super().__init__()
        self.layer, self.color, self.any = Wide(), Color.RED, OfAny()
        self.table = nn.ModuleDict({"wide": Wide()})

    def forward(self, x, name: str, color: Color):
        held = Held(x)
        for i in range(3):
            held.add(x * i)
        chosen: Layer = self.table[name]
        with torch.no_grad():
            y = chosen.forward(x) + self.layer.forward(held.x / held.count)
        if self.color == color:
            y = y + len(color.value)
        z = self.any(y)
        return z if isinstance(z, torch.Tensor) else y


def test_objects_of_scripts_are_as_in_python():
    model, given = torch.jit.script(OfObjects()), {"name": "wide", "color": Color.RED}
    program = asked(model, torch.randn(2, 3), kwargs=given, dynamic={"x": {0: "b"}})
    assert not program.report.escapes
    x = torch.randn(5, 3)
    torch.testing.assert_close(program.run(x), model(x, **given))


class Timed:
    def __init__(self, by: int):
        self.by = by

    def __enter__(self):
        self.by += 1

    def __exit__(self, kind: Any, error: Any, trace: Any):
        self.by -= 1


def test_what_hx_does_not_know_of_torchscript_is_named():
    class Letters(nn.Module):
        def forward(self, x):
            with Timed(1) as _:
                return x * x.size(0)

    with pytest.raises(
        hx.Unsupported, match=r"Letters is of TorchScript, and has a context manager"
    ):
        asked(torch.jit.script(Letters()), torch.randn(3))


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x, by: int):
        return self.fc(x) * by, x.size(0)


class Waits(nn.Module):
    """Threads that give several results, with names in them that are elsewhere others."""

    def __init__(self):
        super().__init__()
        self.scale = Scale()

    def forward(self, x):
        first = torch.jit.fork(self.scale, x, 3)
        second = torch.jit.fork(scripted, x + 1)
        x = x * 2
        y, n = torch.jit.wait(first)
        return y * n + x + torch.jit.wait(second)


class WaitsForAll(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = Scale()

    def forward(self, x):
        waiting: list[torch.jit.Future[tuple[torch.Tensor, int]]] = []
        for by in range(3):
            waiting.append(torch.jit.fork(self.scale, x, by))
        return torch.stack([torch.jit.wait(each)[0] for each in waiting])


class Writes(nn.Module):
    def forward(self, x):
        y = x * 1
        if x.size(0) > 1:
            torch.jit.wait(torch.jit.fork(torch.relu_, y))
        return y


@pytest.mark.parametrize("kind", [Waits, WaitsForAll, Writes])
def test_what_another_thread_would_compute_is_in_the_graph(kind):
    model = torch.jit.script(kind().eval())
    program = asked(model, torch.randn(2, 3), dynamic={"x": {0: "b"}}, verify=kind is not Writes)
    for b in (2, 5):
        x = torch.randn(b, 3)
        torch.testing.assert_close(program.run(x), model(x))
    assert all(each.kind == "branch" for each in program.report.escapes)


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
